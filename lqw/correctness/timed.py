"""The timed requests carry the hash of what they answered: equal work must have given equal answers.

The identity answers come from starts of their own. Without these checks an engine could answer rightly there and
emit anything while the clock runs. Three things are looked at: the same prompt has one answer over all starts; a
prompt that was also asked untimed (its twin) has that answer; no timed stream repeats one token, unless the
comparator does so too on the same prompt: then it is the model (seen: a 270M model on sixteen random tokens).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from lqw.correctness.detectors import CONSTANT_RUN
from lqw.correctness.result import Check, CorrectnessResult, voids_of
from lqw.outcomes import Arm, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.metrics import RowId
    from lqw.samples import IdentityRecord, RequestSample, StartRecord

__all__ = ["judge_timed", "timed_checks"]

STRICT = ("cold", "decode")  # one stream, nothing reused: greedy output has no reason to differ between starts


class _Seen(NamedTuple):
    pair: int
    request: RequestSample

    @property
    def where(self) -> str:
        one = self.request
        return f"pair {self.pair} {one.step} repeat {one.repeat} stream {one.stream}"


def _timed(
    starts: Sequence[StartRecord], model: str, arm: Arm = Arm.SUBJECT
) -> dict[str, dict[tuple[str, int], list[_Seen]]]:
    """Return step → (prompt hash, tokens asked for) → the arm's good timed requests."""
    out: dict[str, dict[tuple[str, int], list[_Seen]]] = defaultdict(lambda: defaultdict(list))
    for start in starts:
        if start.model != model or start.arm is not arm:
            continue
        for request in start.requests:
            if request.role == "timed" and request.failure is None:
                out[request.step][request.prompt_sha256, request.want_tokens].append(_Seen(start.pair, request))
    return out


def _hash_of(seen: Sequence[_Seen]) -> str | None:
    """Return which hash all of these requests carry: ids where all do, else text, else None."""
    if all(one.request.ids_sha256 is not None for one in seen):
        return "ids_sha256"
    return "text_sha256" if all(one.request.text_sha256 is not None for one in seen) else None


def _kind(step: str) -> str:
    return step.partition("@")[0]


def _step(model: str, step: str, groups: dict[tuple[str, int], list[_Seen]]) -> Iterator[Check]:
    strict = _kind(step) in STRICT
    pairs = unhashed = 0
    for (prompt, _), seen in groups.items():
        field = _hash_of(seen)
        if field is None:
            unhashed += len(seen)
            continue
        pairs += len(seen) - 1
        first = seen[0]
        other = next((s for s in seen if getattr(s.request, field) != getattr(first.request, field)), None)
        if other is not None:
            detail = f"the same prompt ({prompt[:12]}) was answered differently: {first.where}, {other.where}"
            reason = Reason.VOID_NONDETERMINISTIC if strict else None
            yield Check(model, "timed", step, "", "void" if strict else "flag", detail, reason)
            return
    if unhashed:
        yield Check(model, "timed", step, "", "flag", f"{unhashed} timed requests carry no hash of their answer")
    elif not pairs:
        yield Check(model, "timed", step, "", "flag", "no prompt was asked twice: nothing to compare")
    else:
        yield Check(model, "timed", step, "", "ok", f"{pairs + len(groups)} answers to {len(groups)} prompts agree")


def _repeats(one: _Seen) -> bool:
    return (one.request.constant_run or 0) >= CONSTANT_RUN


def _garbage(
    model: str,
    step: str,
    groups: dict[tuple[str, int], list[_Seen]],
    comparator: dict[tuple[str, int], list[_Seen]],
) -> Iterator[Check]:
    """Void a step in which any stream repeats one token, whatever else agrees: parallel ones are seen here alone.

    Flag only what the comparator repeats as well, given the same prompt and as many tokens.
    """
    bad = [(asked, one) for asked, seen in groups.items() for one in seen if _repeats(one)]
    alone = [one for asked, one in bad if not any(map(_repeats, comparator.get(asked, ())))]
    if not bad:
        return
    shown = alone or [one for _, one in bad]
    more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
    detail = f"{shown[0].where}: one token {shown[0].request.constant_run} times in a row{more}"
    if alone:
        yield Check(model, "constant_run", step, "", "void", detail, Reason.VOID_GARBAGE)
    else:
        yield Check(model, "constant_run", step, "", "flag", f"{detail}, as the comparator on the same prompt")


def _twins(
    model: str, records: Sequence[IdentityRecord], timed: dict[str, dict[tuple[str, int], list[_Seen]]]
) -> Iterator[Check]:
    """Compare each untimed twin with the timed answers to the same prompt, asked at the same shape.

    With a cached prefix it voids where the timed ones agree among themselves, so that reuse is no excuse; parallel
    streams flag, since each batch is put together anew.
    """
    for twin in (twin for record in records if record.model == model for twin in record.twins):
        if twin.failure is not None:
            yield Check(model, "twin", twin.step, "", "void", twin.failure.detail, twin.failure.reason)
            continue
        seen = timed.get(twin.step, {}).get((twin.prompt_sha256, twin.want_tokens), [])
        by = "ids_sha256" if twin.ids_sha256 is not None and _hash_of(seen) == "ids_sha256" else "text_sha256"
        told = [one for one in seen if getattr(one.request, by) is not None]
        other = next((one for one in told if getattr(one.request, by) != getattr(twin, by)), None)
        if other is not None:
            detail = f"{other.where} answered other than the same prompt does untimed"
            alike = len({getattr(one.request, by) for one in told}) == 1
            if _kind(twin.step) in STRICT or (_kind(twin.step) == "cached" and alike):
                yield Check(model, "twin", twin.step, "", "void", detail, Reason.VOID_CORRECTNESS)
            else:
                yield Check(model, "twin", twin.step, "", "flag", detail)
        elif told:
            what = by.removesuffix("_sha256")
            detail = f"{len(told)} timed answers are the untimed one by {what}"
            yield Check(model, "twin", twin.step, "", "ok", detail)


def judge_timed(
    starts: Sequence[StartRecord], rows: Sequence[RowId], records: Sequence[IdentityRecord] = ()
) -> CorrectnessResult:
    """Compare the subject's timed answers with each other, over all starts, and with their untimed twins.

    Cold and decode steps void the model's rows where the same prompt got two answers. Cached and aggregate steps
    flag only: reuse and the composition of a batch legitimately change greedy output (PITFALLS 50).

    Parameters
    ----------
    starts : sequence of StartRecord
        All of the journal; failed requests are passed over (a failed one fails its row). Of the comparator's only
        runs of one token are looked at.
    rows : sequence of RowId
        The plan's.
    records : sequence of IdentityRecord
        With the twins.
    """
    models = dict.fromkeys(row.model for row in rows)
    checks = [check for model in models for check in timed_checks(model, starts, records)]
    return CorrectnessResult(voids_of(checks, rows), tuple(checks), {})


def timed_checks(model: str, starts: Sequence[StartRecord], records: Sequence[IdentityRecord]) -> Iterator[Check]:
    """Yield what was seen of one model's timed answers, as :func:`judge_timed` judges them."""
    timed, beside = _timed(starts, model), _timed(starts, model, Arm.COMPARATOR)
    for step, groups in sorted(timed.items()):
        yield from _step(model, step, groups)
        yield from _garbage(model, step, groups, beside.get(step, {}))
    yield from _twins(model, records, timed)
