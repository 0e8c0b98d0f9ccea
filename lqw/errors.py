"""Every error lqw raises on purpose, and the exit status each one ends in.

::

    LqwError                      (exit status, message, remedy)
    ├── ParamsError          2    a parameter is missing, unknown, ill-typed or impossible; nothing was started
    ├── UsageError           2    the command line, or the place it was called from, is wrong
    ├── OutputError         74    what was to be said could not be written; never a verdict
    ├── HostBusy            75    the GPU is locked or used by somebody else: never a verdict, try again
    ├── IntegrityError       4    a receipt, record, journal or artefact does not verify
    ├── ChainBroken         70    a notebook or its kernel died, or an artefact is missing: INCOMPLETE
    └── GateError                 raised by the last cell of 40_verdict, so that papermill itself fails
        ├── RatchetRed       1
        ├── Undecided        3
        └── NothingMeasured  3

Failures of a measurement are not errors: they are values (:class:`lqw.outcomes.Reason`) on a named row.
"""

from __future__ import annotations

import reprlib
from enum import IntEnum

__all__ = [
    "ChainBroken",
    "Exit",
    "GateError",
    "HostBusy",
    "IntegrityError",
    "LqwError",
    "NothingMeasured",
    "OutputError",
    "ParamsError",
    "RatchetRed",
    "Undecided",
    "UsageError",
]


class Exit(IntEnum):
    """The exit status of every lqw command."""

    PASS = 0
    RED = 1
    USAGE = 2
    UNDECIDED = 3
    INVALID = 4
    INTERNAL = 70
    OUTPUT = 74
    BUSY = 75
    INTERRUPTED = 130


class LqwError(Exception):
    """Base of the tree; carries what to do about it.

    Parameters
    ----------
    message : str
        What is wrong, naming file, field and value.
    remedy : str
        What the reader can do now. Printed on its own line.
    """

    exit_status: Exit = Exit.INTERNAL

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the message, and the remedy on a line of its own."""
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class ParamsError(LqwError):
    """A parameter is missing, unknown, ill-typed or impossible. Nothing was started, nothing written."""

    exit_status = Exit.USAGE

    def __init__(self, *, file: str, field: str, value: object, problem: str, remedy: str) -> None:
        nested = isinstance(value, dict | list)  # YAML's aliases can make an endless text of a small file
        shown = reprlib.repr(value) if nested else repr(value)
        if len(shown) > 120:  # noqa: PLR2004 - one terminal line and a half
            shown = shown[:117] + "..."
        super().__init__(f"{file}: {field} = {shown}: {problem}", remedy=remedy)
        self.file, self.field, self.value, self.problem = file, field, value, problem


class UsageError(LqwError):
    """The command line, or the place it was called from, is wrong."""

    exit_status = Exit.USAGE


class OutputError(LqwError):
    """What was to be said could not be written: nobody has seen the verdict, so there is none."""

    exit_status = Exit.OUTPUT


class HostBusy(LqwError):
    """Lock held by somebody else, or a foreign process on the GPU."""

    exit_status = Exit.BUSY


class IntegrityError(LqwError):
    """A receipt, record, journal or artefact does not verify."""

    exit_status = Exit.INVALID


class ChainBroken(LqwError):
    """A notebook did not run to its end, or left no valid artefact: INCOMPLETE, NOT A VERDICT."""

    exit_status = Exit.INTERNAL


class GateError(LqwError):
    """A verdict that must fail the process that shows it."""

    exit_status = Exit.UNDECIDED


class RatchetRed(GateError):
    """At least one row, or a family of rows, fell below what was released."""

    exit_status = Exit.RED


class Undecided(GateError):
    """Rows are missing, failed, void, inconclusive or suspect; each is named in the message."""


class NothingMeasured(Undecided):
    """Zero rows were measured. Zero rows never pass."""
