"""``lqw synth``: write a model with random weights in Qwen3.5's shapes."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lqw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from lqw.synth import Recipe, Vocabulary, Written

__all__ = ["synth"]

MADE_UP = "made-up"


def synth(
    out: Annotated[Path, typer.Argument(help="The GGUF to write.", show_default=False)],
    *,
    shape: Annotated[str, typer.Option(help="qwen3.5-tiny, -0.8b, -2b, -4b, -9b or -27b.", show_default=False)],
    vocab: Annotated[
        str,
        typer.Option(
            envvar="LQW_VOCAB",
            help="A GGUF (plain or .xz) to take the tokenizer from, or made-up: built-in invented words.",
            show_default=False,
        ),
    ] = "",
    mix: Annotated[str, typer.Option(help="q4_k_m, q4_k_s, q5_k_m, q5_k_s, q6_k, q4_0, q8_0 or f16.")] = "q4_k_m",
    seed: Annotated[int, typer.Option(help="The same seed and options give the same bytes.")] = 0,
    kappa: Annotated[float, typer.Option(help="How much the layers say; above 2 engines part from each other.")] = 1.0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a model with random weights in Qwen3.5's true shapes: real speed, meaningless answers."""
    from lqw.synth import Recipe, synthesise

    recipe = Recipe(shape, mix, _vocabulary(vocab), seed=seed, kappa=kappa)
    with _terminated_cleanly(), _shown(recipe, out) as progress:
        written = synthesise(recipe, out, replace=force, progress=progress)
    print(_line(written))


def _line(written: Written) -> str:
    return (
        f"{written.path}: {written.size_bytes} bytes, sha256 {written.sha256}, "
        f"{written.tensors} tensors, {written.seconds:.1f} s"
    )


def _vocabulary(choice: str) -> Vocabulary:
    from lqw.synth import made_up_vocabulary, read_vocabulary

    if choice == MADE_UP:
        return made_up_vocabulary()
    if not choice:
        raise UsageError(
            "no vocabulary is named",
            remedy="--vocab FILE (or LQW_VOCAB): a GGUF with Qwen3.5's tokenizer, plain or .xz, such as llama.cpp's "
            f"models/ggml-vocab-qwen35.gguf or any Qwen3.5 model; or --vocab {MADE_UP}: built-in invented words, "
            "the same speed",
        )
    return read_vocabulary(Path(choice))


@contextmanager
def _terminated_cleanly() -> Iterator[None]:
    """Let SIGTERM unwind the stack like Ctrl-C, so that no partial file stays."""

    def unwind(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shown(recipe: Recipe, out: Path) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and one line on standard error where there is none."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"lqw synth: {recipe.shape_name} {recipe.mix_name}, {recipe.vocabulary.source} → {out}", file=sys.stderr)
        yield lambda _done, _all: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as bar:
        task = bar.add_task(f"{recipe.shape_name} {recipe.mix_name}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
