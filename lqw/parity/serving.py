"""The judge of a serving witness: did a batch that really formed give the tokens of the single stream.

Pure. The shape is what the server formed (``m_formed``), never what the client asked for (PITFALLS 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.correctness.detectors import CONSTANT_RUN
from lqw.parity.verdict import ParityVerdict, Shape, Word, names_model, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROBE", "WITNESS_VERSION", "judge_serving"]

PROBE = "perf041"
WITNESS_VERSION = 2
RESULTS = ("PASS", "FAIL", "UNMEASURABLE")
BATCH = 2  # a batch begins at two


def _malformed(witness: dict[str, Any], model: str) -> str | None:
    """Return what keeps the witness from being one of this model's, or None."""
    if witness.get("probe") != PROBE:
        return f"probe = {witness.get('probe', '(absent)')!r}, not {PROBE!r}"
    version = witness.get("witness_version")
    if not whole(version) or version != WITNESS_VERSION:
        return f"witness_version = {version!r}, not {WITNESS_VERSION}"
    if not isinstance(witness.get("bands"), list):
        return "bands are missing: no concurrency was tried"
    named = witness.get("model")
    path = named.get("path") if isinstance(named, dict) else None
    if not names_model(path, model):
        return f"the witness is of model {path!r}, not of {model}"
    for name in ("commit", "binary_sha256"):
        value = witness.get(name)
        if not isinstance(value, str) or not value.strip():
            return f"{name} is missing: nothing says which program was measured"
    return None


def _band_fault(index: int, band: object) -> str | None:
    """Return what makes a band unreadable, or None."""
    if not isinstance(band, dict):
        return f"bands[{index}] is not an object"
    if not whole(band.get("c")):
        return f"bands[{index}].c = {band.get('c', '(absent)')!r} is not a positive integer"
    result, formed = band.get("result"), band.get("m_formed")
    if result not in RESULTS:
        return f"bands[{index}].result = {result!r} is none of {', '.join(RESULTS)}"
    if not whole(formed, least=0) and not (formed is None and result == "UNMEASURABLE"):
        return f"bands[{index}].m_formed = {formed!r} is not a whole number"
    return None


def _slot_fault(slot: object) -> str | None:
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
    return text and f"slot {slot.get('i', '?')}: {text}"


def _contradiction(band: dict[str, Any]) -> str | None:
    """Return what in a band is not as a PASS would have it, whatever the band calls itself, or None."""
    run, slots = band.get("max_constant_run"), band.get("slots")
    for slot in slots if isinstance(slots, list) else []:
        if (fault := _slot_fault(slot)) is not None:
            return fault
    if whole(run, least=CONSTANT_RUN):
        return f"one token repeated {run} times"
    diverged = band.get("divergence_at")
    return None if diverged is None else f"diverged at token {diverged}"


def _unproven(band: dict[str, Any]) -> str | None:
    """Return why a PASS band without a contradiction still shows nothing, or None."""
    slots = band.get("slots")
    if not isinstance(slots, list) or len(slots) != band["c"]:
        return f"{len(slots) if isinstance(slots, list) else 'no'} slots for {band['c']} requests"
    if any(not whole(slot.get("completion_tokens")) for slot in slots):
        return "a slot without completion tokens"
    if band["m_formed"] == 0:
        return "the server formed nothing: its shape is not what the client asked for"
    if band["m_formed"] > band["c"]:
        return f"batch {band['m_formed']} formed of {band['c']} requests: somebody else's were in it"
    return None


def _failed(bands: Sequence[dict[str, Any]]) -> list[str]:
    out = []
    for band in bands:
        at, found = f"c={band['c']} m_formed={band['m_formed']}", _contradiction(band)
        if band["result"] == "FAIL":
            where = band.get("divergence_at")
            diverged = "divergence not given" if where is None else f"diverged at token {where}"
            told = [text for text in (diverged, found, band.get("reason")) if text]
            out.append(f"{at}: {', '.join(dict.fromkeys(map(str, told)))}")
        elif band["result"] == "PASS" and found:
            out.append(f"{at}: says PASS, but {found}")
    return out


def _unmeasured(witness: dict[str, Any], bands: Sequence[dict[str, Any]], shape: Shape) -> list[str]:
    out = []
    if shape.batch < BATCH:
        out.append(f"no batch formed (largest {shape.batch}): the batched path was not measured")
    for band in bands:
        at = f"c={band['c']} m_formed={band['m_formed']}"
        if band["result"] == "UNMEASURABLE":
            out.append(f"{at}: UNMEASURABLE ({band.get('reason') or 'no reason given'})")
        elif found := _unproven(band):
            out.append(f"{at}: {found}")
    reference = witness.get("reference")
    if not isinstance(reference, dict) or reference.get("stable") is not True:
        out.append("the m = 1 reference is not stable: there is nothing to agree with")
    status = witness.get("exit")
    if type(status) is not int or status != 0:
        out.append(f"the probe ended with exit {status!r}")
    return out


def judge_serving(witness: object, *, model: str) -> ParityVerdict:
    """Judge one serving witness (PARITY, rules of ``lqw parity serving``).

    FAIL beats UNMEASURED: a band that diverged has measured something, whatever else did not.

    Parameters
    ----------
    witness : object
        The parsed JSON; anything may be in it.
    model : str
        Whose witness it must be.
    """

    def verdict(word: Word, shape: Shape | None, reasons: Sequence[str], **numbers: Any) -> ParityVerdict:
        return ParityVerdict("serving", model, word, shape, tuple(reasons), numbers)

    if not isinstance(witness, dict):
        return verdict(Word.FAIL, None, ["the witness is not a JSON object"])
    fault = _malformed(witness, model)
    if fault is not None:
        return verdict(Word.FAIL, None, [fault])
    bands = witness["bands"]
    faults = [fault for index, band in enumerate(bands) if (fault := _band_fault(index, band))]
    if faults:
        return verdict(Word.FAIL, None, faults)
    measured = [band for band in bands if band["result"] != "UNMEASURABLE"]
    shape = Shape(
        max((band["m_formed"] for band in measured), default=0), max((band["c"] for band in measured), default=0)
    )
    numbers = {"bands": [{name: band[name] for name in ("c", "m_formed", "result")} for band in bands]}
    if failed := _failed(bands):
        return verdict(Word.FAIL, shape, failed, **numbers)
    if unmeasured := _unmeasured(witness, bands, shape):
        return verdict(Word.UNMEASURED, shape, unmeasured, **numbers)
    streams = ", ".join(f"c={band['c']} m_formed={band['m_formed']}" for band in bands)
    return verdict(Word.PASS, shape, [f"every slot gave the single stream's tokens at {streams}"], **numbers)
