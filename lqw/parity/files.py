"""Reading what parity judges: receipts as strict JSON, the two parameter files as typed YAML."""

from __future__ import annotations

from pathlib import Path

from lqw.canonical import read_json
from lqw.errors import IntegrityError
from lqw.params.loading import parse_spec
from lqw.params.parity import BlessedSpec, ThresholdsSpec

__all__ = ["load_blessed", "load_thresholds", "read_receipt"]


def read_receipt(path: Path | str) -> object:
    """Return a receipt's JSON; its text says what is wrong where it is unreadable (a receipt is never a bare string).

    Raises
    ------
    FileNotFoundError
        Where there is no file: missing is another thing than unreadable.
    """
    if not Path(path).exists():
        raise FileNotFoundError(path)
    try:
        value = read_json(path)
    except IntegrityError as err:
        return err.message
    return value if not isinstance(value, str) else f"{path}: a bare string"


def load_thresholds(path: Path | str) -> ThresholdsSpec:
    """Read the floors; ParamsError (exit 2) on a floor without number or basis."""
    path = Path(path)
    return parse_spec(ThresholdsSpec, path, {}, path.parent, remedy="name a readable thresholds YAML with --thresholds")


def load_blessed(path: Path | str) -> BlessedSpec:
    """Read the blessing; ParamsError (exit 2) where it is unreadable."""
    path = Path(path)
    return parse_spec(BlessedSpec, path, {}, path.parent, remedy="name a readable blessed YAML with --blessed")
