"""The live display of a run: rich bars on a terminal, a plain line per start or a JSON object per event elsewhere."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, Self

from lqw.errors import LqwError
from lqw.pipeline.progress import ProgressState, Tail, name_of

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console, RenderableType

__all__ = ["Display", "GpuLine", "clock", "view"]

_EVERY_S = 0.5
_TITLES = {
    "10_collect": "measuring",
    "20_correctness": "comparing tokens",
    "30_noise_band": "noise band",
    "40_verdict": "verdict",
}


def clock(seconds: float) -> str:
    """Return ``2:05`` for 125 seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


class GpuLine:
    """Temperature and clock of the first visible GPU, in words; empty for ever where NVML or a GPU is missing."""

    def __init__(self) -> None:
        self._gpu: Any = None
        try:
            from lqw.host.gpu import open_gpu  # noqa: PLC0415 - NVML, only where something is shown

            self._gpu = open_gpu()
        except (LqwError, ImportError):
            return

    def __call__(self) -> str:
        """Return ``GPU 61 °C, 1,740 MHz``; the engine's telemetry, not this line, is what a receipt carries."""
        if self._gpu is None:
            return ""
        device = self._gpu.devices[0]
        heat = self._gpu.ask("nvmlDeviceGetTemperature", device, 0)
        clock_mhz = self._gpu.ask("nvmlDeviceGetClockInfo", device, 1)
        told = [f"{heat} °C"] if heat is not None else []
        told += [f"{clock_mhz:,} MHz"] if clock_mhz is not None else []
        return f"GPU {', '.join(told)}" if told else ""


def view(state: ProgressState, title: str, elapsed_s: float, gpu: str = "") -> RenderableType:
    """Return what a terminal shows for *state*: title and stage, what is measured, bars of starts and rows, the GPU."""
    from rich.console import Group  # noqa: PLC0415 - 60 ms, only where something is shown
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    head = Text.assemble((title, "bold"), "  ", (_TITLES.get(state.stage, "starting"), "cyan"))
    if gpu:
        head.append(f"  {gpu}", "dim")
    what = name_of(state.now_what)
    if "look" in state.now_what:
        what += f" · look {int(state.now_what['look']) + 1}"
    if state.step:
        what += f" · {state.step}"
    bars = Table.grid(padding=(0, 1))
    if state.starts_planned:
        left = state.seconds_left()
        ends = f"{clock(left)} left" if left is not None else "…"
        bars.add_row(
            "starts",
            ProgressBar(total=state.starts_planned, completed=state.starts_done, width=30, complete_style="blue"),
            f"{state.starts_done}/{state.starts_planned}",
            f"{clock(elapsed_s)} gone, {ends}",
        )
    if state.rows_planned:
        bars.add_row(
            "rows",
            ProgressBar(total=state.rows_planned, completed=state.rows_done, width=30, complete_style="blue"),
            f"{state.rows_done}/{state.rows_planned}",
            "",
        )
    trouble = [Text(f"! {line}", "red") for line in state.failures[-3:]]
    return Group(head, Text(what or " ", "dim"), bars, *trouble)


class Display:
    """Follows ``progress.jsonl`` from a thread while the main thread runs the chain.

    Parameters
    ----------
    path : Path
        The run's ``progress.jsonl``; it need not exist yet.
    title : str
        What is run: ``gate 1.1.0 on demo``.
    console : rich Console
        Where to; a terminal gets the live view, anything else one line per start.
    form : {"live", "json"}
        ``json`` writes every event as one JSON object a line, whatever the console is.
    """

    def __init__(self, path: Path, title: str, console: Console, form: Literal["live", "json"] = "live") -> None:
        self._form = form
        self.state = ProgressState()
        self._tail = Tail(path)
        self._title, self._console = title, console
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lqw-display", daemon=True)
        self._printed = 0

    def __enter__(self) -> Self:
        """Start to follow."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show what is left and stop."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _follow(self) -> None:
        if self._form == "json":
            self._json()
        elif self._console.is_terminal:
            self._live()
        else:
            self._lines()

    def _take(self) -> None:
        for event in self._tail():
            self.state.feed(event)

    def _lines(self) -> None:
        while True:
            last = self._stop.wait(_EVERY_S)
            self._take()
            for line in self.state.log[self._printed :]:
                self._console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
            self._printed = len(self.state.log)
            if last:
                return

    def _json(self) -> None:
        while True:
            last = self._stop.wait(_EVERY_S)
            for event in self._tail():
                self._console.file.write(json.dumps(event, ensure_ascii=False) + "\n")
            self._console.file.flush()
            if last:
                return

    def _live(self) -> None:
        from rich.live import Live  # noqa: PLC0415

        gpu = GpuLine()
        begun = time.monotonic()
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while not self._stop.wait(_EVERY_S):
                self._take()
                live.update(view(self.state, self._title, time.monotonic() - begun, gpu()), refresh=True)
