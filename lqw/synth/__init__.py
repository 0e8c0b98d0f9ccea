"""Model files with random weights in Qwen3.5's shapes: a rehearsal that needs no weights.

The speed of an engine depends on shapes and quantisation, not on what the weights say. :func:`synthesise` writes a GGUF
that engines load like the real one, streamed to disk, the same bytes for the same :class:`Recipe` on every machine.
"""

from __future__ import annotations

from lqw.synth.builtin import made_up_vocabulary
from lqw.synth.mixes import MIXES
from lqw.synth.recipe import Recipe
from lqw.synth.shapes import SHAPES
from lqw.synth.vocab import Vocabulary, read_vocabulary
from lqw.synth.writer import Written, planned_bytes, synthesise

__all__ = [
    "MIXES",
    "SHAPES",
    "Recipe",
    "Vocabulary",
    "Written",
    "made_up_vocabulary",
    "planned_bytes",
    "read_vocabulary",
    "synthesise",
]
