"""Identity, then pairs, until the judge has enough: what is measured next follows from the journal and the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.collect.arms import Site, timed_start
from lqw.collect.header import refuse_other_binary
from lqw.collect.identity import identity_start
from lqw.collect.pace import Pace
from lqw.collect.summary import Tally
from lqw.journal import read_journal
from lqw.noise.lengthen import lengthened
from lqw.outcomes import Arm, Purpose
from lqw.plan import StartKey
from lqw.samples import BatchRecord
from lqw.verdict import Evidence, Standing, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lqw.journal import JournalWriter
    from lqw.metrics import RowId
    from lqw.plan import Plan
    from lqw.samples import BatchStart, EngineFacts, Failure, Header, HostFacts, IdentityRecord, StartRecord
    from lqw.verdict import Judgement

    StandingOf = Callable[[HostFacts, EngineFacts, dict[str, str]], Standing]

__all__ = ["Looks", "StandingOf"]

FAILED_STARTS_IN_A_ROW = 2
"""An arm that fails to start this often in a row is given up for its model: the rest of the night is worth more."""


class Looks:
    """Measures what the journal lacks.

    Parameters
    ----------
    site : Site
    plan : Plan
    writer : JournalWriter
        Of a journal that has its header.
    header : Header
        The journal's.
    standing_of : callable
        Gives the references once the comparator is known.
    """

    def __init__(self, site: Site, plan: Plan, writer: JournalWriter, header: Header, standing_of: StandingOf) -> None:
        self._site, self.plan, self._writer, self.header = site, plan, writer, header
        self._standing_of, self._standing = standing_of, Standing()
        self.pace = Pace(site.params.protocol.total_deadline_s)
        self._binaries: dict[Arm, EngineFacts] = {}
        self.starts: dict[StartKey, StartRecord] = {}
        journal = read_journal(writer.path)
        self.identities = {record.model: record for record in journal.identities}
        self.position = journal.next_position
        self.tally = Tally(resumed_at=self.position or None)
        for start in journal.starts:
            self._take(start)

    # records ------------------------------------------------------------------------------------------------------

    def _take(self, start: StartRecord) -> None:
        self.starts[StartKey(start.model, start.pair, start.arm, start.launch)] = start
        self.know_engine(start.arm, start.engine)
        self.pace.add(start.wall_s)

    def know_engine(self, arm: Arm, engine: EngineFacts | None) -> None:
        """Note what ran as an arm, and refuse other bytes than ran before."""
        if engine is None:
            return
        known = self._binaries.get(arm)
        if known is not None:
            refuse_other_binary(self._writer.path, arm, known, engine)
            return
        self._binaries[arm] = engine
        if arm is Arm.COMPARATOR:
            self._standing = self._standing_of(self.header.host, engine, self.header.models)

    def append(self, record: StartRecord | IdentityRecord | BatchRecord | BatchStart) -> None:
        """Write a record into the journal; what has a position moves on to the next one."""
        self._writer.append(record)
        self.position += not isinstance(record, BatchRecord)

    @property
    def standing(self) -> Standing:
        """Return the references of this run; none before the comparator is known."""
        return self._standing

    @property
    def journal_path(self) -> Path:
        """Return where the journal is."""
        return self._writer.path

    # identity -----------------------------------------------------------------------------------------------------

    def ask_identity(self) -> None:
        """Ask the subject for its answers, model by model, where the journal does not have them."""
        for model in self.plan.orders:
            if model in self.identities:
                continue
            self._site.progress({"event": "identity", "model": model})
            margins = self.plan.purpose is Purpose.ADOPT
            record = identity_start(self._site, model, self.position, margins=margins)
            self.know_engine(Arm.SUBJECT, record.engine)
            self.append(record)
            self.identities[model] = record

    # pairs --------------------------------------------------------------------------------------------------------

    @property
    def _starts_a_pair(self) -> int:
        return 2 * len(self._site.params.protocol.launches)

    def _done(self, model: str) -> int:
        return sum(1 for key in self.starts if key.model == model)

    def _planned(self, needing: Iterable[str], look: int) -> int:
        """Return how many starts there will be when *needing* have been measured up to *look*."""
        wanted = dict.fromkeys(needing, self.plan.pairs_at(look) * self._starts_a_pair)
        return sum(max(wanted.get(model, 0), self._done(model)) for model in self.plan.orders)

    def measure(self) -> None:
        """Measure up to each look in turn, and go on with the models the judge is not sure of."""
        needing = tuple(self.plan.orders)
        counts = {"starts_planned": self._planned(needing, 0), "rows_planned": len(self.plan.rows)}
        self._site.progress({"event": "plan", **counts, "starts_done": len(self.starts)})
        for look in range(self.plan.n_looks):
            for model in needing:
                self._measure_model(model, look, self._planned(needing, look))
            self.tally.looks = look + 1
            last = look + 1 == self.plan.n_looks or self.tally.deadline_hit
            needing = () if last else self._needing()
            planned = self._planned(needing, look + 1) if needing else len(self.starts)
            event = {"event": "look", "look": look + 1, "needing": list(needing), "starts_planned": planned}
            self._site.progress(event)
            if not needing:
                return

    def _needing(self) -> tuple[str, ...]:
        return tuple(m for m in self.judgement().models_needing_pairs if m not in self.tally.given_up)

    def judgement(self, voids: Mapping[RowId, Failure] | None = None) -> Judgement:
        """Return what the judge says of the pairs so far; *voids* are rows whose numbers do not count."""
        params = self._site.params
        return judge(
            Evidence(
                plan=self.plan,
                starts=tuple(self.starts.values()),
                min_window_s=params.protocol.min_window_s,
                voids=voids or {},
                standing=self._standing,
                targets=params.targets.targets,
            )
        )

    def _measure_model(self, model: str, look: int, planned: int) -> None:
        for pair in range(1, self.plan.pairs_at(look) + 1):
            for key in self.plan.starts(model, pair, self._site.params.protocol.launches):
                if key in self.starts:
                    continue
                if model in self.tally.given_up or self.out_of_time():
                    return
                self._measure_start(key, look, planned)

    def _measure_start(self, key: StartKey, look: int, planned: int) -> None:
        facts = {"model": key.model, "pair": key.pair, "arm": str(key.arm), "launch": key.launch}
        self.tell("start", {**facts, "look": look + 1, "engine": self._site.spec(key.arm).engine}, planned)
        repeats = lengthened(self._site.params.protocol, self.starts.values(), key)
        if repeats:
            longer = ", ".join(f"{step} {count} times" for step, count in repeats.items())
            self.note(f"{key}: lengthened, {longer}: one start's error was above a third of the spread between starts")
        record = timed_start(self._site, key, self.position, self.resumed_mark(), repeats=repeats)
        self._take(record)
        self.append(record)
        self._give_up_if_hopeless(key.model, key.arm)
        failure = str(record.failure.reason) if record.failure is not None else None
        end = {"wall_s": round(record.wall_s, 3), "failure": failure, "rows_done": self._rows_done(look)}
        self.tell("end", {**facts, **end}, planned)

    def _rows_done(self, look: int) -> int:
        """Return how many rows have all the pairs of this look."""
        wanted = self.plan.pairs_at(look) * self._starts_a_pair
        complete = {model for model in self.plan.orders if self._done(model) >= wanted}
        return sum(1 for row in self.plan.rows if row.model in complete)

    def _give_up_if_hopeless(self, model: str, arm: Arm) -> None:
        mine = [start for key, start in self.starts.items() if key.model == model and key.arm is arm]
        last = mine[-FAILED_STARTS_IN_A_ROW:]
        if len(last) == FAILED_STARTS_IN_A_ROW and all(s.failure is not None and s.ready_s is None for s in last):
            text = f"{model}: the {arm} failed to start {FAILED_STARTS_IN_A_ROW} times in a row; it is given up"
            self.tally.given_up[model] = text
            self.note(text)

    def out_of_time(self) -> bool:
        """Return whether the deadline bears no further start, and note it once."""
        if self.pace.is_over and not self.tally.deadline_hit:
            self.tally.deadline_hit = True
            limit = self._site.params.protocol.total_deadline_s
            text = f"the deadline of {limit:g} s does not bear another start"
            self.note(text)
        return self.tally.deadline_hit

    # what the batch does with starts of its own -------------------------------------------------------------------

    @property
    def starts_done(self) -> int:
        """Return how many starts of pairs and batch the journal holds."""
        return len(self.starts) + self.tally.batch_starts

    def count(self, start: BatchStart) -> None:
        """Take a start of the batch into pace and tally."""
        self.pace.add(start.wall_s)
        self.tally.batch_starts += 1

    def resumed_mark(self) -> dict[str, Any]:
        """Return the telemetry of the next start: whether it is the first one after a resume."""
        return {"resumed": True} if self.position == self.tally.resumed_at else {}

    def tell(self, event: str, facts: dict[str, Any], planned: int) -> None:
        """Report the begin or end of a start to the live display."""
        counts = {"starts_done": self.starts_done, "starts_planned": planned}
        eta_s = self.pace.left_s(planned - self.starts_done)
        self._site.progress({"event": event, **facts, **counts, "eta_s": eta_s})

    def note(self, text: str) -> None:
        """Report a line for a person."""
        self._site.progress({"event": "note", "text": text})
