"""``lqw key new | show | list`` and ``lqw sign FILE``: who stands for a receipt or a record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from lqw.params.signers import Signers

__all__ = ["app", "sign"]

app = typer.Typer(no_args_is_help=True, help="Signing keys: made here, kept outside of every repository.")

KeyFile = Annotated[Path | None, typer.Option("--key", help="Private key; the default is the only one you have.")]
Passphrase = Annotated[Path | None, typer.Option("--passphrase-file", help="File that holds the key's passphrase.")]
ParamsFolder = Annotated[
    Path | None,
    typer.Option("--params", help="Folder of signing.yaml and signers/; default: the repository's params/."),
]


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Your name, as records and reports show it.")],
    *,
    role: Annotated[str, typer.Option(help="captain: signs receipts. approver: approves other people's records.")],
    host: Annotated[list[str], typer.Option("--host", help="Host you may sign for; repeat for several.")],
    days: Annotated[int, typer.Option(min=1, max=3660, help="How long the key is valid.")] = 730,
    out: Annotated[Path | None, typer.Option("--out", help="Where the private key goes.")] = None,
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase, twice.")] = False,
    passphrase_file: Passphrase = None,
) -> None:
    """Make a key: the private half into a file that only you can read, the public half as a file to commit."""
    import datetime as dt

    import yaml

    from lqw.params.signers import parse_signers
    from lqw.receipt.dsse import key_id, public_bytes
    from lqw.receipt.keys import default_folder, new_key, public_text, write_key

    key, today = new_key(), dt.datetime.now(dt.UTC).date()
    fields = {"schema": "lqw-signer/1", "name": name, "role": role, "public_key": public_text(public_bytes(key))}
    dates = {"valid_from": today, "valid_until": today + dt.timedelta(days=days)}
    text = yaml.safe_dump({**fields, **dates, "hosts": host}, sort_keys=False, allow_unicode=True)
    slug = "-".join("".join(letter if letter.isalnum() else " " for letter in name.lower()).split()) or "key"
    parse_signers({f"signers/{slug}.yaml": text.encode()})  # what cannot be committed is not made
    secret = _secret(passphrase_file)
    if passphrase and secret is None:
        secret = str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)).encode()
    place = out or default_folder() / f"{slug}.pem"
    write_key(place, key, secret)
    typer.echo(
        f"private key  {place}  (mode 0600{', encrypted' if secret else ', no passphrase'}; keep it to yourself)",
        err=True,
    )
    typer.echo(f"key id       {key_id(public_bytes(key))}", err=True)
    typer.echo(f"commit this as params/signers/{slug}.yaml, by a change that somebody else reviews:\n", err=True)
    typer.echo(text, nl=False)


@app.command("show")
def show(key: KeyFile = None, passphrase_file: Passphrase = None) -> None:
    """Print a private key's public half and its id."""
    from lqw.receipt.dsse import key_id, public_bytes
    from lqw.receipt.keys import public_text

    public = public_bytes(_key(key, passphrase_file))
    typer.echo(f"{public_text(public)}  {key_id(public)}")


@app.command("list")
def listed(params: ParamsFolder = None) -> None:
    """Print who may sign, as what, for which hosts and until when, and which hosts may do without."""
    from lqw.cli.plain import plain
    from lqw.receipt.dsse import key_id

    signers = _signers(Path.cwd() / "params", params)
    for one in signers.people:
        until = "for good" if one.valid_until is None else f"to {one.valid_until}"
        hosts = ", ".join(one.hosts)
        typer.echo(
            plain(f"{one.role:8}  {one.name}  {hosts}  {one.valid_from} {until}  {key_id(one.public_bytes)[:16]}")
        )
    for host, reason in sorted(signers.unsigned_allowed.items()):
        typer.echo(plain(f"unsigned allowed for host {host}: {reason}"))
    if not signers.people:
        typer.echo("nobody may sign yet: lqw key new")


def sign(
    files: Annotated[list[Path], typer.Argument(help="Receipts and records.")],
    *,
    key: KeyFile = None,
    passphrase_file: Passphrase = None,
    params: ParamsFolder = None,
) -> None:
    """Verify each file and stand for it: a line in FILE.intoto.jsonl, to be committed with it. Twice adds nothing.

    Exit 4 where a file does not verify (nobody signs that), 2 where this key may not sign it.
    """
    import datetime as dt

    from lqw.cli.plain import plain
    from lqw.receipt.signing import bundle_of, sign_file

    holder = _key(key, passphrase_file)
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for path in files:
        signer, role = sign_file(path, holder, _signers(path, params), signed_utc=now)
        typer.echo(plain(f"{path}: signed by {signer.name} as {role}; commit {bundle_of(path)} with it"))


def _signers(near: Path, params: Path | None) -> Signers:
    from lqw.errors import UsageError
    from lqw.receipt.signing import find_signers

    found = find_signers(near, params)
    if found is None:
        remedy = "call it in the repository, or name its folder: --params DIR"
        raise UsageError(f"{near}: no params/signers of a repository around it says who may sign", remedy=remedy)
    return found


def _secret(file: Path | None) -> bytes | None:
    from lqw.errors import UsageError

    if file is None:
        return None
    try:
        secret = file.read_bytes().rstrip(b"\r\n")
    except OSError as err:
        raise UsageError(f"{file}: {err.strerror or err}", remedy="name a readable file") from err
    if not secret:
        raise UsageError(f"{file}: is empty", remedy="write the passphrase into it, or leave it out")
    return secret


def _key(file: Path | None, passphrase_file: Path | None) -> Ed25519PrivateKey:
    import sys

    from lqw.receipt.keys import NeedsPassphrase, read_key

    place, secret = file or _only_key(), _secret(passphrase_file)
    try:
        return read_key(place, secret)
    except NeedsPassphrase:
        if not sys.stdin.isatty():
            raise
        asked = str(typer.prompt(f"Passphrase of {place}", hide_input=True, err=True))
        return read_key(place, asked.encode())


def _only_key() -> Path:
    from lqw.errors import UsageError
    from lqw.receipt.keys import default_folder

    found = sorted(default_folder().glob("*.pem"))
    if len(found) != 1:
        text = f"{default_folder()}: holds {len(found)} keys"
        raise UsageError(text, remedy="name one: --key FILE" if found else "make one: lqw key new")
    return found[0]
