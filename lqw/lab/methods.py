"""The methods an analyst may choose: the registry's, and those tried in this session."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import numpy as np

from lqw.errors import UsageError
from lqw.lab.compare import judge_history
from lqw.lab.synthetic import POLICY, synthetic_history
from lqw.noise.methods import METHODS
from lqw.noise.rows import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.noise.batch import Bands
    from lqw.noise.methods import Method

__all__ = ["Methods", "calls_on_known", "check_name", "method_problems"]

KNOWN = (1, 11, 24, 35)  # releases of the bundled history: equal, a tenth slower, far slower, better
_LETTER = {Call.RED: "R", Call.PASS: "P", Call.OPEN: "o"}


def check_name(name: str) -> str:
    """Return *name* if a registry could hold it; UsageError otherwise."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 40:  # noqa: PLR2004 - a table's column
        raise UsageError(f"method name {name[:60]!r}", remedy="lower-case words with dashes, such as two-sigma")
    return name


class Methods:
    """Named methods of one session. The registry's own stand as they are and cannot be replaced."""

    def __init__(self) -> None:
        self._tried: dict[str, Method] = {}

    def __getitem__(self, name: str) -> Method:
        """Return a method by name; UsageError lists those there are."""
        method = METHODS.get(name) or self._tried.get(name)
        if method is None:
            raise UsageError(f"unknown method {name!r}", remedy=f"one of: {', '.join(self.names)}")
        return method

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name, the registry's first."""
        return (*METHODS, *self._tried)

    def add(self, name: str, function: Callable[..., Bands]) -> None:
        """Try a method in this session; UsageError says what it gets wrong.

        A name tried before is replaced: a method is written by trying. One of the registry is not.
        """
        check_name(name)
        if name in METHODS:
            raise UsageError(f"{name!r} is in the registry", remedy="give the new method another name")
        wanted = ["batch", "policy", "look", "m"]
        if list(inspect.signature(function).parameters) != wanted:
            raise UsageError(f"{name}: takes {inspect.signature(function)}", remedy=f"take ({', '.join(wanted)})")
        problems = method_problems(function)
        if problems:
            raise UsageError(f"{name}: {'; '.join(problems)}", remedy="mend the method; see lqw/noise/methods/")
        self._tried[name] = function


def calls_on_known(method: Method) -> tuple[str, ...]:
    """Return what *method* says of four known releases, one letter a row: R RED, P PASS, o open."""
    history = synthetic_history(max(KNOWN))
    judged = judge_history(history, method, POLICY)
    return tuple(
        "".join(_LETTER[row.call] for row in one.rows.values()) for number in KNOWN if (one := judged[number - 1])
    )


def method_problems(method: Method) -> list[str]:
    """Return what is wrong with a method, whatever its idea: each is a way in which a gate has failed in public.

    It must give arrays of one shape, call no row RED and passed at once, pass no row without a floor, and see a loss
    of nine tenths.
    """
    group = synthetic_history(1).groups[0]
    batch = group.batch
    out = []
    try:
        shape = batch.d.shape[:-1]
        plain = method(batch, POLICY, look=0, m=group.planned)
        wrong = [n for n in ("estimate", "threshold", "passed", "red_floor") if np.shape(getattr(plain, n)) != shape]
        out += [f"{name} has not the shape (releases, rows)" for name in wrong]
        batch.floor[:] += np.log(10.0)
        slow = method(batch, POLICY, look=len(POLICY.looks) - 1, m=group.planned)
        if any(bool(np.any(one.red & one.passed)) for one in (plain, slow)):
            out.append("a row is RED and passed at once")
        if not bool(np.all(slow.red)):
            out.append("a row at a tenth of its floor is not RED")
        batch.floor[:], batch.n_floor[:] = np.nan, np.nan
        if bool(np.any(method(batch, POLICY, look=0, m=group.planned).passed)):
            out.append("a row without a floor passes")
    except Exception as err:  # noqa: BLE001 - an analyst's code may fail in any way; he is told how
        out.append(f"{type(err).__name__}: {err}")
    return out
