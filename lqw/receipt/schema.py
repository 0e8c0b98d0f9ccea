"""``lqw-receipt/1``: one file that carries a run's raw samples, what it was judged against, and the verdict.

A receipt file is exactly the canonical JSON (RFC 8785) of this model, so that ``sha256sum`` of the file names it.
``digest`` is the sha256 of the canonical JSON without the digest itself. docs/receipt/ has every field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lqw.outcomes import Outcome
from lqw.ratchet.epoch import EpochKey
from lqw.samples import Batch, BesideRecord, Header, IdentityRecord, Named, Record, Several, StartRecord

__all__ = ["SCHEMA", "EarlierAttempt", "Receipt", "RunFacts", "Sources"]

SCHEMA = "lqw-receipt/1"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Utc = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$")]


class EarlierAttempt(Record):
    """An attempt at the same version that came before this one; all are kept."""

    attempt: int = Field(ge=1, description="number of that attempt, from 1")
    sha256: Sha256 = Field(description="sha256 of that attempt's receipt file")
    outcome: Named[Outcome] = Field(description="what it said")


class RunFacts(Record):
    """How the run went, beside what the journal's header says of it."""

    finished_utc: Utc = Field(description="when the receipt was made; wall clock of the host, UTC")
    resumed: Several[Utc] = Field(default=(), description="when the run was resumed after it had been stopped")
    attempt: int = Field(default=1, ge=1, description="which attempt at this version on this host, from 1")
    earlier: Several[EarlierAttempt] = Field(default=(), description="every earlier attempt, oldest first")
    replayed: bool = Field(
        default=False, description="the samples were measured by an earlier run; a replay is never stored"
    )
    subject_sha256: Sha256 = Field(description="who was judged: engine, binary, settings, environment and models")


class Sources(Record):
    """The files the embedded standing and reference were cut from, as they were when the run was judged."""

    baseline: Sha256 | None = Field(description="sha256 of baseline.json; null where there was none")
    reference: Sha256 | None = Field(description="sha256 of reference.json; null where there was none")


class Receipt(Record):
    """The receipt of one run.

    ``standing``, ``reference``, ``correctness`` and ``judgement`` are typed by the modules that own them and read
    there; here they are kept as they stand, so that every recorded number can be compared.
    """

    schema_: Literal["lqw-receipt/1"] = Field(alias="schema")
    digest: Sha256 = Field(description="sha256 of the canonical JSON of everything but this field")
    run: RunFacts
    header: Header = Field(description="the journal's first line: plan, params, host, model hashes, versions")
    starts: Several[StartRecord] = Field(description="every engine start, raw stamps and all, in running order")
    identities: Several[IdentityRecord] = Field(description="every untimed answer")
    batch: Batch | None = Field(
        default=None,
        description="the confirmation batch: its declaration, and every start of its three arms; absent without one",
    )
    beside: Several[BesideRecord] = Field(
        default=(), description="every start of an engine beside, never gating; absent where there is none"
    )
    calibration: dict[str, Any] | None = Field(description="what the client's calibration saw before the run")
    standing: dict[str, Any] = Field(description="floors, last values and histories this run was judged against")
    reference: dict[str, Any] | None = Field(description="the host's token reference this run was judged against")
    parity: dict[str, Any] | None = Field(
        default=None, description="parity receipts of the blessed model by path; absent where no model is blessed"
    )
    roofline: dict[str, Any] | None = Field(
        default=None,
        description="each row's best possible value on this device and both engines' percent of it; absent where the "
        "host was not measured",
    )
    sources: Sources
    epoch: EpochKey | None = Field(description="host class, comparator, models, protocol; null: no comparator started")
    epoch_sha256: str = Field(pattern=r"^([0-9a-f]{64})?$", description="hash of the epoch key")
    previous: Sha256 | None = Field(description="receipt of the last release, else of the floor, in this epoch")
    artefacts: dict[FileName, Sha256] = Field(description="files of the run folder: journal, artefacts, notebooks")
    correctness: dict[str, Any] = Field(description="stage 20: checks and voids")
    judgement: dict[str, Any] = Field(description="rows, suites, guards, targets, counts, outcome, exit status")
