"""What the commands of ``lqw parity`` share: options, roots, prompts, and how they end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lqw.errors import Exit
    from lqw.params.parity import ThresholdsSpec

__all__ = [
    "PROMPTS",
    "THRESHOLDS",
    "Gguf",
    "Host",
    "Json",
    "Model",
    "Thresholds",
    "end",
    "floors_of",
    "host_of",
    "named",
    "prompt_of",
    "ready",
    "root_of",
]

THRESHOLDS = "params/parity/thresholds.yaml"
PROMPTS = "params/prompts/identity.yaml"

Json = Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")]
Model = Annotated[str, typer.Option("--model", help="Whose receipt it must be, such as qwen3.5-9b.")]
Host = Annotated[str, typer.Option(help="The host's name, as in params/hosts.")]
Gguf = Annotated[str, typer.Option(help="The model's file, or package:NAME of an installed wheel.")]
Thresholds = Annotated[Path | None, typer.Option("--thresholds", help=f"The floors [{THRESHOLDS}].")]


def root_of() -> Path:
    """Return the nearest folder upwards that holds params/parity, else that of the library's checkout."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / "params" / "parity").is_dir())
    return next(found, Path(__file__).resolve().parents[2])


def end(lines: tuple[str, ...], form: dict[str, Any], status: Exit, *, as_json: bool) -> None:
    """Print the verdict and leave with its exit status."""
    print(json.dumps(form, ensure_ascii=False, indent=2) if as_json else "\n".join(lines))
    raise typer.Exit(int(status))


def named(model: str) -> str:
    """Return a model's name; UsageError where it is blank."""
    from lqw.errors import UsageError

    if not model.strip():
        raise UsageError("--model is blank", remedy="name the model, such as --model qwen3.5-9b")
    return model.strip()


def host_of(said: str) -> str:
    """Return the one name of a host, whichever of its aliases was said; UsageError where no host can be called so."""
    from lqw.errors import UsageError
    from lqw.params.loading import host_named
    from lqw.params.parity import HOST

    folder = root_of() / "params"
    host = host_named(said.strip(), sorted(path.stem for path in folder.glob("hosts/*.yaml")), folder)
    if re.fullmatch(HOST, host) is None:
        raise UsageError(f"--host {said!r}: no name of a host", remedy="one of params/hosts, such as --host lambda")
    return host


def floors_of(thresholds: Path | None) -> ThresholdsSpec:
    """Return the floors of a file, by default the repository's."""
    from lqw.parity.files import load_thresholds

    return load_thresholds(thresholds or root_of() / THRESHOLDS)


def ready(out: Path) -> None:
    """Make the folder of *out*."""
    from lqw.errors import UsageError

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(f"--out: {out.parent}: {err.strerror}", remedy="name a folder that can be written") from err


def prompt_of(names: str) -> str:
    """Return the identity prompts of *names* (commas between), joined."""
    from lqw.errors import UsageError
    from lqw.params import IdentityPrompts
    from lqw.params.loading import parse_spec

    path = root_of() / PROMPTS
    prompts = parse_spec(IdentityPrompts, path, {}, path.parent, remedy="add the identity prompts").prompts
    for name in names.split(","):
        if name not in prompts:
            raise UsageError(f"--prompt {name!r}: not in {PROMPTS}", remedy=f"one of {', '.join(prompts)}")
    return "\n\n".join(prompts[name] for name in names.split(","))
