"""Two methods on the same past: what each says of every row, and where they part."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.errors import UsageError
from lqw.noise.looks import take_looks
from lqw.noise.rows import Call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.lab.history import History
    from lqw.metrics import RowId
    from lqw.noise.methods import Method
    from lqw.plan import Policy

__all__ = ["Flip", "Judged", "RowCall", "flips", "judge_history", "parse_looks", "with_settings"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowCall:
    """What a method says of one row. Numbers are natural logarithms in the row's good direction."""

    call: Call
    delta: float  # D − F; NaN without a floor
    threshold: float  # RED below
    sd: float  # of one pair
    pairs: int  # that the row was decided on; 0 where too few were measured for a first look


@dataclass(frozen=True, slots=True)
class Judged:
    """What a method says of one release by its rows alone: guards and suites are the gate's, not a method's.

    ``wanted`` are the models the method wants more pairs of than were measured.
    """

    call: Call
    rows: Mapping[RowId, RowCall]
    pairs: Mapping[str, int]
    minutes: float
    wanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flip:
    """A row of which two say different things."""

    release: str
    row: RowId
    before: Call
    after: Call
    delta: float  # D − F by the method of *after*


def with_settings(policy: Policy, *, alpha: float, margin: float, looks: Sequence[int], tau: float) -> Policy:
    """Return the policy with an analyst's numbers; UsageError names the one that is impossible.

    Raises
    ------
    UsageError
        A level or margin outside (0, 1), a negative session term, looks that do not rise from 2.
    """
    for name, value in (("α", alpha), ("margin", margin)):
        if not 0 < value < 1:
            raise UsageError(f"{name} = {value!r}: not between 0 and 1", remedy="a fraction, such as 0.01")
    if not 0 <= tau < 1:
        raise UsageError(f"session term τ = {tau!r}: not between 0 and 1", remedy="a fraction, such as 0.005")
    rising = all(a < b for a, b in pairwise(looks))
    if not looks or looks[0] < 2 or not rising or len(looks) > 12 or looks[-1] > 200:  # noqa: PLR2004 - see the text
        raise UsageError(
            f"looks = {list(looks)!r}", remedy="up to 12 rising numbers of pairs from 2 to 200: 3, 5, 7, 9"
        )
    return replace(policy, alpha=alpha, margin=margin, looks=tuple(looks), tau=tau)


def parse_looks(text: str) -> tuple[int, ...]:
    """Return the numbers in ``"3, 5, 7, 9"``; UsageError says what is none."""
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    wrong = [part for part in parts if not re.fullmatch(r"[0-9]{1,3}", part)]
    if wrong or not parts:
        raise UsageError(f"looks = {text!r}", remedy="whole numbers of pairs with commas: 3, 5, 7, 9")
    return tuple(map(int, parts))


def judge_history(history: History, method: Method, policy: Policy) -> tuple[Judged | None, ...]:
    """Return what *method* says of every release, in order; None for one that measured nothing.

    Each release is judged against the references of its own receipt. Where the method wants more pairs than were
    measured, the row stays OPEN and the model is in ``wanted``: what those pairs would have said nobody knows.
    """
    out: list[Judged | None] = [None] * len(history.releases)
    for group in history.groups:
        looked = take_looks(
            group.batch, method, policy, m=group.planned, models=group.models, available=group.available
        )
        delta = looked.bands.estimate - group.batch.floor
        for i, at in enumerate(group.index):
            seen = looked.look[i] >= 0
            gating = ~np.isnan(group.batch.floor[i])
            rows = {
                row: RowCall(
                    call=_call(bool(looked.bands.red[i, r]), bool(looked.bands.passed[i, r])),
                    delta=float(delta[i, r]),
                    threshold=float(looked.bands.threshold[i, r]),
                    sd=float(looked.bands.sd[i, r]),
                    pairs=policy.looks[int(looked.look[i, r])] if seen[r] else 0,
                )
                for r, row in enumerate(group.rows)
            }
            pairs = {name: int(n) for name, n in zip(group.model_names, looked.pairs[i], strict=True)}
            wanted = tuple(name for name, more in zip(group.model_names, looked.needing[i], strict=True) if more)
            out[at] = Judged(
                call=_whole([rows[row].call for row, counts in zip(group.rows, gating, strict=True) if counts]),
                rows=rows,
                pairs=pairs,
                minutes=sum(n * history.releases[at].pair_minutes.get(name, 0.0) for name, n in pairs.items()),
                wanted=wanted,
            )
    return tuple(out)


def _call(red: bool, passed: bool) -> Call:  # noqa: FBT001 - two answers of one method
    return Call.RED if red else Call.PASS if passed else Call.OPEN


def _whole(calls: Sequence[Call]) -> Call:
    """Return what the rows say together; no gating row at all is never a pass."""
    if Call.RED in calls:
        return Call.RED
    return Call.OPEN if Call.OPEN in calls or not calls else Call.PASS


def flips(
    history: History, before: Sequence[Mapping[RowId, Call] | None], after: Sequence[Judged | None]
) -> tuple[Flip, ...]:
    """Return every row that *before* and *after* both speak of and see differently, oldest release first."""
    return tuple(
        Flip(release.name, row, call, new.rows[row].call, new.rows[row].delta)
        for release, old, new in zip(history.releases, before, after, strict=True)
        if old is not None and new is not None
        for row, call in old.items()
        if row in new.rows and new.rows[row].call is not call
    )
