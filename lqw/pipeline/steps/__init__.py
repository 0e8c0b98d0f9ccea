"""What the notebook cells call: one function a step. Notebooks show and steer, the library does.

Every step takes the :class:`lqw.pipeline.begin.Run` of :func:`begin` first; what it returns can be shown as it is.
"""

from lqw.pipeline.begin import begin
from lqw.pipeline.steps.collecting import collect, show_plan, write_collected
from lqw.pipeline.steps.noise import noise_bands, show_bands, show_standing, show_strips, write_bands
from lqw.pipeline.steps.shared import load_reference, load_standing
from lqw.pipeline.steps.tokens import judge_tokens, load_samples, show_engines, show_starts, show_tokens, write_tokens
from lqw.pipeline.steps.verdict import conclude, judge_run, show_forest, show_rows, write_receipt

__all__ = [
    "begin",
    "collect",
    "conclude",
    "judge_run",
    "judge_tokens",
    "load_reference",
    "load_samples",
    "load_standing",
    "noise_bands",
    "show_bands",
    "show_engines",
    "show_forest",
    "show_plan",
    "show_rows",
    "show_standing",
    "show_starts",
    "show_strips",
    "show_tokens",
    "write_bands",
    "write_collected",
    "write_receipt",
    "write_tokens",
]
