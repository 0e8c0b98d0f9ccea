"""Identity, then pairs, until the judge has enough: what is measured next follows from the journal and the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.collect.arms import Site, timed_start
from lqw.collect.header import refuse_other_binary
from lqw.collect.identity import identity_start
from lqw.collect.pace import Pace
from lqw.collect.summary import Tally
from lqw.journal import read_journal
from lqw.outcomes import Arm, Purpose
from lqw.plan import StartKey
from lqw.verdict import Evidence, Standing, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lqw.journal import JournalWriter
    from lqw.plan import Plan
    from lqw.samples import EngineFacts, Header, HostFacts, IdentityRecord, StartRecord

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
        self._site, self._plan, self._writer, self._header = site, plan, writer, header
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
        self._know_engine(start.arm, start.engine)
        self.pace.add(start.wall_s)

    def _know_engine(self, arm: Arm, engine: EngineFacts | None) -> None:
        if engine is None:
            return
        known = self._binaries.get(arm)
        if known is not None:
            refuse_other_binary(self._writer.path, arm, known, engine)
            return
        self._binaries[arm] = engine
        if arm is Arm.COMPARATOR:
            self._standing = self._standing_of(self._header.host, engine, self._header.models)

    def _write(self, record: StartRecord | IdentityRecord) -> None:
        self._writer.append(record)
        self.position += 1

    # identity -----------------------------------------------------------------------------------------------------

    def ask_identity(self) -> None:
        """Ask the subject for its answers, model by model, where the journal does not have them."""
        for model in self._plan.orders:
            if model in self.identities:
                continue
            self._site.progress({"event": "identity", "model": model})
            margins = self._plan.purpose is Purpose.ADOPT
            record = identity_start(self._site, model, self.position, margins=margins)
            self._know_engine(Arm.SUBJECT, record.engine)
            self._write(record)
            self.identities[model] = record

    # pairs --------------------------------------------------------------------------------------------------------

    @property
    def _starts_a_pair(self) -> int:
        return 2 * len(self._site.params.protocol.launches)

    def _done(self, model: str) -> int:
        return sum(1 for key in self.starts if key.model == model)

    def _planned(self, needing: Iterable[str], look: int) -> int:
        """Return how many starts there will be when *needing* have been measured up to *look*."""
        wanted = dict.fromkeys(needing, self._plan.pairs_at(look) * self._starts_a_pair)
        return sum(max(wanted.get(model, 0), self._done(model)) for model in self._plan.orders)

    def measure(self) -> None:
        """Measure up to each look in turn, and go on with the models the judge is not sure of."""
        needing = tuple(self._plan.orders)
        counts = {"starts_planned": self._planned(needing, 0), "rows_planned": len(self._plan.rows)}
        self._site.progress({"event": "plan", **counts, "starts_done": len(self.starts)})
        for look in range(self._plan.n_looks):
            for model in needing:
                self._measure_model(model, look, self._planned(needing, look))
            self.tally.looks = look + 1
            last = look + 1 == self._plan.n_looks or self.tally.deadline_hit
            needing = () if last else self._needing()
            planned = self._planned(needing, look + 1) if needing else len(self.starts)
            event = {"event": "look", "look": look + 1, "needing": list(needing), "starts_planned": planned}
            self._site.progress(event)
            if not needing:
                return

    def _needing(self) -> tuple[str, ...]:
        params = self._site.params
        evidence = Evidence(
            plan=self._plan,
            starts=tuple(self.starts.values()),
            min_window_s=params.protocol.min_window_s,
            standing=self._standing,
            targets=params.targets.targets,
        )
        return tuple(m for m in judge(evidence).models_needing_pairs if m not in self.tally.given_up)

    def _measure_model(self, model: str, look: int, planned: int) -> None:
        for pair in range(1, self._plan.pairs_at(look) + 1):
            for key in self._plan.starts(model, pair, self._site.params.protocol.launches):
                if key in self.starts:
                    continue
                if model in self.tally.given_up or self._out_of_time():
                    return
                self._measure_start(key, look, planned)

    def _measure_start(self, key: StartKey, look: int, planned: int) -> None:
        facts = {"model": key.model, "pair": key.pair, "arm": str(key.arm), "launch": key.launch}
        begin = {**facts, "look": look + 1, "engine": self._site.spec(key.arm).engine}
        self._site.progress({"event": "start", **begin, "eta_s": self.pace.left_s(planned - len(self.starts))})
        telemetry: dict[str, Any] = {"resumed": True} if self.position == self.tally.resumed_at else {}
        record = timed_start(self._site, key, self.position, telemetry)
        self._take(record)
        self._write(record)
        self._give_up_if_hopeless(key.model, key.arm)
        failure = str(record.failure.reason) if record.failure is not None else None
        end = {
            **facts,
            "wall_s": round(record.wall_s, 3),
            "failure": failure,
            "starts_done": len(self.starts),
            "starts_planned": planned,
            "rows_done": self._rows_done(look),
            "eta_s": self.pace.left_s(planned - len(self.starts)),
        }
        self._site.progress({"event": "end", **end})

    def _rows_done(self, look: int) -> int:
        """Return how many rows have all the pairs of this look."""
        wanted = self._plan.pairs_at(look) * self._starts_a_pair
        complete = {model for model in self._plan.orders if self._done(model) >= wanted}
        return sum(1 for row in self._plan.rows if row.model in complete)

    def _give_up_if_hopeless(self, model: str, arm: Arm) -> None:
        mine = [start for key, start in self.starts.items() if key.model == model and key.arm is arm]
        last = mine[-FAILED_STARTS_IN_A_ROW:]
        if len(last) == FAILED_STARTS_IN_A_ROW and all(s.failure is not None and s.ready_s is None for s in last):
            text = f"{model}: the {arm} failed to start {FAILED_STARTS_IN_A_ROW} times in a row; it is given up"
            self.tally.given_up[model] = text
            self._site.progress({"event": "note", "text": text})

    def _out_of_time(self) -> bool:
        if self.pace.is_over and not self.tally.deadline_hit:
            self.tally.deadline_hit = True
            limit = self._site.params.protocol.total_deadline_s
            text = f"the deadline of {limit:g} s does not bear another start"
            self._site.progress({"event": "note", "text": text})
        return self.tally.deadline_hit
