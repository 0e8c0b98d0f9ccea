"""What a synthetic model is made from: equal recipes give equal bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.errors import ParamsError
from lqw.synth.draws import Stream
from lqw.synth.mixes import MIXES, Format, Mix, format_of
from lqw.synth.shapes import SHAPES, Shape, TensorShape, tensor_shapes

if TYPE_CHECKING:
    from lqw.synth.vocab import Vocabulary

__all__ = ["Recipe"]

KAPPA_MAX = 4.0
SEED_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """Shape, mix, seed, conditioning and vocabulary of one file.

    Parameters
    ----------
    shape_name, mix_name : str
        Keys of ``SHAPES`` and ``MIXES``.
    vocabulary : Vocabulary
        The tokenizer; padded with unused tokens up to the shape's vocabulary.
    seed : int
        0 … 2^63 − 1.
    kappa : float
        How much the layers add to the residual stream, relative to the embedding they start from (root mean square,
        all layers together). 1 keeps every engine on the same tokens; larger makes answers depend more on the context
        and engines part earlier.

    Raises
    ------
    ParamsError
        A name is unknown, a number is out of range, or the vocabulary is larger than the shape's.
    """

    shape_name: str
    mix_name: str
    vocabulary: Vocabulary
    seed: int = 0
    kappa: float = 1.0

    def __post_init__(self) -> None:
        _known("--shape", self.shape_name, SHAPES)
        _known("--mix", self.mix_name, MIXES)
        if not 0 <= self.seed <= SEED_MAX:
            raise _bad("--seed", self.seed, "out of range", f"give a whole number from 0 to {SEED_MAX}")
        if not 0 < self.kappa <= KAPPA_MAX:  # also refuses NaN
            raise _bad("--kappa", self.kappa, "out of range", f"give a number above 0, at most {KAPPA_MAX}; 1 is usual")
        if len(self.vocabulary.tokens) > self.rows:
            have = len(self.vocabulary.tokens)
            raise _bad("--vocab", self.vocabulary.source, f"{have} tokens, the shape has {self.rows}", "use Qwen3.5's")

    @property
    def shape(self) -> Shape:
        """Return the sizes."""
        return SHAPES[self.shape_name]

    @property
    def mix(self) -> Mix:
        """Return the mix."""
        return MIXES[self.mix_name]

    @property
    def rows(self) -> int:
        """Return the rows of embedding and output: the tokenizer's tokens and the padding."""
        return self.shape.vocabulary or len(self.vocabulary.tokens)

    def tensors(self) -> list[tuple[TensorShape, Format]]:
        """Return every tensor with its format, in the order of the file."""
        return [(t, format_of(t, self.shape, self.mix)) for t in tensor_shapes(self.shape, self.rows)]

    def stream(self, name: str) -> Stream:
        """Return the random words for *name*: other seeds and shapes give unrelated ones, other mixes the same."""
        return Stream(self.seed, f"{self.shape_name}/{name}")

    def described(self) -> str:
        """Return the recipe as one line of JSON, as it stands in the file's metadata."""
        parts = {"shape": self.shape_name, "mix": self.mix_name, "seed": self.seed, "kappa": self.kappa}
        return json.dumps({"format": "lqw-synth/1", **parts, "vocabulary": self.vocabulary.kind}, sort_keys=True)


def _known(field: str, name: str, table: dict[str, Shape] | dict[str, Mix]) -> None:
    if name not in table:
        raise _bad(field, name, "unknown", f"choose one of {', '.join(table)}")


def _bad(field: str, value: object, problem: str, remedy: str) -> ParamsError:
    return ParamsError(file="lqw synth", field=field, value=value, problem=problem, remedy=remedy)
