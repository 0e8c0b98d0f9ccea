"""Every mutant that lives, with its reason: ``python -m tests.mutation.survivors > docs/methodology/survivors.md``.

The list is survivors.toml: scores of the last whole run, and reasons, each with the changes it is given for. A run of
``python -m tests.mutation`` compares what it finds with it.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Listed", "Lives", "page", "read_list"]

LIST = Path(__file__).with_name("survivors.toml")
ARROW = " → "


@dataclass(frozen=True, order=True)
class Lives:
    """One change that no test notices: ``verdict.judge._replay``, ``row.first(wanted) → row.first(None)``."""

    function: str
    change: str

    @classmethod
    def parse(cls, line: str) -> Lives:
        """Read ``function: change``."""
        function, colon, change = line.strip().partition(": ")
        if not colon or ARROW not in change:
            raise ValueError(f"survivors.toml: {line!r} is not 'function: old{ARROW}new'")
        return cls(function, change)

    def __str__(self) -> str:
        """Return the line of the list."""
        return f"{self.function}: {self.change}"

    @property
    def module(self) -> str:
        """Return the module, from the package: ``verdict.judge``."""
        return ".".join(self.function.split(".")[:2])


@dataclass(frozen=True)
class Listed:
    """The whole list: scores (killed, judged) by module, and the survivors of each reason."""

    seen: str
    scores: dict[str, tuple[int, int]]
    reasons: dict[str, Counter[Lives]]

    @property
    def lives(self) -> Counter[Lives]:
        """Return every listed survivor, as often as it stands."""
        out: Counter[Lives] = Counter()
        for lives in self.reasons.values():
            out += lives
        return out


def read_list(path: Path = LIST) -> Listed:
    """Read the list."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons = {
        one["why"]: Counter(Lives.parse(line) for line in one["lives"].splitlines() if line.strip())
        for one in raw["reason"]
    }
    return Listed(raw["seen"], {name: (killed, judged) for name, (killed, judged) in raw["score"].items()}, reasons)


def page(listed: Listed) -> str:
    """Return docs/methodology/survivors.md."""
    killed, judged = (sum(score[i] for score in listed.scores.values()) for i in (0, 1))
    lines = [
        "# Mutants that live",
        "",
        f"Made by `python -m tests.mutation.survivors` from `tests/mutation/survivors.toml`. {listed.seen}",
        f"**{killed:,} of {judged:,} killed, {killed / judged:.1%}**; the {judged - killed} that live are all below.",
        "`python -m tests.mutation` names every survivor that is not, and ends in 1.",
        "",
        "| module | killed of | share |",
        "|---|---|---|",
        *(f"| `{name}` | {a:,} of {b:,} | {a / b:.1%} |" for name, (a, b) in listed.scores.items()),
    ]
    for why, lives in listed.reasons.items():
        lines += ["", f"## {lives.total()} × {why.partition(': ')[0]}", "", why.partition(": ")[2], ""]
        by_function = defaultdict(list)
        for one, count in sorted(lives.items()):
            was, _, now = one.change.rpartition(ARROW)
            times = f" ({count}×)" if count > 1 else ""
            by_function[one.function].append(f"`{was}` → `{now}`{times}")
        lines += [f"- `{function}`: {'; '.join(changes)}" for function, changes in by_function.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(page(read_list()), end="")  # noqa: T201 - a script
