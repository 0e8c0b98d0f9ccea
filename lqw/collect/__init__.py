"""Stage 10: engines started, requests timed, samples journalled."""

from typing import TYPE_CHECKING

from lqw.imports import exports

if TYPE_CHECKING:
    from lqw.collect.batch import ThirdArm as ThirdArm
    from lqw.collect.session import collect as collect
    from lqw.collect.summary import CollectSummary as CollectSummary
else:
    __getattr__, __all__ = exports(
        __name__, {"batch": ("ThirdArm",), "session": ("collect",), "summary": ("CollectSummary",)}
    )
