"""The confirmation batch: what went RED is measured once more beside the release that set its reference.

Declared in the journal before its first start, once; what the journal holds of it is not measured again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lqw.collect.arms import timed_start, utc_now
from lqw.collect.header import refuse_other_binary
from lqw.errors import IntegrityError, UsageError
from lqw.outcomes import Arm, BatchArm
from lqw.params import EngineSpec
from lqw.plan import BATCH_TUPLES, BatchKey, StartKey, batch_starts
from lqw.receipt.subject import binary_of, subject_of
from lqw.receipt.thirdarm import refuse_foreign
from lqw.samples import BatchRecord, BatchStart, start_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lqw.collect.arms import Site
    from lqw.collect.looks import Looks
    from lqw.metrics import RowId
    from lqw.receipt.thirdarm import Find
    from lqw.samples import Batch, EngineFacts, Failure

__all__ = ["ConfirmBatch", "ThirdArm"]

_RUNS_AS = {
    BatchArm.CANDIDATE: Arm.SUBJECT,
    BatchArm.EARLIER: Arm.SUBJECT,  # of a site whose subject is that release
    BatchArm.COMPARATOR: Arm.COMPARATOR,
}


@dataclass(frozen=True, slots=True)
class ThirdArm:
    """What a confirmation needs from outside.

    ``earlier`` are the engines of earlier releases on this host; ``claim`` is told the hashes of the candidate and of
    its program, and raises UsageError where its one batch belongs to another run; ``voids`` is told the client's
    calibration and names the rows whose numbers do not count: a candidate has one batch, and it is not spent on wrong
    tokens or a late client. ``find`` looks for the receipts that set the references: nor is it spent beside another
    build than theirs.
    """

    earlier: Mapping[str, EngineSpec]
    claim: Callable[[str, str], None]
    voids: Callable[[Mapping[str, Any]], Mapping[RowId, Failure]]
    find: Find


@dataclass(frozen=True, slots=True, order=True)
class _Named(StartKey):
    """A start of a batch as the code that starts arms knows starts, under a name of its own."""

    name: str

    def __str__(self) -> str:
        return self.name


class ConfirmBatch:
    """Measures what the journal lacks of the batch.

    Parameters
    ----------
    site : Site
    looks : Looks
        Whose pairs are done.
    third : ThirdArm
    batch : Batch or None
        What the journal holds already.
    calibration : mapping
        What the client's calibration saw.
    """

    def __init__(
        self, site: Site, looks: Looks, third: ThirdArm, batch: Batch | None, calibration: Mapping[str, Any]
    ) -> None:
        self._site, self._looks, self._third, self._calibration = site, looks, third, calibration
        self._declared = batch.declared if batch else None
        self._starts = {_key(start): start for start in (batch.starts if batch else ())}
        for start in self._starts.values():
            looks.count(start)
        self._engines: dict[str, EngineFacts] = {}

    def measure(self) -> None:
        """Declare the batch where one is needed and can be had, then measure it."""
        declared = self._declared or self._declare()
        if declared is None:
            return
        self._declared = declared
        launches = len(self._site.params.protocol.launches)
        todo = {
            model: batch_starts(self._looks.plan, model, against, launches=launches, tuples=declared.tuples)
            for model, against in declared.against.items()
        }
        left = sum(key not in self._starts for keys in todo.values() for key in keys)
        planned = self._looks.starts_done + left
        for keys in todo.values():
            self._measure_model(keys, planned)

    def _declare(self) -> BatchRecord | None:
        """Write down what will be measured; None, with the reason noted, where there is nothing, or nothing to it."""
        judgement = self._looks.judgement(self._third.voids(self._calibration))
        asked = judgement.confirming
        known = {model: [one for one in releases if one in self._third.earlier] for model, releases in asked.items()}
        lacking = sorted({one for releases in asked.values() for one in releases} - self._third.earlier.keys())
        if lacking:
            self._looks.note(f"no engine of {', '.join(lacking)} is named in params/earlier/: not confirmed")
        against = {model: releases for model, releases in known.items() if releases}
        if not against:
            return None
        params, header = self._site.params, self._looks.header
        subject = subject_of(params, header.models, self._looks.starts.values())
        try:
            refuse_foreign(judgement, self._looks.standing, self._third.earlier, self._third.find)
            self._third.claim(subject, binary_of(params, self._looks.starts.values()))
        except (UsageError, IntegrityError) as err:
            self._looks.tally.batch_refused = f"{err.message}: {err.remedy}" if err.remedy else err.message
            self._looks.note(self._looks.tally.batch_refused)
            return None
        used = sorted({one for releases in against.values() for one in releases})
        record = BatchRecord(
            declared_utc=utc_now(),
            subject_sha256=subject,
            tuples=BATCH_TUPLES,
            against=against,
            earlier={one: self._third.earlier[one].model_dump(mode="json") for one in used},
        )
        self._looks.append(record)
        models = ", ".join(against)
        self._looks.note(f"{models}: confirming with {BATCH_TUPLES} × candidate, {', '.join(used)} and comparator")
        return record

    def _measure_model(self, keys: list[BatchKey], planned: int) -> None:
        for key in keys:
            done = self._starts.get(key)
            if done is None:
                if self._looks.out_of_time():
                    return
                done = self._measure_start(key, planned)
            self._know(key, done.engine)
            if done.failure is not None:  # its tuple cannot be whole, and a batch is not measured twice
                self._looks.note(f"{key.model}: the batch ends, {_words(key)} failed: {done.failure.reason}")
                return

    def _measure_start(self, key: BatchKey, planned: int) -> BatchStart:
        looks = self._looks
        facts = {"model": key.model, "pair": key.pair, "arm": f"batch {_words(key)}", "launch": key.launch}
        looks.tell("start", facts, planned)
        site, arm = self._site_of(key), _RUNS_AS[key.arm]
        record = timed_start(
            site, _Named(key.model, key.pair, arm, key.launch, str(key)), looks.position, looks.resumed_mark()
        )
        start = BatchStart(**start_fields(record), arm=key.arm, release=key.release)
        looks.append(start)
        self._starts[key] = start
        looks.count(start)
        failure = str(start.failure.reason) if start.failure is not None else None
        more: dict[str, Any] = {"wall_s": round(start.wall_s, 3), "failure": failure}
        looks.tell("end", {**facts, **more}, planned)
        return start

    def _site_of(self, key: BatchKey) -> Site:
        """Return the site whose subject is the arm's engine."""
        if key.arm is not BatchArm.EARLIER:
            return self._site
        params = self._site.params
        declared = self._declared.earlier[key.release] if self._declared else {}  # the file may say otherwise by now
        release = params.release.model_copy(update={"subject": EngineSpec.model_validate(declared)})
        return replace(self._site, params=params.model_copy(update={"release": release}))

    def _know(self, key: BatchKey, engine: EngineFacts | None) -> None:
        """Refuse other bytes than ran before: in the run for its two arms, in the batch for the third."""
        if engine is None:
            return
        if key.arm is BatchArm.EARLIER:
            first = self._engines.setdefault(key.release, engine)
            refuse_other_binary(self._looks.journal_path, key.release, first, engine)
        else:
            self._looks.know_engine(_RUNS_AS[key.arm], engine)


def _key(start: BatchStart) -> BatchKey:
    return BatchKey(start.model, start.pair, start.arm, start.release, start.launch)


def _words(key: BatchKey) -> str:
    return f"{key.arm} {key.release}" if key.arm is BatchArm.EARLIER else str(key.arm)
