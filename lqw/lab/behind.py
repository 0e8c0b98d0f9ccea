"""Simulations that answer at once and go on behind: in a notebook, between two messages of the kernel."""

from __future__ import annotations

import asyncio
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
        self._task: asyncio.Task[None] | None = None

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
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def go_on(
        self, names: tuple[str, ...], policy: Policy, *, most: int, show: Callable[[Mapping[str, Curves]], None]
    ) -> None:
        """Go on to *most* releases behind, and *show* what is known now and then; without a running loop do nothing."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._task = loop.create_task(self._complete(self.of(names, policy), most, show))
        self._task.add_done_callback(self._completed)

    async def _complete(
        self, both: Mapping[str, Simulation], most: int, show: Callable[[Mapping[str, Curves]], None]
    ) -> None:
        """Simulate until each has its number, the one behind first."""
        shown = time.perf_counter()
        while lacking := [one for one in both.values() if one.releases < most]:
            await asyncio.sleep(BREATH_S)
            min(lacking, key=lambda one: one.releases).go_on(most=most, seconds=SLICE_S)
            if time.perf_counter() > shown + SHOWN_S or all(one.releases >= most for one in both.values()):
                show(_curves(both))
                shown = time.perf_counter()

    def _completed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (err := task.exception()) is not None:
            self._warn(f"the simulation stopped: {type(err).__name__}: {err}")


def _curves(both: Mapping[str, Simulation]) -> dict[str, Curves]:
    return {name: one.curves for name, one in both.items()}
