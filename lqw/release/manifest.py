"""The release a tag stands for: its committed parameter files, and whether a receipt was measured by just these."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lqw.canonical import sha256_bytes
from lqw.errors import IntegrityError, ParamsError
from lqw.params import HostSpec, IdentityPrompts, ProtocolSpec, ReleaseSpec, Strict, TargetsSpec
from lqw.params.loading import parse_text
from lqw.params.signers import POLICY, SIGNERS, Signers, parse_signers
from lqw.receipt import params_of
from lqw.release.findings import Finding, invalid
from lqw.release.tree import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.params import Params
    from lqw.receipt.schema import Receipt
    from lqw.release.tree import Tree

__all__ = [
    "PARAMS",
    "Manifest",
    "find_manifest",
    "params_findings",
    "parse_params",
    "release_in",
    "signers_at",
    "version_of",
]

PARAMS = "params"
REMEDY = "mend the file named, by a change that somebody reviews"
_SCHEMA = b"lqw-release/1"
_Spec = TypeVar("_Spec", bound=Strict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A release file at a commit.

    Attributes
    ----------
    path : str
        From the repository's root.
    release : ReleaseSpec
    stores : dict of str to str
        Host → its folder of receipts, from the repository's root.
    """

    path: str
    release: ReleaseSpec
    stores: dict[str, str]


def version_of(tag: str) -> str:
    """Return the version that a tag names: ``v0.69.4`` → ``0.69.4``."""
    return tag[1:] if tag[:1] == "v" and tag[1:2].isdigit() else tag


def find_manifest(tree: Tree, version: str) -> Manifest | None:
    """Return the release file of a version, or None where no file of ``params/`` is of that release.

    Raises
    ------
    ParamsError
        It, or a host file it names, is malformed or missing.
    IntegrityError
        Two files are of the same release, or ``params`` leads out of the repository.
    """
    found = release_in(tree, version)
    if found is None:
        return None
    path, spec = found
    return Manifest(path, spec, {host: _store(tree, host) for host in spec.hosts})


def release_in(tree: Tree, version: str) -> tuple[str, ReleaseSpec] | None:
    """Return path and content of the release file of a version, its hosts not looked at; None, and errors, as above."""
    paths = [path for path in tree.files(PARAMS) if path.endswith((".yaml", ".yml"))]
    found: dict[str, ReleaseSpec] = {}
    for path, data in zip(paths, tree.read(paths), strict=True):
        if _SCHEMA in data and version.encode() in data:
            spec = parse_text(ReleaseSpec, _text(path, data), Path(path), remedy=REMEDY)
            if spec.release == version:
                found[path] = spec
    if len(found) > 1:
        raise IntegrityError(f"{' and '.join(sorted(found))}: two files of release {version}", remedy="keep one")
    return next(iter(found.items()), None)


def _store(tree: Tree, host: str) -> str:
    spec = parse_params(tree, HostSpec, f"hosts/{host}.yaml")
    if spec.name != host:
        raise ParamsError(
            file=f"{PARAMS}/hosts/{host}.yaml", field="name", value=spec.name, problem=f"not {host}", remedy=REMEDY
        )
    return inside(f"{spec.receipts}/{host}")


def parse_params(tree: Tree, kind: type[_Spec], name: str) -> _Spec:
    """Return a committed file below ``params/`` as its type; ParamsError where it is malformed or missing."""
    path = f"{PARAMS}/{name}"
    data = tree.find(path)
    if data is None:
        raise ParamsError(file=path, field="(file)", value=path, problem="no such file", remedy=f"commit {path}")
    return parse_text(kind, _text(path, data), Path(path), remedy=REMEDY)


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise ParamsError(file=path, field="(file)", value=path, problem="not UTF-8 text", remedy=REMEDY) from err


def signers_at(tree: Tree) -> Signers:
    """Return who may sign, as committed; without policy and signers every host needs signatures nobody can give."""
    named = [path for path in tree.files(PARAMS) if path == f"{PARAMS}/{POLICY}" or f"/{SIGNERS}/" in path]
    return parse_signers({path[len(PARAMS) + 1 :]: data for path, data in zip(named, tree.read(named), strict=True)})


def params_findings(tree: Tree, manifest: Manifest, receipt: Receipt, host: str) -> Iterator[Finding]:
    """Yield where the run's parameters are not the committed ones: bytes of each file, and what was read from them."""
    params = params_of(receipt.header)
    names = list(params.files)
    listed = tree.files(PARAMS)
    here = [name for name in names if f"{PARAMS}/{name}" in listed]
    contents = dict(zip(here, tree.read([f"{PARAMS}/{name}" for name in here]), strict=True))
    for name in names:
        sha256 = sha256_bytes(contents[name]) if name in contents else "no such file"
        if sha256 != params.files[name]:
            text = f"{PARAMS}/{name} is {sha256[:12]} at the tag; the run read {params.files[name][:12]}"
            yield invalid("params", text, host)
    yield from _typed(tree, manifest, params, host)


def _typed(tree: Tree, manifest: Manifest, params: Params, host: str) -> Iterator[Finding]:
    protocol = f"protocols/{manifest.release.protocol}.yaml"
    prompts = f"prompts/{params.protocol.identity.prompts}"
    here = parse_params(tree, HostSpec, f"hosts/{host}.yaml")
    read = (
        (manifest.path, params.release, manifest.release.on(host, here.engines)),
        (f"{PARAMS}/hosts/{host}.yaml", params.host, here),
        (f"{PARAMS}/{protocol}", params.protocol, parse_params(tree, ProtocolSpec, protocol)),
        (f"{PARAMS}/targets.yaml", params.targets, parse_params(tree, TargetsSpec, "targets.yaml")),
        (f"{PARAMS}/{prompts}", params.prompts, parse_params(tree, IdentityPrompts, prompts).prompts),
    )
    for path, recorded, committed in read:
        if recorded != committed:
            yield invalid("params", f"{path}: the receipt says something else than the file", host)
