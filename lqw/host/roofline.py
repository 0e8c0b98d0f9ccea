"""The host's copy bandwidth and matmul rate, measured: what no engine on it can beat by much.

On a CPU by numpy: copies by one thread a core, a product of float32 matrices by numpy's own BLAS. On a GPU by the
driver's library and cuBLAS, both found at run time (:mod:`lqw.host.cuda`); what is not found is UNAVAILABLE by name.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Rate", "Unavailable", "best", "measure_copy", "measure_matmul"]

Compute = Literal["cpu", "cuda"]
COPY_BYTES = 256 * 2**20  # far beyond any cache of a CPU; a thread's share of it still is
MATMUL_N = 2_048
ROUNDS = 7


class Unavailable(Exception):
    """A host that cannot be measured so; says what is missing."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What was measured, a second, and how."""

    per_s: float
    method: str


def best(work: Callable[[], float], rounds: int = ROUNDS) -> float:
    """Return the shortest of several times, s: a limit is what the machine does undisturbed."""
    return min(work() for _ in range(rounds))


def measure_copy(compute: Compute) -> Rate:
    """Return the bytes read plus written a second while memory is copied.

    Raises
    ------
    Unavailable
        Where nothing here can copy on that device.
    """
    if compute == "cuda":
        from lqw.host.cuda import copy_rate  # noqa: PLC0415 - loads the driver

        return copy_rate()
    import numpy as np  # noqa: PLC0415 - slow to import

    cores = len(os.sched_getaffinity(0))
    share = COPY_BYTES // cores
    pairs = [(np.ones(share, np.uint8), np.empty(share, np.uint8)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:

        def once() -> float:
            began = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))
            return time.perf_counter() - began

        once()  # touches every page
        took = best(once)
    method = f"numpy copyto, {cores} threads, {COPY_BYTES >> 20} MiB read and written, best of {ROUNDS}"
    return Rate(2 * share * cores / took, method)


def measure_matmul(compute: Compute) -> Rate:
    """Return the floating point operations a second of a large product.

    Raises
    ------
    Unavailable
        Where no library for it is found.
    """
    if compute == "cuda":
        from lqw.host.cuda import matmul_rate  # noqa: PLC0415 - loads cuBLAS

        return matmul_rate()
    import numpy as np  # noqa: PLC0415 - slow to import

    rng = np.random.default_rng(1)
    left, right = (rng.random((MATMUL_N, MATMUL_N), np.float32) for _ in range(2))

    def once() -> float:
        began = time.perf_counter()
        np.matmul(left, right)
        return time.perf_counter() - began

    once()
    took = best(once)
    return Rate(2 * MATMUL_N**3 / took, f"numpy matmul, float32, n = {MATMUL_N}, its own threads, best of {ROUNDS}")
