"""The widgets: they read settings, ask the pure functions of this package, and show what those say."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import ipywidgets as w
from markupsafe import Markup

from lqw.errors import LqwError
from lqw.lab import plots, views
from lqw.lab.behind import Simulations
from lqw.lab.compare import Judged, flips, judge_history, parse_looks, with_settings
from lqw.lab.curves import measured_noise, pairs_to_pass
from lqw.lab.guard import RECEIPTS_VARIABLE, refuse_in_a_run
from lqw.lab.methods import Methods
from lqw.lab.receipts import load_receipts
from lqw.lab.synthetic import PLANTED, synthetic_history

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lqw.lab.curves import Curves
    from lqw.lab.history import History
    from lqw.metrics import RowId
    from lqw.noise.batch import Bands
    from lqw.noise.rows import Call
    from lqw.plan import Policy

__all__ = ["Lab", "open_lab"]

RECORDED = "recorded"
SIMULATED = (100, 400, 2000)
AT_ONCE_S = 0.5  # a whole change but for its drawing: what the judging leaves is shared by both methods' simulations
VIEWS = RELEASES, ROWS, FLIPS, CURVES, NEEDS = ("Releases", "Rows", "Flips", "Curves", "Pairs and minutes")
REFERENCE_METHOD = "gate-v1"
SYNTHETIC = "SYNTHETIC: no engine ran for these numbers; they come from a seed, with losses planted in " + ", ".join(
    f"1.{number}" for number, rows in PLANTED.items() if min(rows.values()) < 0
)
NEVER_GATES = (
    "The lab never gates: it writes no receipt, moves no floor, and the gate's own method is fixed in its code."
)


def open_lab(places: Sequence[Path | str] | None = None) -> Lab:
    """Return the lab on receipts, or on the bundled synthetic history where none are named.

    Parameters
    ----------
    places : sequence of paths, optional
        Receipts or folders of them; by default what ``lqw lab`` was given.

    Raises
    ------
    UsageError
        In a gating run, or where no receipt can be looked at.
    """
    refuse_in_a_run()
    named = os.environ.get(RECEIPTS_VARIABLE, "") if places is None else ""
    wanted = [one for one in named.split(os.pathsep) if one] if places is None else list(places)
    if not wanted:
        return Lab(synthetic_history())
    history, left_out = load_receipts(wanted)
    return Lab(history, left_out)


class Lab:
    """The lab: display :attr:`panel` (the last line of a cell shows it).

    Parameters
    ----------
    history : History
    left_out : sequence of str
        Receipts that are not looked at, and why; they are shown.
    """

    def __init__(self, history: History, left_out: Sequence[str] = ()) -> None:
        self.history = history
        self.methods = Methods()
        self._noise = measured_noise(history)
        self._judged: dict[tuple[str, Policy], tuple[Judged | None, ...]] = {}
        self._simulations = Simulations(self._noise, self.methods, self._say)
        policy = history.releases[-1].policy
        self.first = _dropdown("method A", self.methods.names, REFERENCE_METHOD)
        other = next((name for name in self.methods.names if name != REFERENCE_METHOD), REFERENCE_METHOD)
        self.second = _dropdown("method B", self.methods.names, other)
        self.alpha = _slider("α, false RED, %", 100 * policy.alpha, (0.1, 10.0, 0.1), "false RED a release")
        self.margin = _slider("margin, %", 100 * policy.margin, (1.0, 60.0, 1.0), "a loss that must be excluded")
        self.tau = _slider("session term τ, %", 100 * policy.tau, (0.0, 5.0, 0.1), "what a session moves a ratio by")
        self.looks = w.Text(
            description="looks, pairs", value=", ".join(map(str, policy.looks)), continuous_update=False, **_SHAPE
        )
        names = [release.name for release in history.releases]
        self.release = _dropdown("release of Rows", [(name, at) for at, name in enumerate(names)], len(names) - 1)
        self.sims = _dropdown("simulated releases", SIMULATED, SIMULATED[1])
        self.message, self.summary = w.HTML(), w.HTML()
        self.views = {title: w.HTML() for title in VIEWS}
        self.tabs = w.Tab(children=list(self.views.values()), titles=VIEWS, selected_index=0)
        self.panel = self._layout(left_out)
        self._quiet = False
        numbers = (self.alpha, self.margin, self.tau, self.looks)
        for control in (self.first, self.second, self.release, self.sims, *numbers):
            control.observe(self._changed, names="value")
        self.tabs.observe(self._changed, names="selected_index")
        self.update()

    def _layout(self, left_out: Sequence[str]) -> Any:
        notes = [Markup('<p class="lqw-lab">{}</p>').format(NEVER_GATES)]
        if self.history.synthetic:
            notes.insert(0, Markup('<p class="lqw-lab warn">{}</p>').format(SYNTHETIC))
        notes += [Markup('<p class="lqw-lab warn">left out: {}</p>').format(line) for line in left_out]
        controls = [self.first, self.second, self.alpha, self.margin, self.tau, self.looks, self.release, self.sims]
        grid = w.GridBox(controls, layout=w.Layout(grid_template_columns="repeat(auto-fit, minmax(20rem, 1fr))"))
        top = w.HTML(str(views.STYLE + Markup("").join(notes)))
        return w.VBox([top, grid, self.message, self.summary, self.tabs])

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415 - only where there is a notebook

        display(self.panel)  # type: ignore[no-untyped-call]

    def _changed(self, _change: Any) -> None:
        with self._simulations.lock:  # two controls may be heard of in two threads
            if not self._quiet:
                self.update()

    @property
    def policy(self) -> Policy:
        """Return the policy the controls say; UsageError names what is impossible."""
        return with_settings(
            self.history.releases[-1].policy,
            alpha=self.alpha.value / 100,
            margin=self.margin.value / 100,
            looks=parse_looks(self.looks.value),
            tau=self.tau.value / 100,
        )

    def judged(self, name: str, policy: Policy) -> tuple[Judged | None, ...]:
        """Return what a method says of the whole history; remembered per policy."""
        key = (name, policy)
        if key not in self._judged:
            self._judged[key] = judge_history(self.history, self.methods[name], policy)
        return self._judged[key]

    def update(self) -> None:
        """Ask again and show the open tab; a setting that makes no sense is named, and the view keeps what it had.

        Where the open tab simulates, it shows at once what half a second knows, with its number. In a notebook the
        kernel's event loop goes on to the number that was asked for, until the next change; elsewhere :meth:`finish`.
        """
        try:
            policy = self.policy
        except LqwError as err:
            self._say(str(err))
            return
        self._say("")
        self._simulations.stop()
        until = time.perf_counter() + AT_ONCE_S
        title = VIEWS[self.tabs.selected_index or 0]
        self._summarize(policy)
        if title in (CURVES, NEEDS):
            self._simulate(title, policy, until)
        else:
            self.views[title].value = str(self.view(title, policy))

    def finish(self) -> None:
        """Simulate what the open tab still lacks, and show it; returns when it is done."""
        title = VIEWS[self.tabs.selected_index or 0]
        if title in (CURVES, NEEDS):
            with self._simulations.lock:
                self._simulations.stop()
                self._simulate(title, self.policy, math.inf)

    def _simulate(self, title: str, policy: Policy, until: float) -> None:
        """Show a tab of shares, of what is known *until* then, and let it go on behind."""
        names, asked = self.names, self.sims.value

        def show(curves: Mapping[str, Curves]) -> None:
            drawn = (
                plots.curves_view(curves, asked=asked, alpha=policy.alpha, margin=policy.margin)
                if title == CURVES
                else views.needs_view(self._noise, pairs_to_pass(self._noise, policy), curves, asked=asked)
            )
            self.views[title].value = str(drawn)

        show(self._simulations.at_once(names, policy, most=asked, until=until))
        self._simulations.go_on(names, policy, most=asked, show=show)

    def _say(self, wrong: str) -> None:
        self.message.value = wrong and str(Markup('<p class="lqw-lab warn" role="alert">{}</p>').format(wrong))

    @property
    def names(self) -> tuple[str, str]:
        """Return the methods A and B."""
        return self.first.value, self.second.value

    def _summarize(self, policy: Policy) -> None:
        """Say what both methods make of the whole history, whatever tab is open, and offer the releases by it."""
        both = {name: self.judged(name, policy) for name in self.names}
        a, b = both[self.first.value], both[self.second.value]
        recorded = [release.recorded for release in self.history.releases]
        flipped = {name: len(flips(self.history, recorded, said)) for name, said in both.items()}
        parted = len(flips(self.history, _calls(a), b))
        known = flipped if any(recorded) else {}
        self.summary.value = str(views.summary_view(self.history, both, parted, known))
        offered = [views.label(*three) for three in zip(self.history.releases, a, b, strict=True)]
        if [name for name, _ in self.release.options] != offered:
            self._quiet, at = True, self.release.value
            self.release.options = [(name, number) for number, name in enumerate(offered)]
            self.release.value, self._quiet = at, False

    def view(self, title: str, policy: Policy) -> Markup:
        """Return what a tab of verdicts shows under *policy*."""
        names = self.names
        a, b = (self.judged(name, policy) for name in names)
        if title == RELEASES:
            return views.releases_view(self.history, a, b, names)
        if title == ROWS:
            at = self.release.value
            return views.rows_view(self.history.releases[at], a[at], b[at], names)
        found = views.flips_view(flips(self.history, _calls(a), b), *names)
        recorded = [release.recorded for release in self.history.releases]
        for name, judged in zip(names, (a, b), strict=True):
            if any(recorded):
                found += views.flips_view(flips(self.history, recorded, judged), RECORDED, name)
        return found

    def try_method(self, name: str, function: Callable[..., Bands]) -> None:
        """Add a method to this session as method B; UsageError says what it gets wrong."""
        self.methods.add(name, function)
        self._judged = {key: said for key, said in self._judged.items() if key[0] != name}
        self._simulations.forget(name)
        self._quiet = True
        kept = self.first.value
        self.first.options = self.second.options = self.methods.names
        self.first.value, self.second.value = kept, name
        self._quiet = False
        self.update()


def _calls(judged: Sequence[Judged | None]) -> list[dict[RowId, Call] | None]:
    return [None if one is None else {row: said.call for row, said in one.rows.items()} for one in judged]


_SHAPE: dict[str, Any] = {"layout": {"width": "auto"}, "style": {"description_width": "9rem"}}


def _dropdown(title: str, options: Any, value: Any) -> Any:
    return w.Dropdown(description=title, options=options, value=value, **_SHAPE)


def _slider(title: str, value: float, scale: tuple[float, float, float], tip: str) -> Any:
    low, high, step = scale
    return w.FloatSlider(
        description=title, value=value, min=low, max=high, step=step, tooltip=tip, continuous_update=False,
        readout_format=".1f", **_SHAPE,
    )  # fmt: skip
