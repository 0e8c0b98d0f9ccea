"""``lqw power``: what a decision is worth, simulated with the gate's own code."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lqw.plan import Policy
    from lqw.power.characteristics import Characteristics
    from lqw.power.world import World

__all__ = ["power"]

MOST_RELEASES, MOST_ROWS, MOST_PAIRS = 200_000, 2_000, 100


def power(  # noqa: PLR0917 - options have names
    method: Annotated[str, typer.Option(help="A name of the registry, or all of them: all.")] = "gate-v1",
    sigma: Annotated[str, typer.Option(help="SD of one pair's log ratio, or a range over rows: 0.014:0.06.")] = "0.03",
    rows: Annotated[str, typer.Option(help="Rows of the manifest.")] = "60",
    models: Annotated[str, typer.Option(help="Models they belong to.")] = "5",
    effect: Annotated[str, typer.Option(help="Change planted in one row: -0.10 is a loss of 10 %.")] = "-0.10",
    margin: Annotated[str, typer.Option(help="Largest loss that may pass: class A is 0.10.")] = "0.10",
    looks: Annotated[str, typer.Option(help="Pairs at each look.")] = "3,5,7,9",
    floor_pairs: Annotated[str, typer.Option(help="Pairs of the floor.")] = "10",
    tails: Annotated[str, typer.Option(help="normal, or t3: Student's t with three degrees of freedom.")] = "normal",
    spread: Annotated[str, typer.Option(help="Of a range of sigma: even, or lognormal (its middle 95 %).")] = "even",
    shared: Annotated[str, typer.Option(help="Share of the variance that a model's rows have in common.")] = "0",
    session: Annotated[str, typer.Option(help="SD of what a session moves each row by, on its own.")] = "0",
    session_shared: Annotated[str, typer.Option(help="SD of what a session moves all rows by, alike.")] = "0",
    releases: Annotated[str, typer.Option(help="Releases to simulate.")] = "2000",
    seed: Annotated[str, typer.Option(help="Of the noise: the same for every method.")] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate releases: false RED, detection, undecided, silent PASS, pairs, each with its Monte-Carlo error."""
    from lqw.power.characteristics import characteristics

    n_rows = _whole("--rows", rows, 1, MOST_ROWS)
    low, high = _range("--sigma", sigma)
    world = _world(
        rows=n_rows,
        models=_whole("--models", models, 1, n_rows),
        sigma=(low, high),
        spread=_one_of("--spread", spread, ("even", "lognormal")),
        tails=_one_of("--tails", tails, ("normal", "t3")),
        shared=_number("--shared", shared, 0.0, 1.0),
        session=_number("--session", session, 0.0, 1.0),
        session_shared=_number("--session-shared", session_shared, 0.0, 1.0),
    )
    names = _methods(method)
    policies = [_policy(name, looks, floor_pairs, margin) for name in names]
    change = _number("--effect", effect, -0.99, 10.0)
    many, number = _whole("--releases", releases, 10, MOST_RELEASES), _whole("--seed", seed, 0, 2**63)
    found = {
        policy.method: characteristics(world, policy, effect=change, releases=many, seed=number) for policy in policies
    }
    if as_json:
        asked = {"rows": n_rows, "models": world.models, "sigma": [low, high], "effect": change}
        asked |= {"releases": many, "seed": number, "margin": policies[0].margin, "looks": list(policies[0].looks)}
        print(json.dumps({**asked, "methods": {name: one.to_json() for name, one in found.items()}}, indent=2))
        return
    print(
        f"{many:,} simulated releases of {n_rows} rows in {world.models} models, seed {number}: share ± standard error"
    )
    for name, one in found.items():
        _print(name, one, change)


def _print(name: str, one: Characteristics, effect: float) -> None:
    lines: list[tuple[str, object, str]] = [
        ("equal release RED", one.false_red, f"by rows alone {one.false_red_rows}"),
        ("equal release undecided", one.healthy_undecided, ""),
        ("equal release PASS", one.healthy_pass, ""),
        (f"{effect:+.0%} on one row: RED", one.planted.red, f"by its family only {one.planted.suite}"),
        (f"{effect:+.0%} on one row: undecided", one.planted.undecided, ""),
        (f"{effect:+.0%} on one row: silent PASS", one.planted.silent, _worst(one)),
        ("mean pairs of a model", one.pairs, f"until a row is decided {one.pairs_row}"),
    ]
    print(f"\n{name}")
    for label, value, note in lines:
        print(f"  {label:32} {value!s:18} {note}".rstrip())


def _worst(one: Characteristics) -> str:
    if not one.silent_by_sd:
        return ""
    sd, rate = one.silent_by_sd[-1]
    return f"on the loudest third of rows (sigma about {sd:.1%}) {rate}"


def _world(**values: Any) -> World:
    from lqw.power.world import World

    return World(**values)


def _policy(method: str, looks: str, floor_pairs: str, margin: str) -> Policy:
    from lqw.errors import UsageError
    from lqw.plan import Policy

    counts = tuple(_whole("--looks", word.strip(), 2, MOST_PAIRS) for word in looks.split(","))
    if list(counts) != sorted(set(counts)):
        raise UsageError(f"--looks {looks!r}: not rising", remedy="such as --looks 3,5,7,9")
    share = _number("--margin", margin, 0.0, 1.0)
    if not 0 < share < 1:
        raise UsageError(f"--margin {margin!r}: must lie between 0 and 1", remedy="such as --margin 0.10")
    floor = _whole("--floor-pairs", floor_pairs, 2, MOST_PAIRS)
    return Policy(looks=counts, floor_pairs=floor, margin=share, margin_class="", method=method)


def _methods(name: str) -> list[str]:
    from lqw.errors import UsageError
    from lqw.noise.methods import METHODS

    if name == "all":
        return list(METHODS)
    if name not in METHODS:
        raise UsageError(f"--method {name!r}: unknown", remedy=f"all, or one of: {', '.join(METHODS)}")
    return [name]


def _one_of(option: str, word: str, words: tuple[str, ...]) -> str:
    from lqw.errors import UsageError

    if word not in words:
        raise UsageError(f"{option} {word!r}: unknown", remedy=" or ".join(words))
    return word


def _number(option: str, text: str, low: float, high: float) -> float:
    from lqw.errors import UsageError

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:  # NaN is not
        raise UsageError(
            f"{option} {text!r}: not a number from {low:g} to {high:g}", remedy=f"such as {_example(option)}"
        )
    return value


def _whole(option: str, text: str, low: int, high: int) -> int:
    from lqw.errors import UsageError

    value = int(text) if text.isdecimal() and text.isascii() and len(text) < len(str(high)) + 1 else -1
    if not low <= value <= high:
        raise UsageError(
            f"{option} {text!r}: not a whole number from {low} to {high}", remedy=f"such as {_example(option)}"
        )
    return value


def _range(option: str, text: str) -> tuple[float, float]:
    from lqw.errors import UsageError

    words = text.split(":")
    low, high = (_number(option, word, 1e-6, 1.0) for word in (words[0], words[-1]))
    if len(words) > 2 or low > high:  # noqa: PLR2004 - a range has two ends
        raise UsageError(f"{option} {text!r}: not a range", remedy=f"such as {_example(option)}, smaller end first")
    return low, high


_EXAMPLES = {
    "--sigma": "0.03 or --sigma 0.014:0.06",
    "--looks": "3,5,7,9",
    "--effect": "-0.10",
    "--margin": "0.10",
    "--rows": "60",
    "--models": "5 (no more than rows)",
    "--floor-pairs": "10",
    "--releases": "2000",
    "--seed": "1",
    "--shared": "0.5",
    "--session": "0.01",
    "--session-shared": "0.01",
}


def _example(option: str) -> str:
    return f"{option} {_EXAMPLES[option]}"
