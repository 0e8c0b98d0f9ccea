"""Who is judged: the identity of a subject, by which a RED attempt is known again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import sha256_json
from lqw.outcomes import Arm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lqw.params import EngineSpec, Params
    from lqw.samples import StartRecord

__all__ = ["binary_of", "subject_of", "subject_sha256"]


def subject_sha256(spec: EngineSpec, binary_sha256: str, models: Mapping[str, str]) -> str:
    """Return the hash of engine, binary, declared settings and environment, and model bytes.

    A run of another binary, or with other settings, is another subject: it may be measured after a RED one.
    """
    return sha256_json(
        {
            "engine": spec.engine,
            "binary_sha256": binary_sha256,
            "settings": spec.settings,
            "env": spec.env,
            "models": dict(models),
        }
    )


def subject_of(params: Params, models: Mapping[str, str], starts: Iterable[StartRecord]) -> str:
    """Return the subject of a run."""
    return subject_sha256(params.release.subject, binary_of(params, starts), models)


def binary_of(params: Params, starts: Iterable[StartRecord]) -> str:
    """Return the sha256 of the program that ran as the subject, or, where none became ready, of the declared one."""
    ran = (one.engine.binary_sha256 for one in starts if one.arm is Arm.SUBJECT and one.engine is not None)
    return next(ran, params.release.subject.sha256 or "")
