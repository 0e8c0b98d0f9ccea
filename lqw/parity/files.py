"""Reading what parity judges: receipts as strict JSON, the two parameter files as typed YAML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import IntegrityError
from lqw.params.loading import parse_spec
from lqw.params.parity import BlessedSpec, ThresholdsSpec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["load_blessed", "load_thresholds", "parse_receipt", "read_receipt", "reader_below"]

MOST_BYTES = 8 * 1024 * 1024
"""A receipt of the gate carries both receipts of each host, and must stay readable."""


def read_receipt(path: Path | str) -> object:
    """Return a receipt's JSON; its text says what is wrong where it is unreadable (a receipt is never a bare string).

    Raises
    ------
    FileNotFoundError
        Where there is no file: missing is another thing than unreadable.
    """
    try:
        with Path(path).open("rb") as handle:  # so far and no further: a device has no size and no end
            data = handle.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as err:
        return f"{path}: {getattr(err, 'strerror', None) or err}"
    return parse_receipt(data, name=str(path))


def parse_receipt(data: bytes, *, name: str) -> object:
    """Return the JSON of a receipt's bytes, or in words why no gate receipt could carry it."""
    if len(data) > MOST_BYTES:
        return f"{name}: larger than {MOST_BYTES} bytes"
    try:
        value = loads_strict(data.decode("utf-8"), name=name)
        canonical_bytes(value)
    except UnicodeDecodeError as err:
        return f"{name}: not UTF-8 at byte {err.start}"
    except IntegrityError as err:
        return err.message if err.message.startswith(name) else f"{name}: {err.message}"
    return value if not isinstance(value, str) else f"{name}: a bare string"


def reader_below(root: Path) -> Callable[[str], object]:
    """Return a reader of receipts by their path from *root*, which a link may not leave."""
    home = root.resolve()

    def read(path: str) -> object:
        place = root / path
        if not place.resolve().is_relative_to(home):
            return f"{path}: leads out of the repository"
        return read_receipt(place)

    return read


def load_thresholds(path: Path | str) -> ThresholdsSpec:
    """Read the floors; ParamsError (exit 2) on a floor without number or basis."""
    path = Path(path)
    return parse_spec(ThresholdsSpec, path, {}, path.parent, remedy="name a readable thresholds YAML with --thresholds")


def load_blessed(path: Path | str) -> BlessedSpec:
    """Read the blessing; ParamsError (exit 2) where it is unreadable."""
    path = Path(path)
    return parse_spec(BlessedSpec, path, {}, path.parent, remedy="name a readable blessed YAML with --blessed")
