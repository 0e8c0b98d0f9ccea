"""Private keys: Ed25519 in PKCS#8 PEM, readable by their owner alone, and never inside a git work tree."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import UsageError
from lqw.receipt.paths import repository_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["NeedsPassphrase", "default_folder", "new_key", "public_text", "read_key", "write_key"]

MODE = 0o600
MAX_KEY = 16_384  # bytes of a key file


class NeedsPassphrase(UsageError):
    """The key is encrypted, and no passphrase was given."""


def default_folder() -> Path:
    """Return where keys lie unless somebody says otherwise: ``$XDG_CONFIG_HOME/lqw/keys``, or below ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".config") / "lqw" / "keys"


def new_key() -> Ed25519PrivateKey:
    """Return a new private key, from the operating system's generator."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    return Ed25519PrivateKey.generate()


def public_text(public: bytes) -> str:
    """Return a public key as ``params/signers`` holds it."""
    return "ed25519:" + base64.b64encode(public).decode()


def write_key(path: Path | str, key: Ed25519PrivateKey, passphrase: bytes | None = None) -> None:
    """Write a private key into a new file of mode 0600.

    Raises
    ------
    UsageError
        The place lies in a git work tree, is taken, or cannot be written. Nothing has been written then.
    """
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415

    place = Path(path)
    _outside(place)
    how = forms.BestAvailableEncryption(passphrase) if passphrase else forms.NoEncryption()
    data = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, how)
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE)
    except FileExistsError as err:
        raise UsageError(f"{place}: is there already; a key is never overwritten", remedy="--out FILE") from err
    except OSError as err:
        raise UsageError(f"{place}: {err.strerror or err}", remedy="--out FILE, somewhere you may write") from err
    with os.fdopen(handle, "wb") as out:
        os.fchmod(out.fileno(), MODE)  # whatever the umask took away or a file system's default added
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def read_key(path: Path | str, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """Read a private key; UsageError where it is none, others can read it, or it lies in a git work tree."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    place = Path(path)
    data = _guarded(place)
    try:
        key = load_pem_private_key(data, passphrase)
    except TypeError as err:
        if passphrase is None:
            raise NeedsPassphrase(
                f"{place}: is encrypted", remedy="give its passphrase: --passphrase-file FILE"
            ) from err
        raise UsageError(f"{place}: is not encrypted, but a passphrase was given", remedy="leave it out") from err
    except ValueError as err:
        text = "not a private key in PEM" if passphrase is None else "not a private key, or another passphrase"
        raise UsageError(f"{place}: {text}", remedy="lqw key new makes one") from err
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{place}: not an Ed25519 key", remedy="lqw key new makes one")
    return key


def _guarded(place: Path) -> bytes:
    _outside(place)
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_KEY:
                raise UsageError(f"{place}: not a key file", remedy="lqw key new makes one")
            if found.st_mode & 0o077:
                mode = stat.S_IMODE(found.st_mode)
                raise UsageError(f"{place}: mode {mode:04o}: others may read it", remedy=f"chmod 600 {place}")
            return source.read()
    except OSError as err:
        raise UsageError(f"{place}: {err.strerror or err}", remedy="lqw key new makes one") from err


def _outside(place: Path) -> None:
    for seen in (place, place.resolve()):
        repository = repository_of(seen)
        if repository is not None:
            raise UsageError(
                f"{place}: lies in the git work tree {repository}, where a private key is one `git add` from everybody",
                remedy=f"keep it elsewhere, such as {default_folder()}",
            )
