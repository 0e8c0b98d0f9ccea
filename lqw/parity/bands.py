"""One band of a serving witness: what is unreadable in it, what contradicts a PASS, what leaves it unproven. Pure.

The judge believes no word of a band that its own slots, their ids or its telemetry do not bear out.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lqw.correctness.detectors import CONSTANT_RUN, longest_run
from lqw.parity.verdict import shown, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Reference", "band_fault", "common_prefix", "contradiction", "formed_by", "unproven"]

RESULTS = ("PASS", "FAIL", "UNMEASURABLE")
MOST_WORDS = 200
_SLOTS = re.compile(r"(\d{1,6}) slots at work at once, (\d{1,6}\.\d{1,6}) per decode over ")
_LOG = re.compile(r"\d{1,9} batches in the log, largest m=(\d{1,6})$")


class Reference(NamedTuple):
    """What the slots are to agree with; ``ids`` where the witness carries them."""

    stable: bool
    tokens: object
    ids: list[object] | None
    reason: object = None  # why it is not stable

    @classmethod
    def of(cls, witness: dict[str, Any]) -> Self:
        """Return a witness's reference; one that is not there is not stable."""
        said = witness.get("reference")
        if not isinstance(said, dict):
            return cls(stable=False, tokens=None, ids=None)
        ids = said.get("ids")
        return cls(
            said.get("stable") is True, said.get("tokens"), ids if isinstance(ids, list) else None, said.get("reason")
        )


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many tokens two answers share from the start."""
    return next(
        (at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )


def formed_by(busy: int, mean: float) -> int:
    """Return the batch that slots at work and the mean number of slots a decode both vouch for.

    llama-server's page rounds the mean to six figures.
    """
    return min(busy, math.ceil(mean - 0.01))


def band_fault(index: int, band: object) -> str | None:
    """Return what makes a band unreadable, or None."""
    if not isinstance(band, dict):
        return f"bands[{index}] is not an object"
    if not whole(band.get("c")):
        return f"bands[{index}].c = {shown(band.get('c', '(absent)'))} is not a positive integer"
    result, formed = band.get("result"), band.get("m_formed")
    if result not in RESULTS:
        return f"bands[{index}].result = {shown(result)} is none of {', '.join(RESULTS)}"
    if not whole(formed, least=0) and not (formed is None and result == "UNMEASURABLE"):
        return f"bands[{index}].m_formed = {shown(formed)} is not a whole number"
    return None


def _slot_fault(slot: object, reference: Reference) -> str | None:
    """Return what is wrong with one slot's answer, or None."""
    if not isinstance(slot, dict):
        return "a slot is not an object"
    run, agree, tokens = slot.get("constant_run"), slot.get("agree_to"), slot.get("completion_tokens")
    text = None
    if whole(run, least=CONSTANT_RUN):
        text = f"one token repeated {run} times"
    elif slot.get("refused"):
        text = "the request was refused"
    elif whole(agree, least=0) and whole(tokens, least=0) and agree < tokens:
        text = f"agrees to token {agree} of {tokens} only"
    elif whole(tokens) and whole(reference.tokens) and tokens != reference.tokens:
        text = f"{tokens} tokens, the single stream gave {reference.tokens}"
    elif isinstance(ids := slot.get("ids"), list):
        text = _other_story(ids, slot, reference)
    return text and f"slot {shown(slot.get('i', '?'))}: {text}"


def _other_story(ids: list[object], slot: dict[str, Any], reference: Reference) -> str | None:
    """Return where a slot's numbers do not follow from its own ids, or None."""
    true_of = {"completion_tokens": len(ids), "constant_run": longest_run(ids)}
    if reference.ids is not None:
        true_of["agree_to"] = common_prefix(ids, reference.ids)
    other = next((name for name, true in true_of.items() if slot.get(name) != true), None)
    return other and f"{other} = {shown(slot.get(other))}, its own ids say {true_of[other]}"


def contradiction(band: dict[str, Any], reference: Reference) -> str | None:
    """Return what in a band is not as a PASS would have it, whatever the band calls itself, or None."""
    run, slots = band.get("max_constant_run"), band.get("slots")
    for slot in slots if isinstance(slots, list) else []:
        if (fault := _slot_fault(slot, reference)) is not None:
            return fault
    if whole(run, least=CONSTANT_RUN):
        return f"one token repeated {run} times"
    formed = _told_by(band.get("telemetry"))
    if formed is not None and formed != band["m_formed"]:
        return f"its telemetry tells of a batch of {formed}"
    diverged = band.get("divergence_at")
    return None if diverged is None else f"diverged at token {shown(diverged)}"


def _told_by(telemetry: object) -> int | None:
    """Return the batch in telemetry's words, where they are those of :mod:`lqw.parity.telemetry`."""
    if not isinstance(telemetry, str):
        return None
    if found := _SLOTS.match(telemetry[:MOST_WORDS]):
        return formed_by(int(found[1]), float(found[2]))
    found = _LOG.match(telemetry[:MOST_WORDS])
    return int(found[1]) if found else None


def unproven(band: dict[str, Any]) -> str | None:
    """Return why a PASS band without a contradiction still shows nothing, or None."""
    slots = band.get("slots")
    if not isinstance(slots, list) or len(slots) != band["c"]:
        return f"{len(slots) if isinstance(slots, list) else 'no'} slots for {band['c']} requests"
    for name, least in (("completion_tokens", 1), ("agree_to", 0), ("constant_run", 0)):
        if any(not whole(slot.get(name), least=least) for slot in slots):
            return f"a slot without {name}"
    numbers = [slot["i"] for slot in slots if whole(slot.get("i"), least=0)]
    if len(set(numbers)) < len(numbers):
        return "two slots of one number: an answer counted twice"
    if band["m_formed"] == 0:
        return "the server formed nothing: its shape is not what the client asked for"
    if band["m_formed"] > band["c"]:
        return f"batch {band['m_formed']} formed of {band['c']} requests: somebody else's were in it"
    return None
