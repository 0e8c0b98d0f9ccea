"""Stage 10: engines started, requests timed, samples journalled."""

from lqw.collect.batch import ThirdArm
from lqw.collect.preflight import preflight
from lqw.collect.session import collect
from lqw.collect.summary import CollectSummary

__all__ = ["CollectSummary", "ThirdArm", "collect", "preflight"]
