"""Prompts as token ids: cut from the corpus, exact in length, each with a first token of its own.

Within one start no two requests share their first token, so no engine can reuse a prefix it was not meant to, even one
whose cache cannot be turned off. A request gets the same ids in every pair, from both engines and in every release of
one protocol: prompts depend on protocol and corpus, never on the release's seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, read_json, sha256_bytes, sha256_json, write_atomic
from lqw.errors import IntegrityError, ParamsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lqw.params import LaunchSpec, Params, StepSpec

__all__ = ["Key", "PromptSet", "PromptStore", "due", "make_prompts", "seed_of"]

_SCHEMA = "lqw-prompts/1"
Key = tuple[str, str, int, int]  # step, role, repeat, stream


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Every prompt of one model: ``ids[step, role, repeat, stream]``, and its text where an engine takes text."""

    ids: dict[Key, tuple[int, ...]]
    texts: dict[Key, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Return the hash over all keys, ids and texts."""
        texts = [[*key, text] for key, text in sorted(self.texts.items())]
        return sha256_json([[*key, list(ids)] for key, ids in sorted(self.ids.items())] + texts)


def due(step: StepSpec) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield (step, role, repeat, stream, tokens) of every prompt that needs a first token of its own."""
    for role, count in (("warmup", step.warmups), ("timed", max(step.repeats, step.max_repeats))):
        for repeat in range(count):
            for stream in range(step.streams):
                tokens = step.suffix_tokens if step.kind == "cached" else step.prompt_tokens
                yield step.step_id, role, repeat, stream, tokens
    if step.kind == "cached":
        yield step.step_id, "prime", 0, 0, step.prompt_tokens


def seed_of(params: Params, launch: int) -> str:
    """Return what the choice of a launch's prompts is drawn from: protocol and corpus, never the release's seed."""
    return f"{params.protocol.name}/{params.files[f'prompts/{params.protocol.corpus}']}/{launch}"


def _of_launch(launch: LaunchSpec, corpus: Sequence[int], seed: str) -> Iterator[tuple[Key, tuple[int, ...]]]:
    rng = random.Random(seed)  # noqa: S311 - a choice of prompts, not a secret
    firsts = sorted(set(corpus))
    rng.shuffle(firsts)
    cut: dict[Key, tuple[int, ...]] = {}
    for step in launch.steps:
        for step_id, role, repeat, stream, tokens in due(step):
            start = rng.randrange(len(corpus))
            rest = (corpus[(start + i) % len(corpus)] for i in range(tokens - 1))
            cut[step_id, role, repeat, stream] = (firsts.pop(), *rest)
    for key, ids in cut.items():
        prefix = cut.get((key[0], "prime", 0, 0), ()) if key[1] != "prime" else ()
        yield key, (*prefix, *ids)


def make_prompts(params: Params, corpus_ids: Sequence[int]) -> PromptSet:
    """Return the prompts of one model.

    Parameters
    ----------
    params : Params
        Its protocol says what is asked.
    corpus_ids : sequence of int
        The corpus by the engine's own tokenizer, without a begin token.

    Raises
    ------
    ParamsError
        When a start asks more requests than the corpus has different tokens.
    """
    distinct = len(set(corpus_ids))
    out: dict[Key, tuple[int, ...]] = {}
    for number, launch in enumerate(params.protocol.launches):
        needed = sum(1 for step in launch.steps for _ in due(step))
        if needed > distinct:
            raise ParamsError(
                file=f"protocols/{params.release.protocol}.yaml",
                field=f"launches.{number}",
                value=f"{needed} requests",
                problem=f"the corpus has only {distinct} different tokens to begin them with",
                remedy="ask fewer requests a start, or give a longer corpus",
            )
        out.update(_of_launch(launch, corpus_ids, seed_of(params, number)))
    return PromptSet(out)


class PromptStore:
    """``prompts.json``: the ids that were sent, per model; a resumed run sends the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sets: dict[str, PromptSet] = {}
        if path.is_file():
            self._sets = {model: _read_set(path, value) for model, value in _read_models(path).items()}

    def get(self, model: str) -> PromptSet | None:
        """Return the prompts of *model*, or None while they have not been made."""
        return self._sets.get(model)

    def put(self, model: str, prompts: PromptSet) -> None:
        """Keep the prompts of *model* and write the file."""
        self._sets[model] = prompts
        models = {
            name: {
                "sha256": one.sha256,
                "prompts": [[*key, list(ids)] for key, ids in sorted(one.ids.items())],
                "texts": [[*key, text] for key, text in sorted(one.texts.items())],
            }
            for name, one in self._sets.items()
        }
        write_atomic(self._path, canonical_bytes({"schema": _SCHEMA, "models": models}))

    def hashes(self) -> dict[str, str]:
        """Return the hash of each model's prompts."""
        return {model: prompts.sha256 for model, prompts in self._sets.items()}

    @property
    def file_sha256(self) -> str | None:
        """Return the sha256 of the file, or None where nothing was asked yet."""
        return sha256_bytes(self._path.read_bytes()) if self._path.is_file() else None


def _read_models(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict) or value.get("schema") != _SCHEMA or not isinstance(value.get("models"), dict):
        raise IntegrityError(f"{path}: not a {_SCHEMA} file", remedy="start a new run")
    models: dict[str, Any] = value["models"]
    return models


def _read_set(path: Path, value: Any) -> PromptSet:
    try:
        found = PromptSet(
            {
                (str(step), str(role), int(repeat), int(stream)): tuple(int(i) for i in ids)
                for step, role, repeat, stream, ids in value["prompts"]
            },
            {
                (str(step), str(role), int(repeat), int(stream)): str(text)
                for step, role, repeat, stream, text in value["texts"]
            },
        )
        recorded = value["sha256"]
    except (KeyError, TypeError, ValueError) as err:
        raise IntegrityError(f"{path}: malformed: {err}", remedy="start a new run") from err
    if found.sha256 != recorded:
        raise IntegrityError(f"{path}: the prompts do not have the hash recorded beside them", remedy="start a new run")
    return found
