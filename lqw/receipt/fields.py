"""Every field of a receipt in words: ``python -m lqw.receipt.fields > docs/receipt/fields.md``.

Which fields there are is the models' word; what they are, that of their descriptions and :data:`WORDS`; who wrote one
and what the verifier does with it, that of the part of the receipt it stands in (:data:`PARTS`, :data:`UNBOUND`).
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel

from lqw.receipt.jsonschema import typed_receipt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["LOOSE", "WORDS", "FieldLine", "field_lines", "fields_text"]

WORDS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))

LOOSE = "bound by the digest and a signature alone: no number of the verdict follows from it"

_STEPS = "held to the declared route; a step that left the GPU must have failed its start; else published alone"
PARTS = {
    "schema": ("builder", "must be a version that this lqw reads"),
    "digest": ("builder", "recomputed from the bytes of everything else"),
    "run": ("builder", "attempts complete, and in a store present; the subject recomputed"),
    "header": ("collector", "typed; plan, epoch and rows are computed from it"),
    "header.plan": ("planner", "rebuilt from params, purpose and seed, and compared"),
    "header.params": ("people, in params/", "typed; the plan is rebuilt from it, whose hash binds every byte"),
    "header.params.files": (
        "collector",
        "in the plan's hash; compared with the repository's files, where one has moved on it is said",
    ),
    "starts": ("collector", "the plan's shape demanded; values and verdict computed from it"),
    "starts.*.steps": ("collector", _STEPS),
    "batch.starts.*.steps": ("collector", _STEPS),
    "identities": ("collector", "the plan's shape demanded; correctness computed from it"),
    "batch": ("collector", "declared for this candidate; order as drawn, none picked; confirmations computed from it"),
    "beside": ("collector", "declared, each once; published, and of no weight in the verdict"),
    "calibration": ("collector", "an error above 5 ms at the 99th percentile voids what was timed"),
    "standing": ("builder, from baseline.json", "rows are judged against it; compared with the store's file"),
    "reference": ("builder, from reference.json", "answers are compared with it; compared with the store's file"),
    "parity": ("parity runs", "judged again, each fresh for the binary that was measured"),
    "roofline": ("builder", "recomputed, compared; gates nothing"),
    "sources": ("builder", "compared with the store's files; must be there where there is content"),
    "epoch": ("builder", "recomputed"),
    "epoch_sha256": ("builder", "recomputed; must be the standing's"),
    "previous": ("builder", "recomputed from the standing; looked for in the store"),
    "artefacts": ("builder", "compared with the files where they lie beside the receipt"),
    "correctness": ("builder", "recomputed, compared"),
    "judgement": ("builder", "recomputed, compared"),
}
"""Path → who wrote what stands there, and what the verifier does with it; the longest path counts."""

STARTS = ("starts", "batch.starts")
UNBOUND = frozenset(
    {
        # when and how long: wall clocks are for people, the verdict uses none of them
        *("run.finished_utc", "run.replayed", "header.started_utc", "header.run_id", "header.host.kernel"),
        *("header.host.python", "header.lqw_version", "header.lqw_source_sha256"),
        *(f"{part}.*.{name}" for part in (*STARTS, "identities") for name in ("started_utc", "wall_s")),
        *(f"{part}.*.engine.{name}" for part in (*STARTS, "identities") for name in ("command.*", "settings")),
        *(f"{part}.*.{name}" for part in STARTS for name in ("ready_s", "origin_ns", "telemetry")),
        # of a request: when it was due and sent, the server's own clock, bursts; the comparator's answer
        *(
            f"{part}.*.requests.*.{name}"
            for part in STARTS
            for name in ("due_ns", "sent_ns", "end_ns", "connect_ns", "burst_reads", "ids_sha256", "text_sha256")
        ),
        *(
            f"{part}.*.requests.*.timings.{name}"
            for part in STARTS
            for name in ("prompt_ms", "prompt_n", "predicted_ms")
        ),
        "batch.declared.declared_utc",
        # words about an answer: identity is judged by its ids where there are any
        *("identities.*.answers.*.text", "reference.models.*.shapes.*.*.text"),
        *("reference.release", "reference.models.*.engine", "reference.models.*.binary_sha256"),
        *("standing.comparator.*.*.release",),
    }
)
"""Paths that no recomputation binds: an edit cannot better the verdict, and only a signature can bind it."""

UNITS = {
    "_ns": "ns", "_ms": "ms", "_s": "s", "_bytes": "bytes", "_mib": "MiB", "_gib": "GiB",
    "_utc": "UTC, ISO 8601", "sha256": "64 hexadecimal digits", "_tokens": "tokens",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One field: path with ``*`` for list positions and free keys, what it is, its unit, its author, its check."""

    path: str
    what: str
    unit: str
    writer: str
    verifier: str


def field_lines() -> list[FieldLine]:
    """Return every field of a receipt that holds a value, in the models' order.

    Raises
    ------
    LookupError
        A field has no words, or words have no field: said with both names.
    """
    used: set[tuple[str, str]] = set()
    lines = list(_lines(typed_receipt(), "", used))
    unused = {(model, name) for model, names in WORDS.items() for name in names} - used
    if unused:
        raise LookupError(f"lqw/receipt/words.yaml describes what is no field: {sorted(unused)}")
    return lines


def _lines(model: type[BaseModel], prefix: str, used: set[tuple[str, str]]) -> Iterator[FieldLine]:
    for name, field in model.model_fields.items():
        if field.exclude:
            continue  # for the code beside the model: no file holds it
        key = field.alias or name
        path = f"{prefix}{key}"
        inner = list(_inner(field.annotation, path))
        for one, where in inner:
            yield from _lines(one, f"{where}.", used)
        if not inner:
            said = field.description or _words(model, key, used)
            yield _line(_leaf(field.annotation, path), key, said)


def _words(model: type[BaseModel], key: str, used: set[tuple[str, str]]) -> str:
    for base in model.__mro__:
        name = base.__name__.lstrip("_")
        if key in WORDS.get(name, {}):
            used.add((name, key))
            return WORDS[name][key]
    raise LookupError(
        f"{model.__name__}.{key} has no words: describe it in lqw/receipt/words.yaml, or by Field(description=…)"
    )


def _inner(annotation: Any, path: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield every model in a type, and the path its fields stand below."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation, path
        return
    deeper = f"{path}.*" if get_origin(annotation) in (dict, list, tuple) else path
    for part in get_args(annotation):
        yield from _inner(part, deeper)


def _leaf(annotation: Any, path: str) -> str:
    """Return the path with ``.*`` where lists, or maps of text, hold the values themselves."""
    parts = (annotation, *get_args(annotation))
    for part in (*parts, *(inner for one in parts for inner in get_args(one) if get_origin(one) is Annotated)):
        if get_origin(part) in (list, tuple) or (get_origin(part) is dict and Any not in get_args(part)):
            return f"{path}.*"
    return path


def _line(path: str, key: str, said: str) -> FieldLine:
    what, _, unit = said.removesuffix("]").partition(" [")
    unit = unit or next((unit for end, unit in UNITS.items() if key.endswith(end)), "–")
    parts: Mapping[str, tuple[str, str]] = {part: told for part, told in PARTS.items() if _below(path, part)}
    if not parts:
        raise LookupError(f"{path} stands in no part that lqw.receipt.fields.PARTS knows")
    writer, verifier = parts[max(parts, key=len)]
    return FieldLine(path, what, unit, writer, LOOSE if path in UNBOUND else verifier)


def _below(path: str, part: str) -> bool:
    return re.match(rf"{re.escape(part)}(\.|$)", path) is not None


def fields_text() -> str:
    """Return the page as docs/receipt/fields.md holds it."""
    rows = [f"| `{one.path}` | {one.what} | {one.unit} | {one.writer} | {one.verifier} |" for one in field_lines()]
    return HEAD + "\n".join(rows) + "\n"


HEAD = """# Every field of `lqw-receipt/1`

Made from the models by `python -m lqw.receipt.fields`; a test holds it equal. `*` stands for a position in a list or a
free key (a model, a row, a prompt). Every field is typed by [the schema](lqw-receipt-1.schema.json), and every byte is
bound by the digest; the last column says what the verifier does beyond that. [tamper.md](tamper.md) shows it at work.

| field | what it is | unit | written by | what the verifier does with it |
|---|---|---|---|---|
"""


if __name__ == "__main__":
    sys.stdout.write(fields_text())
