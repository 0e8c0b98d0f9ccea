"""Model files with random weights in Qwen3.5's shapes: a rehearsal that needs no weights.

The speed of an engine depends on shapes and quantisation, not on what the weights say. :func:`synthesise` writes a GGUF
that engines load like the real one, streamed to disk, the same bytes for the same :class:`Recipe` on every machine.
"""

from typing import TYPE_CHECKING

from lqw.imports import exports

if TYPE_CHECKING:
    from lqw.synth.builtin import made_up_vocabulary as made_up_vocabulary
    from lqw.synth.mixes import MIXES as MIXES
    from lqw.synth.recipe import Recipe as Recipe
    from lqw.synth.shapes import SHAPES as SHAPES
    from lqw.synth.vocab import Vocabulary as Vocabulary
    from lqw.synth.vocab import read_vocabulary as read_vocabulary
    from lqw.synth.writer import Written as Written
    from lqw.synth.writer import planned_bytes as planned_bytes
    from lqw.synth.writer import synthesise as synthesise
else:
    __getattr__, __all__ = exports(
        __name__,
        {
            "builtin": ("made_up_vocabulary",),
            "mixes": ("MIXES",),
            "recipe": ("Recipe",),
            "shapes": ("SHAPES",),
            "vocab": ("Vocabulary", "read_vocabulary"),
            "writer": ("Written", "planned_bytes", "synthesise"),
        },
    )
