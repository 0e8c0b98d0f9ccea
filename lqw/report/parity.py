"""Parity at the serving shape: what each receipt says, and one picture per band of who left the reference where."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from lqw.correctness.detectors import CONSTANT_RUN
from lqw.parity.verdict import whole
from lqw.report import svg
from lqw.report.tables import EFFECTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from lqw.report.facts import Facts

__all__ = ["Heat", "heat_maps", "parity_context"]

NOTHING = (
    "The release names no blessed model, so nothing is claimed of the batched path. A tag needs both parity receipts "
    "on each host."
)
LEAD = (
    "What was measured with one stream says nothing of the batch that serves. Per host the blessed model needs a "
    "cosine record of one stream (m1) and a serving witness at the batch the server formed, both of the program under "
    "test."
)
LEGEND = "One line a slot, from its first token to its last: thin agrees with the single stream, middle differs, full "
LEGEND += f"height is one token {CONSTANT_RUN} times and more."
ROW = 14  # pixels a slot
BAR = 8.0  # percent: where bars begin, after the slot's number
MOST_SLOTS = 64
MOST_MAPS = 16


class Heat(NamedTuple):
    """The drawing of one band."""

    title: str
    svg: Markup
    caption: str


class _Slot(NamedTuple):
    number: int
    tokens: int
    agree: int
    run: tuple[int, int]  # begin and length of a run of one token; length 0 where there is none


def _run(slot: Mapping[str, Any], tokens: int) -> tuple[int, int]:
    """Return where the longest run of one token lies; without ids, at the end, where such runs do not stop."""
    ids, begin, best = slot.get("ids"), 0, (0, 0)
    if isinstance(ids, list) and ids:
        for _, group in groupby(ids):
            length = sum(1 for _ in group)
            best = max(best, (begin, length), key=lambda one: one[1])
            begin += length
    elif whole(told := slot.get("constant_run")):
        best = (max(tokens - told, 0), min(told, tokens))
    return best if best[1] >= CONSTANT_RUN else (0, 0)


def _slots(band: Mapping[str, Any]) -> Iterator[_Slot]:
    slots = band.get("slots")
    for at, slot in enumerate(slots[:MOST_SLOTS] if isinstance(slots, list) else []):
        if not isinstance(slot, dict):
            continue
        tokens, agree = slot.get("completion_tokens"), slot.get("agree_to")
        if whole(tokens) and whole(agree, least=0):
            yield _Slot(at, tokens, min(agree, tokens), _run(slot, tokens))


def _told(slot: _Slot) -> str:
    text = f"slot {slot.number} agrees to token {slot.agree} of {slot.tokens}"
    return text + (f", one token {slot.run[1]} times from {slot.run[0]}" if slot.run[1] else "")


def _band(band: Mapping[str, Any], name: str) -> Heat | None:
    slots = list(_slots(band))
    if not slots:
        return None
    longest = max(slot.tokens for slot in slots)
    scale = svg.Scale(0, longest, BAR, 100.0)
    parts = [
        svg.text(BAR - 1.5, 11, "slot", "num", "end"),
        svg.text(BAR, 11, "token 0", "num", "start"),
        svg.text(100, 11, str(longest), "num", "end"),
    ]
    for line, slot in enumerate(slots):
        top = 18 + line * ROW
        parts.append(svg.text(BAR - 1.5, top + 9, str(slot.number), "num", "end"))
        pieces = (
            (0, slot.agree, 4, "agree"),
            (slot.agree, slot.tokens - slot.agree, 7, "differ"),
            (*slot.run, 11, "run"),
        )
        for begin, length, height, cls in pieces:
            if length:
                width = scale(begin + length) - scale(begin)
                parts.append(svg.rect(scale(begin), top + (ROW - height) / 2 - 1, width, height, cls))
    c, formed, result = (str(band.get(key))[:40] for key in ("c", "m_formed", "result"))
    equal = sum(slot.agree == slot.tokens and not slot.run[1] for slot in slots)
    caption = f"{equal} of {len(slots)} slots gave the single stream's {longest} tokens; formed {formed}: {result}"
    alt = f"{name}, c={c}: {caption}. " + "; ".join(map(_told, slots)) + "."
    return Heat(f"c = {c}", svg.figure(parts, 20 + ROW * len(slots), alt=alt), caption)


def heat_maps(documents: Mapping[str, Any]) -> list[tuple[str, list[Heat]]]:
    """Return, for each serving witness among *documents* (path → content), the drawings of its bands."""
    out = []
    for path, document in sorted(documents.items()):
        bands = document.get("bands") if isinstance(document, dict) else None
        if not isinstance(bands, list) or not isinstance(document, dict):
            continue
        name = f"{document.get('host', 'unknown host')!s:.64}, {path}"
        found = [heat for band in bands[:MOST_MAPS] if isinstance(band, dict) and (heat := _band(band, name))]
        if found:
            out.append((name, found))
    return out


def parity_context(facts: Facts) -> dict[str, Any]:
    """Return what the page's parity section shows."""
    release = facts.params.get("release")
    if not isinstance(release, dict) or not release.get("blessed"):
        return {"parity_lead": NOTHING, "parity_cells": [], "heat_maps": [], "heat_legend": ""}
    guards = facts.judgement.guards if facts.judgement else ()
    cells = [(guard.subject, EFFECTS[guard.effect], guard.text) for guard in guards if guard.guard == "parity"]
    return {
        "parity_lead": f"Blessed: {release['blessed']!s:.64}. {LEAD}",
        "parity_cells": cells,
        "heat_maps": heat_maps(facts.parity),
        "heat_legend": LEGEND,
    }
