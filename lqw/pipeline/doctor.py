"""``lqw doctor``: can this machine measure, and this release be measured on it? Nothing is kept, nothing is judged.

Each check is a function that yields :class:`Check` values; what raises an :class:`LqwError` is a failed check with that
error's remedy. A failed check makes exit 2; a warning does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lqw.errors import LqwError
from lqw.host.fingerprint import cpu_model
from lqw.host.gpu import open_gpu
from lqw.host.idle import strangers
from lqw.host.lock import lock_holders
from lqw.host.memory import available_bytes
from lqw.host.ports import free_port
from lqw.host.supervise import note
from lqw.metrics.checks import VOID_TTFT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lqw.params import Params

__all__ = ["Check", "State", "checked", "machine"]

State = Literal["ok", "warn", "bad", "skipped"]
GIB = 2**30
DISK_BAD, DISK_WARN = GIB // 2, 4 * GIB  # a journal and a wheel's model; several models
MEMORY_WARN = 2 * GIB
BUSY_SHARE = 0.5  # load per core from which another program is measured too
KERNEL_S = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: its state, what was seen, what that means, and the command that mends it."""

    name: str
    state: State
    seen: str
    meaning: str
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def checked(name: str, meaning: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """Return what a check yields; an error it raises is a failed check with its message and remedy."""
    found: list[Check] = []
    try:
        found.extend(look())
    except (LqwError, OSError) as err:
        said, mend = (err.message, err.remedy) if isinstance(err, LqwError) else (str(err), "")
        found.append(Check(name, "bad", said, meaning, mend))
    return found


def machine(params: Params | None, runs: Path) -> list[Check]:
    """Return the checks of the machine: disk, memory, load, port, GPU, lock, notebook kernel, client error."""
    looks: tuple[tuple[str, str, Callable[[], Iterator[Check]]], ...] = (
        ("disk", "the run folder must take journal, notebooks and logs", lambda: _disk(runs)),
        ("memory", "engine, client and notebooks must not swap", _memory),
        ("processor", "another program's load is measured as ours", _processor),
        ("port", "the client speaks to the engine over 127.0.0.1", _port),
        ("GPU", "the engine must have the device alone", lambda: _gpu(params)),
        ("lock", "two gates on one machine measure each other", lambda: _lock(params)),
        ("notebook kernel", "the chain runs notebooks in it", _kernel),
        ("client error", "a client that is late measures itself; above 5 ms a run is void", _client),
    )
    return [check for name, meaning, look in looks for check in checked(name, meaning, look)]


def gib(size: float) -> str:
    """Return bytes in GiB with two digits."""
    return f"{size / GIB:.2f} GiB"


def _disk(runs: Path) -> Iterator[Check]:
    place = runs.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    meaning = "the run folder must take journal, notebooks and logs"
    if not os.access(place, os.W_OK | os.X_OK):
        yield Check("disk", "bad", f"{runs} cannot be written", meaning, f"chmod u+rwx {place}, or lqw gate --run DIR")
        return
    state: State = "bad" if free < DISK_BAD else "warn" if free < DISK_WARN else "ok"
    yield Check("disk", state, f"{gib(free)} free below {runs}", meaning, "" if state == "ok" else f"du -xh {runs}")


def _memory() -> Iterator[Check]:
    available = available_bytes()
    state: State = "warn" if available < MEMORY_WARN else "ok"
    mend = "" if state == "ok" else "ps aux --sort=-rss | head"
    yield Check("memory", state, f"{gib(available)} available", "engine, client and notebooks must not swap", mend)


def _processor() -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    state: State = "warn" if load > BUSY_SHARE * cores else "ok"
    seen = f"{cpu_model(Path('/proc/cpuinfo').read_text())}, {cores} cores, load {load:.2f}"
    mend = "" if state == "ok" else "ps aux --sort=-%cpu | head"
    yield Check("processor", state, seen, "another program's load is measured as ours", mend)


def _port() -> Iterator[Check]:
    yield Check("port", "ok", f"127.0.0.1:{free_port()} can be had", "the client speaks to the engine over 127.0.0.1")


def _gpu(params: Params | None) -> Iterator[Check]:
    meaning = "the engine must have the device alone"
    if params is None or params.host.compute == "cpu":
        why = "no release named" if params is None else f"host {params.host.name} computes on the CPU"
        yield Check("GPU", "skipped", why, meaning)
        return
    gpu = open_gpu()
    facts = gpu.facts()
    total = f", {facts['vram_mib']:,} MiB" if isinstance(facts["vram_mib"], int) else ", memory total not told"
    yield Check("GPU", "ok", f"{facts['gpu']}{total}, driver {facts['driver']}, CUDA {facts['cuda']}", meaning)
    others = strangers(gpu.processes() or (), ())
    state: State = "bad" if others else "ok"
    mend = f"end it: kill {' '.join(str(pid) for pid in others if pid)}".strip() if others else ""
    yield Check("GPU", state, f"used by {', '.join(others.values())}" if others else "used by nobody", meaning, mend)


def _lock(params: Params | None) -> Iterator[Check]:
    meaning = "two gates on one machine measure each other"
    if params is None or params.host.lock is None:
        why = "no release named" if params is None else f"host {params.host.name} names no lock"
        yield Check("lock", "skipped", why, meaning)
        return
    path = Path(params.host.lock).expanduser()
    holders = ", ".join(str(note(pid)) for pid in lock_holders(path))
    if holders:
        yield Check("lock", "bad", f"{path} is held by {holders}", meaning, "wait until it ends")
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        yield Check("lock", "bad", f"{path} cannot be opened", meaning, f"touch {path} && chmod a+rw {path}")
    else:
        yield Check("lock", "ok", f"{path} is free", meaning)


def _kernel() -> Iterator[Check]:
    meaning = "the chain runs notebooks in it"
    names = ("papermill", "nbclient", "nbconvert", "ipykernel")
    try:
        seen = ", ".join(f"{name} {version(name)}" for name in names)
    except PackageNotFoundError as err:
        yield Check("notebook kernel", "bad", f"{err.name} is not installed", meaning, "pip install -e .")
        return
    command = [sys.executable, "-c", "import ipykernel.kernelapp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=KERNEL_S, check=False)
    broken = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    state: State = "bad" if done.returncode else "ok"
    yield Check("notebook kernel", state, broken[0] if broken else seen, meaning, "pip install -e ." if broken else "")


def _client() -> Iterator[Check]:
    from lqw.collect.calibrate import Load, calibrate_patiently, null_server  # noqa: PLC0415 - sockets

    with (
        tempfile.TemporaryDirectory(prefix="lqw-doctor-") as scratch,
        null_server("doctor", Path(scratch) / "null.log") as target,
    ):
        found = calibrate_patiently(target, Load(streams=4, gap_ms=5.0, tokens=20, rounds=3))
    state: State = "bad" if found.too_late else "warn" if found.flags else "ok"
    seen = f"TTFT {found.ttft_error_p99_ms:.2f} ms, token gap {found.itl_error_p99_ms:.2f} ms (p99, 4 streams)"
    meaning = f"a client that is late measures itself; above {VOID_TTFT_MS:g} ms a run is void"
    yield Check("client error", state, seen, meaning, "" if state == "ok" else "ps aux --sort=-%cpu | head")
