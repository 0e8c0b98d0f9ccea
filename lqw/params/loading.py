"""Reading parameter files: strict YAML, typed, every error naming file, field, value and remedy.

Nothing is started or written here; a :class:`lqw.errors.ParamsError` ends the command with exit 2.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from lqw.errors import ParamsError
from lqw.params.hosts import HostSpec
from lqw.params.parity import BlessedSpec, ParityParams, ThresholdsSpec
from lqw.params.protocol import IdentityPrompts, ProtocolSpec
from lqw.params.roofline import RooflineSpec
from lqw.params.specs import MAX_ROWS, Params, ReleaseSpec, TargetsSpec
from lqw.params.strict import Strict

__all__ = ["ROOFLINES", "load_params", "params_root", "parse_spec", "parse_text"]

ROOFLINES = "rooflines"
"""Folder of what hosts can do at best, below params/."""

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_YAML = 512 * 1024  # characters; YAML is read at half a megabyte a second, and a release file has some thousand
_SETTING_KINDS = {"bool", "int", "float", "str"}

_Spec = TypeVar("_Spec", bound=Strict)


def _read(path: Path, files: dict[str, str], root: Path, *, remedy: str) -> str:
    try:
        if path.exists() and not path.is_dir() and (not path.is_file() or path.stat().st_size > MAX_FILE_BYTES):
            raise ParamsError(
                file=str(path),
                field="(file)",
                value=str(path),
                problem=f"not a regular file of at most {MAX_FILE_BYTES} bytes",
                remedy=remedy,
            )
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as err:
        raise ParamsError(
            file=str(path),
            field="(file)",
            value=str(path),
            problem=err.strerror or "unreadable",
            remedy=remedy,
        ) from err
    except UnicodeDecodeError as err:
        raise ParamsError(
            file=str(path),
            field="(file)",
            value=str(path),
            problem="not UTF-8 text",
            remedy="save the file as UTF-8",
        ) from err
    resolved, base = path.resolve(), root.resolve()
    key = resolved.relative_to(base).as_posix() if resolved.is_relative_to(base) else resolved.name
    files[key] = hashlib.sha256(data).hexdigest()
    return text


if yaml.__with_libyaml__:  # ten times as fast
    from yaml import CSafeLoader as SafeLoader
else:
    from yaml import SafeLoader  # type: ignore[assignment]


class _UniqueKeyLoader(SafeLoader):
    """Safe loader that refuses a key that stands twice, instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def parse_spec(spec: type[_Spec], path: Path, files: dict[str, str], root: Path, *, remedy: str) -> _Spec:
    """Read one YAML file as *spec*; its sha256 goes into *files* under its path below *root*. ParamsError names all."""
    return parse_text(spec, _read(path, files, root, remedy=remedy), path, remedy=remedy)


def parse_text(spec: type[_Spec], text: str, path: Path, *, remedy: str) -> _Spec:
    """Read the text of a YAML file as *spec*; *path* is for messages alone. ParamsError names all."""
    if len(text) > MAX_YAML:
        problem, mend = f"longer than {MAX_YAML} characters", "keep only what the release needs"
        raise ParamsError(file=str(path), field="(file)", value=f"{len(text)} characters", problem=problem, remedy=mend)
    try:
        raw = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as err:  # the last: a date or number that is none
        raise ParamsError(
            file=str(path),
            field="(yaml)",
            value=path.name,
            problem=str(err).replace("\n", " "),
            remedy="mend the YAML at the place named",
        ) from err
    if not isinstance(raw, dict):
        raise ParamsError(file=str(path), field="(document)", value=raw, problem="not a mapping", remedy=remedy)
    try:
        return spec.model_validate(raw)
    except ValidationError as err:
        first = err.errors()[0]
        where = [str(part) for part in first["loc"]]
        problem = first["msg"]
        if where and where[-1] in _SETTING_KINDS:  # a union reports each branch; the reader wants the field
            where, problem = where[:-1], "neither a finite number, a text, nor true or false"
        field = ".".join(where) or "(document)"
        hint = {
            "extra_forbidden": f"remove it, or check its spelling; known here: {', '.join(_known(spec))}",
            "missing": "add the field; docs/operators-guide.md has a whole example",
        }.get(first["type"], "correct the value; docs/operators-guide.md lists every field")
        value = "(absent)" if first["type"] == "missing" else first["input"]
        more = f" (and {err.error_count() - 1} more)" if err.error_count() > 1 else ""
        raise ParamsError(file=str(path), field=field, value=value, problem=problem + more, remedy=hint) from err


def _known(spec: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in spec.model_fields.items()]


def params_root(path: Path) -> Path:
    """Return the ``params/`` folder that a file lies in; ParamsError where there is none above it."""
    for folder in path.resolve().parents:
        if (folder / "hosts").is_dir() and (folder / "protocols").is_dir():
            return folder
    raise ParamsError(
        file=str(path),
        field="(place)",
        value=str(path.parent),
        problem="no folder above it holds hosts/ and protocols/",
        remedy="keep release files below a params/ folder with hosts/, protocols/, prompts/ and targets.yaml",
    )


def load_params(path: Path | str, *, host: str | None = None) -> Params:
    """Read and check a release file and all it names.

    Parameters
    ----------
    path : path
        The release YAML, somewhere below a ``params/`` folder.
    host : str, optional
        Which of the release's hosts; needed only where it names several.

    Raises
    ------
    ParamsError
        Naming file, field, value and remedy. Nothing has been written.
    """
    path = Path(path)
    files: dict[str, str] = {}
    if not path.is_file():
        raise ParamsError(
            file=str(path),
            field="(file)",
            value=str(path),
            problem="no such file",
            remedy="name a release YAML, such as params/demo/1.1.0.yaml",
        )
    root = params_root(path)
    release = parse_spec(ReleaseSpec, path, files, root, remedy="name a readable release YAML")
    chosen = host or (release.hosts[0] if len(release.hosts) == 1 else None)
    if chosen is not None:
        chosen = host_named(chosen, release.hosts, root)
    if chosen is None or chosen not in release.hosts:
        raise ParamsError(
            file=str(path),
            field="hosts",
            value=chosen or release.hosts,
            problem="choose one of the release's hosts",
            remedy=f"--host {'|'.join(release.hosts)}",
        )
    host_spec = parse_spec(
        HostSpec, root / "hosts" / f"{chosen}.yaml", files, root, remedy=f"add params/hosts/{chosen}.yaml"
    )
    protocol = parse_spec(
        ProtocolSpec,
        root / "protocols" / f"{release.protocol}.yaml",
        files,
        root,
        remedy=f"add params/protocols/{release.protocol}.yaml",
    )
    targets = parse_spec(TargetsSpec, root / "targets.yaml", files, root, remedy="add params/targets.yaml")
    corpus = _read(root / "prompts" / protocol.corpus, files, root, remedy="add the corpus the protocol names")
    if len(corpus) < 2_000:  # noqa: PLR2004
        raise ParamsError(
            file=str(root / "prompts" / protocol.corpus),
            field="(text)",
            value=f"{len(corpus)} characters",
            problem="too short to cut prompts from",
            remedy="give at least 2,000 characters of plain text",
        )
    prompts = parse_spec(
        IdentityPrompts,
        root / "prompts" / protocol.identity.prompts,
        files,
        root,
        remedy="add the identity prompts the protocol names",
    )
    unknown = sorted(set(protocol.identity.at_shapes or ()) - set(prompts.prompts))
    if unknown:
        raise ParamsError(
            file=str(root / "protocols" / f"{release.protocol}.yaml"),
            field="identity.at_shapes",
            value=", ".join(unknown),
            problem=f"not in prompts/{protocol.identity.prompts}",
            remedy=f"one or more of {', '.join(prompts.prompts)}",
        )
    if len(release.models) * len(protocol.rows) > MAX_ROWS:
        raise ParamsError(
            file=str(root / "protocols" / f"{release.protocol}.yaml"),
            field="rows",
            value=f"{len(protocol.rows)} of each of {len(release.models)} models",
            problem=f"more than {MAX_ROWS} rows in all",
            remedy="measure the models in several release files, or fewer rows of each",
        )
    return Params(
        path=str(path),
        release=release.on(chosen, host_spec.engines),
        host=host_spec,
        protocol=protocol,
        targets=targets,
        prompts=prompts.prompts,
        files=files,
        parity=_parity(path, release.blessed, files, root),
        roofline=_roofline(host_spec, files, root),
    )


def _roofline(host: HostSpec, files: dict[str, str], root: Path) -> RooflineSpec | None:
    """Return what the host can do at best, where that was measured; ParamsError where it is another host's."""
    path = root / ROOFLINES / f"{host.name}.json"
    if not path.exists():
        return None
    remedy = "measure it anew: lqw doctor PARAMS --roofline"
    found = parse_spec(RooflineSpec, path, files, root, remedy=remedy)
    for field, seen, wanted in (("host", found.host, host.name), ("compute", found.compute, host.compute)):
        if seen != wanted:
            raise ParamsError(
                file=str(path), field=field, value=seen, problem=f"the host file says {wanted!r}", remedy=remedy
            )
    return found


def host_named(said: str, hosts: list[str], root: Path) -> str:
    """Return the one name of a host that is called by an alias, in whatever case; what is none of them stays itself."""
    for name in hosts:
        if said == name:
            return name
        spec = parse_spec(HostSpec, root / "hosts" / f"{name}.yaml", {}, root, remedy=f"add params/hosts/{name}.yaml")
        if said.casefold() in (name.casefold(), *(alias.casefold() for alias in spec.aliases)):
            return name
    return said


def _parity(path: Path, model: str | None, files: dict[str, str], root: Path) -> ParityParams | None:
    """Return what a release that names a blessed model is held to; ParamsError where that is another model."""
    if model is None:
        return None
    folder = root / "parity"
    blessed = parse_spec(BlessedSpec, folder / "blessed.yaml", files, root, remedy="add params/parity/blessed.yaml")
    floors = parse_spec(
        ThresholdsSpec, folder / "thresholds.yaml", files, root, remedy="add params/parity/thresholds.yaml"
    )
    if blessed.model != model:
        raise ParamsError(
            file=str(path),
            field="blessed",
            value=model,
            problem=f"{folder / 'blessed.yaml'} blesses {blessed.model or 'no model'!r}",
            remedy="name the model that is blessed, or bless this one",
        )
    return ParityParams(blessed=blessed, thresholds=floors)
