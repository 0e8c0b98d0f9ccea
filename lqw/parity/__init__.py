"""Parity at the serving shape: the judge of cosine records and serving witnesses, and the witness itself.

:mod:`.judge`, :mod:`.serving` and :mod:`.blessed` are pure: values in, a :class:`.verdict.ParityVerdict` out. Reading
files is :mod:`.files`; talking to an engine is :mod:`.witness`.
"""

from lqw.params.parity import BlessedSpec, ThresholdsSpec
from lqw.parity.blessed import UnderTest, judge_blessed, judge_release
from lqw.parity.commits import commit_of
from lqw.parity.judge import judge_record
from lqw.parity.serving import judge_serving
from lqw.parity.verdict import ParityVerdict, Shape, Word

__all__ = [
    "BlessedSpec",
    "ParityVerdict",
    "Shape",
    "ThresholdsSpec",
    "UnderTest",
    "Word",
    "commit_of",
    "judge_blessed",
    "judge_record",
    "judge_release",
    "judge_serving",
]
