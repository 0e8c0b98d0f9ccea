"""What was seen, as it is written down: the records of a journal, which a receipt holds again."""

from __future__ import annotations

from lqw.samples.base import Failure, Many, Named, Record, Several
from lqw.samples.facts import EngineFacts, HostFacts, ModelWork
from lqw.samples.journal import (
    Answer,
    Batch,
    BatchRecord,
    BatchStart,
    BesideRecord,
    Header,
    IdentityRecord,
    ServedRecord,
    StartRecord,
    Twin,
    start_fields,
)
from lqw.samples.requests import MemoryPeaks, RequestSample, ServerTimings, StepFacts, Unstreamed

__all__ = [
    "Answer",
    "Batch",
    "BatchRecord",
    "BatchStart",
    "BesideRecord",
    "EngineFacts",
    "Failure",
    "Header",
    "HostFacts",
    "IdentityRecord",
    "Many",
    "MemoryPeaks",
    "ModelWork",
    "Named",
    "Record",
    "RequestSample",
    "ServedRecord",
    "ServerTimings",
    "Several",
    "StartRecord",
    "StepFacts",
    "Twin",
    "Unstreamed",
    "start_fields",
]
