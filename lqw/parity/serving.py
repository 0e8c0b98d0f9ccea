"""The judge of a serving witness: did a batch that really formed give the tokens of the single stream.

Pure. The shape is what the server formed (``m_formed``), never what the client asked for (PITFALLS 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.correctness.detectors import CONSTANT_RUN
from lqw.parity.bands import Reference, band_fault, contradiction, unproven
from lqw.parity.verdict import ParityVerdict, Shape, Word, is_sha256, names_model, shown, told, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BATCH", "PROBE", "WITNESS_VERSION", "judge_serving"]

PROBE = "perf041"
WITNESS_VERSION = 2
BATCH = 2  # a batch begins at two
MOST_BANDS = 64


def _malformed(witness: dict[str, Any], model: str) -> str | None:
    """Return what keeps the witness from being one of this model's, or None."""
    version, bands, named = witness.get("witness_version"), witness.get("bands"), witness.get("model")
    path = named.get("path") if isinstance(named, dict) else None
    text = None
    if witness.get("probe") != PROBE:
        text = f"probe = {shown(witness.get('probe', '(absent)'))}, not {PROBE!r}"
    elif not whole(version) or version != WITNESS_VERSION:
        text = f"witness_version = {shown(version)}, not {WITNESS_VERSION}"
    elif not isinstance(bands, list):
        text = "bands are missing: no concurrency was tried"
    elif len(bands) > MOST_BANDS:
        text = f"{len(bands)} bands, at most {MOST_BANDS} are read"
    elif not names_model(path, model):
        text = f"the witness is of model {shown(path)}, not of {model}"
    return text or _nameless(witness)


def _nameless(witness: dict[str, Any]) -> str | None:
    """Return what keeps the witness from naming the program that was measured, or None."""
    for name in ("commit", "binary_sha256"):
        value = witness.get(name)
        if not isinstance(value, str) or not value.strip():
            return f"{name} is missing: nothing says which program was measured"
    if not is_sha256(witness["binary_sha256"]):
        return f"binary_sha256 = {shown(witness['binary_sha256'])} is not a sha256"
    return None


def _failed(bands: Sequence[dict[str, Any]], reference: Reference, slots: int | None) -> list[str]:
    out = []
    for band in bands:
        at, found = f"c={band['c']} m_formed={band['m_formed']}", contradiction(band, reference)
        if band["result"] == "FAIL":
            where = band.get("divergence_at")
            diverged = "divergence not given" if where is None else f"diverged at token {shown(where)}"
            said = [text for text in (diverged, found, band.get("reason")) if text]
            out.append(f"{at}: {', '.join(dict.fromkeys(map(told, said)))}")
        elif band["result"] == "PASS" and found:
            out.append(f"{at}: says PASS, but {found}")
        elif band["result"] == "PASS" and slots is not None and band["m_formed"] > slots:
            out.append(f"{at}: says PASS, but the server had {slots} slots")
    return out


def _slots_of(witness: dict[str, Any]) -> int | None:
    """Return how many slots the server said it had, None where it did not say."""
    settings = witness.get("settings")
    slots = settings.get("slots") if isinstance(settings, dict) else None
    return slots if whole(slots) else None


def _temperature(witness: dict[str, Any]) -> object:
    """Return the temperature that answers were drawn at, None where they were greedy or nothing tells."""
    sampler = witness.get("sampler")
    heat = sampler.get("temperature") if isinstance(sampler, dict) else None
    return None if heat is None or (heat == 0 and type(heat) in (int, float)) else heat


def _unmeasured(
    witness: dict[str, Any], bands: Sequence[dict[str, Any]], shape: Shape, reference: Reference
) -> list[str]:
    out = []
    if shape.batch < BATCH:
        out.append(f"no batch formed (largest {shape.batch}): the batched path was not measured")
    for band in bands:
        at = f"c={band['c']} m_formed={band['m_formed']}"
        if band["result"] == "UNMEASURABLE":
            out.append(f"{at}: UNMEASURABLE ({told(band.get('reason') or 'no reason given')})")
        elif found := unproven(band):
            out.append(f"{at}: {found}")
    if not reference.stable:
        why = f" ({told(reference.reason)})" if reference.reason else ""
        out.append(f"the m = 1 reference is not stable{why}: there is nothing to agree with")
    elif not whole(reference.tokens, least=CONSTANT_RUN):
        count = shown(reference.tokens)
        out.append(
            f"answers of {count} tokens: garbage is a run of {CONSTANT_RUN}, so fewer cannot show that there is none"
        )
    if (heat := _temperature(witness)) is not None:
        out.append(f"sampler.temperature = {shown(heat)}: drawn answers need not agree")
    status = witness.get("exit")
    if type(status) is not int or status != 0:
        out.append(f"the probe ended with exit {shown(status)}")
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
    faults = [fault for index, band in enumerate(bands) if (fault := band_fault(index, band))]
    if faults:
        return verdict(Word.FAIL, None, faults)
    measured = [band for band in bands if band["result"] != "UNMEASURABLE"]
    shape = Shape(
        max((band["m_formed"] for band in measured), default=0), max((band["c"] for band in measured), default=0)
    )
    numbers = {"bands": [{name: band[name] for name in ("c", "m_formed", "result")} for band in bands]}
    reference = Reference.of(witness)
    if failed := _failed(bands, reference, _slots_of(witness)):
        return verdict(Word.FAIL, shape, failed, **numbers)
    if unmeasured := _unmeasured(witness, bands, shape, reference):
        return verdict(Word.UNMEASURED, shape, unmeasured, **numbers)
    streams = ", ".join(f"c={band['c']} m_formed={band['m_formed']}" for band in bands)
    return verdict(Word.PASS, shape, [f"every slot gave the single stream's tokens at {streams}"], **numbers)
