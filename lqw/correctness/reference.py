"""The token reference of a host: the answers of the release that set it, per model, shape and prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)

from lqw.canonical import loads_canonical
from lqw.errors import IntegrityError
from lqw.samples import Answer, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Difference",
    "IdentityReference",
    "ModelReference",
    "ReferenceAnswer",
    "first_difference",
    "parse_reference",
    "reference_answer",
    "reference_to_json",
]

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
SHOWN_IDS = 8
SHOWN_CHARACTERS = 80


class ReferenceAnswer(Record):
    """One answer to compare with. ``compared`` says by what: token ids where the engine gave them, else exact text."""

    compared: Literal["ids", "text"]
    ids: list[int] | None = None
    text: str = Field(max_length=100_000)
    tokens: int | None = None
    prompt_tokens: int | None = None
    margins: list[float] | None = None  # nats by which each token led its runner-up, where the engine told

    @model_serializer(mode="wrap")
    def _as_held(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out margins that nobody told: references from before there were any keep their bytes and hashes."""
        out: dict[str, Any] = dump(self)
        if self.margins is None:
            del out["margins"]
        return out

    @model_validator(mode="after")
    def _whole(self) -> ReferenceAnswer:
        if (self.compared == "ids") != (self.ids is not None):
            raise ValueError("compared by ids exactly where there are ids")
        if self.ids is not None and self.tokens != len(self.ids):
            raise ValueError(f"tokens = {self.tokens}, but there are {len(self.ids)} ids")
        return self


class ModelReference(Record):
    """One model's answers: shape → prompt → answer. A shape is compared with itself only (PITFALLS 50)."""

    model_sha256: Sha256
    release: str
    engine: str
    binary_sha256: str
    shapes: dict[str, dict[str, ReferenceAnswer]]


class IdentityReference(Record):
    """``<store>/<host>/reference.json``: adopted with the floor, replaced only by a record.

    ``release`` is the one whose adoption last changed the file; each model names its own.
    """

    schema_: Literal["lqw-reference/1"] = Field(default="lqw-reference/1", alias="schema")
    host: str
    release: str
    prompts_sha256: Sha256
    output_tokens: int = Field(ge=1)
    models: dict[str, ModelReference]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers part: ``index`` counts tokens or characters, the continuations start there."""

    unit: Literal["token", "character", "prompt length"]
    index: int
    before: str
    now: str
    margins: tuple[float | None, float | None] = (None, None)  # nats, before and now

    def __str__(self) -> str:
        """Return one clause for people."""
        if self.unit == "prompt length":
            return f"the prompt counted {self.before} tokens before, {self.now} now"
        before, now = (
            text if margin is None else f"{text} (led its runner-up by {margin:.3f} nats)"
            for text, margin in zip((self.before, self.now), self.margins, strict=True)
        )
        return f"{self.unit} {self.index} differs: {before} before, {now} now"


def reference_answer(answer: Answer) -> ReferenceAnswer:
    """Return what an answer leaves behind to be compared with."""
    return ReferenceAnswer(
        compared="text" if answer.ids is None else "ids",
        ids=answer.ids,
        text=answer.text,
        tokens=None if answer.ids is None else len(answer.ids),
        prompt_tokens=answer.prompt_tokens,
        margins=answer.margins,
    )


def _split(before: Sequence[object], now: Sequence[object]) -> int | None:
    """Return the first index at which the two differ, the shorter one's end included; None where they are equal."""
    if before == now:
        return None
    for index, (old, new) in enumerate(zip(before, now, strict=False)):
        if old != new:
            return index
    return None if len(before) == len(now) else min(len(before), len(now))


def _shown(text: str, ids: list[int] | None, index: int, characters: int) -> str:
    piece = text[characters : characters + SHOWN_CHARACTERS]
    shown = repr(piece) if piece else "(end)"
    return shown if ids is None else f"{shown} ids {ids[index : index + SHOWN_IDS]}"


def first_difference(before: ReferenceAnswer | Answer, now: Answer) -> Difference | None:
    """Return where *now* leaves *before*, or None where they are identical.

    Ids decide where both sides have them; else the exact text does. A prompt that the engine counts as another
    number of tokens is another prompt, whatever the answer.
    """
    if None not in (before.prompt_tokens, now.prompt_tokens) and before.prompt_tokens != now.prompt_tokens:
        return Difference("prompt length", 0, str(before.prompt_tokens), str(now.prompt_tokens))
    by_character = _split(before.text, now.text)
    characters = min(len(before.text), len(now.text)) if by_character is None else by_character
    if before.ids is None or now.ids is None:
        if by_character is None:
            return None
        old, new = (_shown(text, None, 0, characters) for text in (before.text, now.text))
        return Difference("character", by_character, old, new)
    index = _split(before.ids, now.ids)
    if index is None:
        return None
    old = _shown(before.text, before.ids, index, characters)
    margins = (_margin(before.margins, index), _margin(now.margins, index))
    return Difference("token", index, old, _shown(now.text, now.ids, index, characters), margins)


def _margin(margins: Sequence[float] | None, index: int) -> float | None:
    return margins[index] if margins is not None and index < len(margins) else None


def parse_reference(data: bytes | str | dict[str, Any], *, name: str = "reference.json") -> IdentityReference:
    """Read a reference strictly; IntegrityError names the file and the field."""
    text = data.encode() if isinstance(data, str) else data
    value = loads_canonical(text, name=name)[0] if isinstance(text, bytes) else text
    try:
        return IdentityReference.model_validate(value)
    except ValidationError as err:
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(document)"
        raise IntegrityError(f"{name}: {field}: {first['msg']}") from err


def reference_to_json(reference: IdentityReference) -> dict[str, Any]:
    """Return the JSON form; written with :func:`lqw.canonical.canonical_bytes` it is the same bytes every time."""
    return reference.model_dump(mode="json", by_alias=True)
