"""Simulations that answer at once and go on behind: in a notebook, between two messages of the kernel.

JupyterLab may send each widget's messages over a subshell, a thread with an event loop of its own. A change may thus
come from another thread than the task it ends: tasks end when a turn is no longer theirs, not by ``cancel``, and all
that touches a simulation holds :attr:`Simulations.lock`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from lqw.lab.curves import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lqw.lab.curves import Curves, Noise
    from lqw.lab.methods import Methods
    from lqw.plan import Policy

__all__ = ["Simulations"]

SLICE_S = 0.25  # a changed control waits for no longer
BREATH_S = 0.02  # between two slices, for the kernel to hear of a change
SHOWN_S = 0.5  # between two drawings


class Simulations:
    """Every simulation asked for in a session, as far as it has come; of one pair of methods it may be going on.

    Parameters
    ----------
    noise : Noise
    methods : Methods
        A name is looked up when its simulation begins.
    warn : callable
        Is told, in words, what a method of the notebook's own raised in the middle of its simulation.
    """

    def __init__(self, noise: Noise, methods: Methods, warn: Callable[[str], None]) -> None:
        self._noise, self._methods, self._warn = noise, methods, warn
        self._known: dict[tuple[str, Policy], Simulation] = {}
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop alone would not keep them
        self.lock = threading.RLock()

    def of(self, names: tuple[str, ...], policy: Policy) -> dict[str, Simulation]:
        """Return the simulations of these methods, begun or not."""
        for name in names:
            if (name, policy) not in self._known:
                self._known[name, policy] = Simulation(self._noise, self._methods[name], policy)
        return {name: self._known[name, policy] for name in names}

    def forget(self, name: str) -> None:
        """Drop what is known of a method: its name will mean another."""
        self.stop()
        self._known = {key: one for key, one in self._known.items() if key[0] != name}

    def at_once(self, names: tuple[str, ...], policy: Policy, *, most: int, until: float) -> Mapping[str, Curves]:
        """Return what can be known *until* then, by :func:`time.perf_counter`; *most* releases at most."""
        both = self.of(names, policy)
        for left, one in zip(range(len(both), 0, -1), both.values(), strict=True):
            one.go_on(most=most, seconds=(until - time.perf_counter()) / left)
        return _curves(both)

    def stop(self) -> None:
        """Stop what goes on behind; what it knows is kept."""
        with self.lock:
            self._turn += 1

    def go_on(
        self, names: tuple[str, ...], policy: Policy, *, most: int, show: Callable[[Mapping[str, Curves]], None]
    ) -> None:
        """Go on to *most* releases behind, and *show* what is known now and then; without a running loop do nothing."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self.stop()
        task = loop.create_task(self._complete(self._turn, self.of(names, policy), most, show))
        self._tasks.add(task)
        task.add_done_callback(self._completed)

    async def _complete(
        self, turn: int, both: Mapping[str, Simulation], most: int, show: Callable[[Mapping[str, Curves]], None]
    ) -> None:
        """Simulate until each has its number, the one behind first, or until it is another's turn."""
        shown, whole = time.perf_counter(), False
        while not whole:
            await asyncio.sleep(BREATH_S)
            with self.lock:
                if turn != self._turn:
                    return
                min(both.values(), key=lambda one: one.releases).go_on(most=most, seconds=SLICE_S)
                whole = all(one.releases >= most for one in both.values())
                if whole or time.perf_counter() > shown + SHOWN_S:
                    show(_curves(both))
                    shown = time.perf_counter()

    def _completed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (err := task.exception()) is not None:
            self._warn(f"the simulation stopped: {type(err).__name__}: {err}")


def _curves(both: Mapping[str, Simulation]) -> dict[str, Curves]:
    return {name: one.curves for name, one in both.items()}
