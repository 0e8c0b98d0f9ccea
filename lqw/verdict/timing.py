"""Flags on the times themselves: clocks that part, bursts, a client too slow for its row. None changes a verdict."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lqw.metrics.checks import ALONE, SATURATED_SHARE, STREAMED, bursts_of, clocks_of, timed_of
from lqw.metrics.digits import percent
from lqw.outcomes import Arm
from lqw.verdict.results import GuardFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lqw.metrics import RowId
    from lqw.noise.rows import RowData
    from lqw.plan import Policy
    from lqw.samples import StartRecord
    from lqw.verdict.evidence import ClientError

__all__ = ["bursts", "client_error", "clocks"]


_ByArm = dict[tuple[str, Arm], list["StartRecord"]]


def _by_arm(starts: Sequence[StartRecord]) -> _ByArm:
    out: _ByArm = defaultdict(list)
    for start in starts:
        out[start.model, start.arm].append(start)
    return out


def _mine(row: RowId, pairs: RowData, starts: _ByArm, arm: Arm) -> Iterator[StartRecord]:
    """Yield the starts of an arm that the row was judged by."""
    return (one for one in starts.get((row.model, arm), ()) if one.pair in pairs.pairs)


def clocks(data: Mapping[RowId, RowData], starts: Sequence[StartRecord]) -> list[GuardFinding]:
    """Flag rows of the first token where the engine's own prompt time is not what the client waited.

    What lies between them is a queue, a cache that is saved for the request before (PITFALLS 18), a tokenizer, a proxy.
    Engines that tell no such time are not looked at.
    """
    out, mine = [], _by_arm(starts)
    for row, pairs in data.items():
        for arm in Arm if row.kind.step in ALONE else ():
            found = clocks_of(timed_of(row, _mine(row, pairs, mine, arm)))
            if found.parted:
                numbers = {"parted": float(found.parted), "asked": float(found.asked), "worst_ms": found.worst_ms}
                out.append(_flag("clock", str(row), f"{row}: {arm}: {found}", numbers))
    return out


def bursts(data: Mapping[RowId, RowData], starts: Sequence[StartRecord]) -> list[GuardFinding]:
    """Flag rows of streams whose tokens came several in a read: what was timed is then a buffer, not the engine."""
    out, mine = [], _by_arm(starts)
    for row, pairs in data.items():
        for arm in Arm if row.kind.step in STREAMED else ():
            found = bursts_of(timed_of(row, _mine(row, pairs, mine, arm)))
            if found.seen:
                numbers = {
                    "several": float(found.several),
                    "reads": float(found.reads),
                    "at_once": float(found.at_once),
                }
                out.append(_flag("bursts", str(row), f"{row}: {arm}: {found}", numbers))
    return out


def client_error(data: Mapping[RowId, RowData], client: ClientError | None, policy: Policy) -> list[GuardFinding]:
    """Flag a client over 80 % of a core, and rows whose margin, in ms, is smaller than the client's own TTFT error."""
    if client is None:
        return []
    out = []
    if client.cpu_share > SATURATED_SHARE:
        text = f"the client used {percent(client.cpu_share)} of a core in its calibration: it may be what was measured"
        out.append(_flag("client", "run", text, {"cpu_share": client.cpu_share}))
    for row, pairs in data.items():
        if row.kind.step not in ALONE:
            continue
        fastest_ms = min(_ms(row, value) for value in (*pairs.subject, *pairs.comparator))
        effect_ms = policy.margin * fastest_ms
        if effect_ms < client.ttft_p99_ms:
            text = (
                f"{row}: {percent(policy.margin)} of {fastest_ms:.1f} ms is less than the client's own error "
                f"({client.ttft_p99_ms:.2f} ms at the 99th percentile)"
            )
            out.append(_flag("client", str(row), text, {"effect_ms": effect_ms, "error_ms": client.ttft_p99_ms}))
    return out


def _ms(row: RowId, value: float) -> float:
    """Return the time to the first token behind a value: a prefill rate is N over it."""
    return (row.size or 0) / value * 1e3 if row.metric == "prefill" else value


def _flag(guard: str, subject: str, text: str, numbers: dict[str, float]) -> GuardFinding:
    return GuardFinding.model_validate(
        {"guard": guard, "effect": "flag", "subject": subject, "text": text, "numbers": numbers}
    )
