"""Where the real engines of a checkout are: unpacked once from ``shared/engines`` beside it, or named by variables.

``python -m lqw.testing.real_engines FOLDER`` (``make engines``) puts apr, llama-server and a tiny synthetic Qwen3.5
there, for ``params/examples``; tests ask :func:`program` and :func:`vocabulary` and skip by name what is absent.
"""

from __future__ import annotations

import lzma
import os
import shutil
import sys
from pathlib import Path

from lqw.errors import UsageError
from lqw.synth import Recipe, read_vocabulary, synthesise

__all__ = ["MODEL", "program", "provide", "vocabulary"]

SHARED = Path(__file__).parents[3] / "shared"
MODEL = "synthetic-qwen3.5-tiny.gguf"


def program(name: str, folder: Path) -> Path:
    """Return the path of ``apr`` or ``llama-server``, unpacked into *folder* if need be; UsageError where absent."""
    variable, packed = f"LQW_{name.upper().replace('-', '_')}", sorted((SHARED / "engines").glob(f"{name}*.xz"))
    if named := os.environ.get(variable):
        return Path(named)
    if not packed:
        raise UsageError(
            f"no {name} here", remedy=f"set {variable}, or put {name}-….xz into shared/engines beside the checkout"
        )
    target = folder / name
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{name}.{os.getpid()}")
        with lzma.open(packed[0], "rb") as source, partial.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        partial.chmod(0o755)
        partial.replace(target)
    return target


def vocabulary() -> Path:
    """Return a GGUF that has Qwen3.5's tokenizer; UsageError where there is none."""
    path = Path(os.environ.get("LQW_VOCAB") or SHARED / "gpu" / "ggml-vocab-qwen35.gguf.xz")
    if not path.is_file():
        raise UsageError("no vocabulary of Qwen3.5 here", remedy="set LQW_VOCAB to a GGUF that has it")
    return path


def provide(folder: Path) -> list[Path]:
    """Put everything ``params/examples`` names into *folder* and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [_linked(program(name, folder), folder / name) for name in ("apr", "llama-server")]
    model = folder / MODEL
    if not model.is_file():
        synthesise(Recipe("qwen3.5-tiny", "q4_k_m", read_vocabulary(vocabulary())), model)
    return [*found, model]


def _linked(program: Path, place: Path) -> Path:
    """Return *place*, a link to a program that a variable names elsewhere: the release files name the folder."""
    if program.resolve() != place.resolve() and program.is_file():
        place.unlink(missing_ok=True)
        place.symlink_to(program.absolute())
    return place if place.is_file() else program


if __name__ == "__main__":
    try:
        for path in provide(Path(sys.argv[1])):
            sys.stdout.write(f"{path}\n")
    except UsageError as err:
        sys.stderr.write(f"{err}\n")
        sys.exit(err.exit_status)
