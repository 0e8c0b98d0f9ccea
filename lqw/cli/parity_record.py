"""``lqw parity record``: the record of one stream, taken, wrapped, written and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lqw.cli.options import compute_named
from lqw.cli.parity_shared import (
    PROMPTS,
    Gguf,
    Host,
    Json,
    Model,
    Thresholds,
    end,
    floors_of,
    host_of,
    named,
    prompt_of,
    ready,
)

if TYPE_CHECKING:
    from lqw.parity.envelope import Taken

__all__ = ["record"]

Set = list[str]


def record(
    model: Model,
    *,
    out: Annotated[Path, typer.Option(help="Where it goes, such as receipts/parity/HOST/MODEL.m1.json.")],
    host: Host,
    gguf: Gguf,
    engine: Annotated[str, typer.Option(help="apr: its own tool. A llama.cpp: log-probabilities.")] = "apr",
    binary: Annotated[str | None, typer.Option(help="The program under test.")] = None,
    compute: Annotated[str, typer.Option(help="cpu or cuda: where a llama.cpp under test computes.")] = "cpu",
    settings: Annotated[Set | None, typer.Option("--set", help="WORD=VALUE of its adapter, again for more.")] = None,
    against: Annotated[str | None, typer.Option(help="The llama.cpp to compare with [--engine].")] = None,
    against_binary: Annotated[str | None, typer.Option(help="Its program [--binary].")] = None,
    against_compute: Annotated[str | None, typer.Option(help="Where it computes [cpu].")] = None,
    against_settings: Annotated[Set | None, typer.Option("--against-set", help="WORD=VALUE of its adapter.")] = None,
    prompt: Annotated[str, typer.Option(help=f"Names in {PROMPTS}, joined.")] = "prose,needle",
    positions: Annotated[int, typer.Option(min=64, help="Tokens compared by log-probabilities.")] = 64,
    thresholds: Thresholds = None,
    as_json: Json = False,
) -> None:
    """Take the record of one stream (apr parity, else two llama.cpp by log-probabilities), write it, and judge it."""
    from lqw.canonical import canonical_bytes, write_atomic
    from lqw.params import EngineSpec
    from lqw.parity import judge_record
    from lqw.parity.envelope import envelope
    from lqw.parity.hardware import utc_now
    from lqw.parity.start import find_model

    floors, text, name, called = floors_of(thresholds), prompt_of(prompt), named(model), host_of(host)
    path, sha256 = find_model(gguf, Path("runs/models"))
    subject = EngineSpec(engine=engine, binary=binary, settings=_settings(settings, "--set"))
    ready(out)
    if engine == "apr":
        taken = _by_tool(subject, path, text)
    else:
        other = EngineSpec(
            engine=against or engine,
            binary=against_binary or (binary if against is None else None),
            settings=_settings(against_settings, "--against-set"),
        )
        sides = [(subject, compute_named(compute)), (other, compute_named(against_compute or "cpu"))]
        taken = _by_logprobs(sides, path, text, positions, out)
    form = envelope(taken, model=name, file=path.name, model_sha256=sha256, host=called, now_utc=utc_now())
    write_atomic(out, canonical_bytes(form))
    verdict = judge_record(form, model=name, thresholds=floors)
    end((_taken_line(taken), verdict.line), verdict.to_json(), verdict.exit_status, as_json=as_json)


def _by_tool(spec: Any, path: Path, text: str) -> Taken:
    from lqw.engines.base import Where
    from lqw.engines.checks import check_binary
    from lqw.parity.tool import record_by_tool

    check_binary(spec, Where("command line", "engine"))
    return record_by_tool(spec, path, text)


def _by_logprobs(sides: list[tuple[Any, Any]], path: Path, text: str, positions: int, out: Path) -> Taken:
    from lqw.parity.logprobs import record_by_logprobs
    from lqw.parity.start import Wanted

    tokens, log = positions + len(text.encode()), out.with_name(f".{out.name}.log")
    wanted = [Wanted(spec, path, 1, tokens, on, log) for spec, on in sides]
    taken = record_by_logprobs(wanted[0], wanted[1], text, positions)
    log.unlink(missing_ok=True)
    return taken


def _taken_line(taken: Taken) -> str:
    same, count = taken.raw.get("passed"), taken.raw.get("tokens")
    method = taken.raw.get("method", "apr parity")
    return f"taken by {method}: {same} of {count} positions agree by its own rule"


def _settings(words: list[str] | None, option: str) -> dict[str, bool | int | float | str]:
    from lqw.errors import UsageError

    out: dict[str, bool | int | float | str] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {word!r}: not WORD=VALUE", remedy="such as --set threads=2")
        out[name] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
    return out
