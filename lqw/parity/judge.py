"""The judge of a cosine record: ``apr parity FILE --json``, raw or inside a v2 envelope. Pure."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from lqw.parity.verdict import ParityVerdict, Refusal, Shape, Word, file_name, is_sha256, names_model, shown, whole

if TYPE_CHECKING:
    from lqw.params.parity import ThresholdSpec, ThresholdsSpec

__all__ = ["ENVELOPE", "judge_record", "least_of", "moment_of"]

ENVELOPE = "apr-parity-receipt/v2"
SINGLE = Shape(1, 1)
NAMED = 5  # positions below the floor that the verdict names
AGREES = 5e-7  # published cosines have six decimals
PARTS = ("cell", "comparator", "provenance", "result")
FLOORS = frozenset({"threshold", "thresholds", "floor", "floors"})


def _object(record: object) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise Refusal("the record is not a JSON object")
    return record


def _shape_of(record: dict[str, Any]) -> Shape:
    """Return the shape; a record that names none was taken at {1,1}."""
    shape = record.get("shape", {"batch": 1, "concurrency": 1})
    if not isinstance(shape, dict):
        raise Refusal(f"shape = {shown(shape)} is not an object with batch and concurrency")
    for name in ("batch", "concurrency"):
        if not whole(shape.get(name)):
            raise Refusal(f"shape.{name} = {shown(shape.get(name, '(absent)'))} is not a positive integer")
    return Shape(shape["batch"], shape["concurrency"])


def _cosine(value: object) -> TypeGuard[float]:
    """Return whether *value* is a number that a cosine can be; the bounds first, since no float holds 400 digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1 - AGREES <= value <= 1 + AGREES


def _cosines(raw: dict[str, Any]) -> dict[int, float]:
    """Return position → cosine."""
    metrics = raw.get("metrics")
    if not isinstance(metrics, list) or not metrics:
        raise Refusal("no metrics: nothing was measured")
    out: dict[int, float] = {}
    for index, metric in enumerate(metrics):
        if not isinstance(metric, dict):
            raise Refusal(f"metrics[{index}] is not an object")
        position, cosine = metric.get("position"), metric.get("cosine_similarity")
        if not whole(position, least=0):
            raise Refusal(f"metrics[{index}].position = {shown(position)} is not a whole number")
        if not _cosine(cosine):
            raise Refusal(f"position {position}: cosine_similarity = {shown(cosine)} is not a cosine")
        if position in out:
            raise Refusal(f"position {position} stands twice: positions may not be counted double")
        out[position] = float(cosine)
    return out


def least_of(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope's ``result`` for a raw record; without numbers where its metrics are none."""
    try:
        cosines = _cosines(raw)
    except Refusal:
        metrics = raw.get("metrics")
        count = len(metrics) if isinstance(metrics, list) else 0
        return {"positions": count, "min_cosine": None, "min_cosine_position": None}
    at = min(cosines, key=lambda position: (cosines[position], position))
    return {"positions": len(cosines), "min_cosine": cosines[at], "min_cosine_position": at}


def _check_claims(record: dict[str, Any], cosines: dict[int, float]) -> None:
    """Refuse an envelope whose ``result`` does not follow from its raw metrics."""
    result = record.get("result")
    if not isinstance(result, dict):
        raise Refusal("the envelope has no result")
    count, least, at = (result.get(name) for name in ("positions", "min_cosine", "min_cosine_position"))
    true_least = min(cosines.values())
    if not whole(count) or count != len(cosines):
        raise Refusal(f"result.positions = {shown(count)}, but raw holds {len(cosines)}")
    if not _cosine(least) or abs(least - true_least) > AGREES:
        raise Refusal(f"result.min_cosine = {shown(least)}, but raw's least is {true_least:.6f}")
    if not whole(at, least=0) or abs(cosines.get(at, math.inf) - true_least) > AGREES:
        raise Refusal(f"result.min_cosine_position = {shown(at)} is not where raw's least is")


def _check_origin(record: dict[str, Any]) -> None:
    """Refuse an envelope that does not say which program and bytes it is of, or tells two stories about them."""
    provenance, cell, raw = record.get("provenance"), record["cell"], record["raw"]
    if not isinstance(provenance, dict):
        raise Refusal("the envelope has no provenance: nothing says which program was measured")
    for name in ("binary_sha256", "model_sha256"):
        if not is_sha256(value := provenance.get(name, "(absent)")):
            raise Refusal(f"provenance.{name} = {shown(value)} is not a sha256")
    of, file = raw.get("model"), cell.get("file")
    if isinstance(of, str) and isinstance(file, str) and file_name(of) != file_name(file):
        raise Refusal(f"raw is of model {shown(of)}, the cell of file {shown(file)}")
    begun, done = moment_of("provenance.started_utc", provenance), moment_of("generated_at", record)
    if begun is not None and done is not None and begun > done:
        raise Refusal(f"generated_at {done.isoformat()} is before the measurement began, {begun.isoformat()}")


def moment_of(name: str, holder: dict[str, Any]) -> dt.datetime | None:
    """Return the moment that a field names, None where there is no such field."""
    value = holder.get(name.rpartition(".")[2])
    if value is None:
        return None
    with contextlib.suppress(ValueError, TypeError):
        moment = dt.datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment
    raise Refusal(f"{name} = {shown(value)} is not a moment with its zone")


def _opened(record: dict[str, Any]) -> tuple[dict[str, Any], object]:
    """Return the raw record and the model it is said to be of."""
    if "schema" not in record:
        return record, record.get("model")
    if record["schema"] != ENVELOPE:
        raise Refusal(f"schema {shown(record['schema'])} is not {ENVELOPE}")
    parts = [record, *(part for name in PARTS if isinstance(part := record.get(name), dict))]
    if "min_cosine" in record or any(FLOORS & part.keys() for part in parts):
        raise Refusal("the envelope carries a threshold: a receipt may not bring the floor it is held to")
    raw, cell = record.get("raw"), record.get("cell")
    if not isinstance(raw, dict) or not isinstance(cell, dict):
        raise Refusal("the envelope has no raw record, or no cell")
    if "shape" in raw and _shape_of(raw) != _shape_of(record):
        raise Refusal(f"raw was taken at shape {_shape_of(raw)}, the envelope says {_shape_of(record)}")
    return raw, cell.get("model")


def _measured(record: dict[str, Any], shape: Shape, model: str) -> dict[int, float]:
    """Return the cosines of a record that is this model's and of one stream."""
    raw, named = _opened(record)
    if not names_model(named, model):
        raise Refusal(f"the record is of model {shown(named)}, not of {model}")
    if shape != SINGLE:
        raise Refusal(f"a cosine record is taken at {SINGLE} and licenses no claim about another shape")
    return _cosines(raw)


def _floor(record: dict[str, Any], thresholds: ThresholdsSpec, model: str) -> tuple[ThresholdSpec, str]:
    """Return the floor a record is held to and where it stands.

    A record that was not taken by ``apr parity`` says so in ``method``: its cosine has another scale, and is held to
    that method's floor or to none.
    """
    raw, comparator = record.get("raw"), record.get("comparator")
    method = (raw if isinstance(raw, dict) else record).get("method")
    kind = comparator.get("kind") if isinstance(comparator, dict) else None
    if method is None and isinstance(kind, str) and kind in thresholds.methods:
        raise Refusal(f"comparator.kind = {shown(kind)}, but raw does not say that it was taken so")
    if method is None:
        return thresholds.of(model)
    if isinstance(raw, dict) and kind != method:
        raise Refusal(f"comparator.kind = {shown(kind)}, but raw was taken by {shown(method)}")
    if not isinstance(method, str) or method not in thresholds.methods:
        raise Refusal(f"taken by {shown(method)}, for which there is no floor")
    return thresholds.methods[method], f"methods.{method}"


def _held(cosines: dict[int, float], floor: ThresholdSpec, source: str, min_positions: int) -> str:
    """Return the words of a pass; refuse too few positions, or any below the floor."""
    if len(cosines) < min_positions:
        raise Refusal(f"{len(cosines)} positions, at least {min_positions} are needed")
    below = [position for position in sorted(cosines) if cosines[position] < floor.min_cosine]
    if below:
        first = ", ".join(f"position {position} {cosines[position]:.6f}" for position in below[:NAMED])
        more = f" and {len(below) - NAMED} more" if len(below) > NAMED else ""
        which = f"{len(below)} of {len(cosines)} positions below {floor.min_cosine} ({source})"
        raise Refusal(f"{which}: {first}{more}; least {min(cosines.values()):.6f}")
    return f"{len(cosines)} positions, least cosine {min(cosines.values()):.6f}, floor {floor.min_cosine} ({source})"


def judge_record(record: object, *, model: str, thresholds: ThresholdsSpec) -> ParityVerdict:
    """Judge one cosine record (PARITY, rules of ``lqw parity judge``).

    Parameters
    ----------
    record : object
        The parsed JSON; anything may be in it.
    model : str
        Which model's floor holds, and whose record it must be.
    thresholds : ThresholdsSpec
        The floors.
    """
    numbers: dict[str, Any] = {"least_positions": thresholds.min_positions}
    shape = None
    try:
        opened = _object(record)
        shape = _shape_of(opened)
        floor, source = _floor(opened, thresholds, model)
        numbers |= {"floor": floor.min_cosine, "floor_source": source}
        cosines = _measured(opened, shape, model)
        numbers |= least_of(_opened(opened)[0])
        text = _held(cosines, floor, source, thresholds.min_positions)
        if opened.get("schema") == ENVELOPE:
            _check_claims(opened, cosines)
            _check_origin(opened)
    except Refusal as refused:
        return ParityVerdict("m1", model, Word.FAIL, shape, (str(refused),), numbers)
    return ParityVerdict("m1", model, Word.PASS, shape, (text,), numbers)
