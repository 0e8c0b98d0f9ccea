"""The words, symbols and numbers of the report: HTML page, summary, JUnit and terminal all take them from here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lqw.metrics import Family, RowId
from lqw.metrics.digits import percent
from lqw.outcomes import RowVerdict, TargetState
from lqw.verdict.rows import BLOCKING

__all__ = [
    "BLOCKING",
    "KINDS",
    "SYMBOLS",
    "Kind",
    "KindWords",
    "against",
    "band",
    "change",
    "describe",
    "duration",
    "number",
    "ratio",
    "target_words",
    "times",
    "value",
    "versus",
]

MIB = 1024.0**2
NEAR = 0.005  # two speeds closer than this are called equal
TIMES_FROM = 1.095  # from here on "1.1× slower" reads better than "10 % slower"


class Kind(StrEnum):
    """What a page is. One more than :class:`lqw.outcomes.Outcome`: VOID is an UNDECIDED whose tokens differ."""

    PASS = "PASS"
    RED = "RED"
    UNDECIDED = "UNDECIDED"
    VOID = "VOID"
    FLOOR = "FLOOR"
    INVALID = "INVALID"
    INCOMPLETE = "INCOMPLETE"


@dataclass(frozen=True, slots=True)
class KindWords:
    """How a kind of page says itself: symbol, the order to the captain, and what it means in one clause."""

    symbol: str
    order: str
    meaning: str


KINDS: dict[Kind, KindWords] = {
    Kind.PASS: KindWords("✓", "may be tagged", "No row lost more than the declared margin."),
    Kind.RED: KindWords("✕", "do not tag", "It is slower than what was released, by more than the noise can explain."),
    Kind.UNDECIDED: KindWords("?", "do not tag yet", "The measurement does not decide every row, and that blocks."),
    Kind.VOID: KindWords("⊘", "do not tag", "Speed means nothing while the tokens are wrong: correctness comes first."),
    Kind.FLOOR: KindWords("⌊", "floor measured", "A floor was measured and adopted; nothing was judged."),
    Kind.INVALID: KindWords("≠", "do not tag", "The record does not verify: its numbers do not follow from samples."),
    Kind.INCOMPLETE: KindWords("…", "NOT A VERDICT", "The chain broke before its end. Nothing below is a verdict."),
}

SYMBOLS: dict[RowVerdict, str] = {
    RowVerdict.PASS: "✓",
    RowVerdict.IMPROVED: "▲",
    RowVerdict.RED: "✕",
    RowVerdict.SHIFT: "⇄",
    RowVerdict.INCONCLUSIVE: "?",
    RowVerdict.SUSPECT: "!",
    RowVerdict.NEW: "+",
    RowVerdict.MISSING_FLOOR: "⌊",
    RowVerdict.MISSING: "–",
    RowVerdict.FAILED: "†",
    RowVerdict.VOID: "⊘",
}


def number(x: float) -> str:
    """Return *x* with three significant digits, two below one; thousands separated, no exponent for sane sizes."""
    size = abs(x)
    if not math.isfinite(x):
        return "–"
    if size == 0:
        return "0"
    if size >= 99.95:  # noqa: PLR2004 - from here three digits need no decimals
        return f"{x:,.0f}"
    if size >= 1:
        return f"{x:.{2 - math.floor(math.log10(size * 1.0005))}f}"
    if size >= 0.001:  # noqa: PLR2004 - below, an exponent is shorter
        return f"{x:.{1 - math.floor(math.log10(size * 1.005))}f}"
    return f"{x:.2e}"


def value(x: float | None, unit: str) -> str:
    """Return a row value with its unit: ``1,390 ms``, ``45.2 tok/s``, ``412 MiB``; a dash without one."""
    if x is None or not math.isfinite(x):
        return "–"
    if unit == "bytes":
        return f"{number(x / MIB / 1024)} GiB" if x >= 1024 * MIB else f"{number(x / MIB)} MiB"
    if unit == "ms" and x >= 10_000:  # noqa: PLR2004 - five digits of ms are read as seconds
        return f"{number(x / 1000)} s"
    return f"{number(x)} {unit}"


def ratio(x: float | None) -> str:
    """Return a ratio as ``0.55×``; a dash without one."""
    if x is None or not math.isfinite(x):
        return "–"
    return f"{number(x)}×" if x >= 9.995 or x < 0.1 else f"{x:.2f}×"  # noqa: PLR2004 - two decimals between


def change(x: float | None) -> str:
    """Return the relative change a ratio means, signed: ``−46 %``, tenfold and more ``66-fold``; a dash without one."""
    if x is None or not math.isfinite(x):
        return "–"
    if x >= 10:  # noqa: PLR2004 - +6530 % is harder to read than 66-fold
        return f"{x:,.0f}-fold"
    return percent(x - 1, signed=True)


def band(fraction: float | None) -> str:
    """Return a band as ``±21 %``; a dash without one."""
    return "–" if fraction is None or not math.isfinite(fraction) else f"±{percent(fraction)}"


def times(factor: float) -> str:
    """Return a factor as words want it: ``1.8×``, and from ten on ``116×``, where a decimal says nothing."""
    return f"{factor:,.0f}×" if factor >= 9.95 else f"{factor:.1f}×"  # noqa: PLR2004 - two digits are enough


def _words(oriented: float, better: str, worse: str) -> str:
    """Say an oriented ratio (> 1 is better) in words; the factor is always above one."""
    if not (math.isfinite(oriented) and oriented > 0):
        return "–"
    if abs(math.log(oriented)) < NEAR:
        return "equal"
    factor, word = (oriented, better) if oriented > 1 else (1 / oriented, worse)
    return f"{times(factor)} {word}" if factor >= TIMES_FROM else f"{percent(factor - 1)} {word}"


def versus(oriented: float | None, family: str) -> str:
    """Say in words how the subject stands to the comparator: ``1.8× slower``, ``3.1 % more memory``."""
    if oriented is None:
        return "–"
    if family == Family.MEMORY:
        return _words(oriented, "less memory", "more memory")
    return _words(oriented, "faster", "slower")


def against(oriented: float | None, family: str, what: str) -> str:
    """Say how a row moved against a reference: ``1.8× slower than its floor``, ``equal to its floor``."""
    words = versus(oriented, family)
    if words == "–":
        return words
    return f"equal to {what}" if words == "equal" else f"{words} than {what}"


def target_words(state: TargetState, distance: float) -> str:
    """Say where a target stands, as distance to go."""
    if state is TargetState.OPEN:
        return f"OPEN, {_factor(distance)} to go"
    return f"{state}, {_factor(1 / distance)} in hand" if distance > 0 else str(state)


def _factor(x: float) -> str:
    if x >= 9.95:  # noqa: PLR2004 - two digits are enough
        return times(x)
    return f"{x:.2f}×" if x >= TIMES_FROM else percent(x - 1)


def describe(row: RowId) -> str:
    """Return a row's title in words: ``Time to first token, cold prompt of 512 tokens``."""
    size = row.size
    return {
        "ttft": f"Time to first token, cold prompt of {size} tokens",
        "prefill": f"Prefill rate, prompt of {size} tokens",
        "decode": "Decode rate, one stream",
        "agg": f"Aggregate decode rate, {size} stream{'' if size == 1 else 's'}",
        "agg_whole": f"Aggregate rate from first request to last token, {size} stream{'' if size == 1 else 's'}",
        "ttft_cached": f"Time to first token, {size} tokens cached",
        "vram_peak": "Peak GPU memory",
        "rss_peak": "Peak host memory",
    }.get(row.metric, row.kind.title)


def duration(seconds: float) -> str:
    """Return ``42 s``, ``3 min 20 s`` or ``1 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
