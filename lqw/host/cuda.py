"""Copy bandwidth and matmul rate of an NVIDIA GPU through ctypes: the driver's library and, for products, cuBLAS.

No framework is needed. cuBLAS is what the engines themselves link to; it is looked for by the loader's rules, in the
toolkit's folders and among the installed wheels of NVIDIA.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.host.roofline import ROUNDS, Rate, Unavailable, best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["copy_rate", "matmul_rate"]

COPY_BYTES = 2**30
MATMUL_N = 8_192
TIMES = 10  # in one measurement, so that starting a kernel does not count
CUDA_R_16F, CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT, CUBLAS_OP_N = 2, 68, -1, 0
VERSIONS = ("13", "12", "11")


def _must(code: int, what: str) -> None:
    if code:
        raise Unavailable(f"{what} gave error {code}")


class _Driver:
    """The driver's library, with the first visible device's context current."""

    def __init__(self) -> None:
        try:
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as err:
            raise Unavailable(f"no driver: {err}") from err
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        """Call a function of the driver; what is not success is Unavailable by name and number."""
        _must(getattr(self._cuda, name)(*args), name)

    @contextmanager
    def memory(self, *sizes: int) -> Iterator[list[ctypes.c_uint64]]:
        """Yield blocks of device memory of *sizes* bytes, and free them."""
        blocks: list[ctypes.c_uint64] = []
        try:
            for size in sizes:
                block = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
                blocks.append(block)
            yield blocks
        finally:
            for block in blocks:
                self.call("cuMemFree_v2", block)

    def seconds(self, work: Callable[[], None]) -> float:
        """Return the device's own time of *work*, queued on the default stream, s."""
        begin, end, took = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (begin, end):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", begin, None)
        work()
        self.call("cuEventRecord", end, None)
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(took), begin, end)
        for event in (begin, end):
            self.call("cuEventDestroy_v2", event)
        return took.value / 1e3


def copy_rate() -> Rate:
    """Return bytes read plus written a second by copies inside the device's memory."""
    driver = _Driver()
    with driver.memory(COPY_BYTES, COPY_BYTES) as (source, target):

        def work() -> None:
            for _ in range(TIMES):
                driver.call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(COPY_BYTES), None)

        driver.seconds(work)
        took = best(lambda: driver.seconds(work))
    method = f"cuMemcpyDtoD of {COPY_BYTES >> 20} MiB, read and written, {TIMES} in a row, best of {ROUNDS}"
    return Rate(2 * COPY_BYTES * TIMES / took, method)


def _places(name: str) -> Iterator[str]:
    """Yield what may be loaded as a library of NVIDIA's: by the loader's rules, the toolkit's, the wheels'."""
    files = [*(f"lib{name}.so.{version}" for version in VERSIONS), f"lib{name}.so"]
    yield from files
    toolkits = (os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH"))
    folders = chain(
        (Path(one) / "lib64" for one in toolkits if one),
        sorted(Path("/usr/local").glob("cuda*/lib64"), reverse=True),
        (folder for entry in sys.path for folder in sorted(Path(entry or ".").glob("nvidia/*/lib"))),
    )
    for folder in folders:
        yield from (str(folder / file) for file in files if (folder / file).is_file())


def _library(name: str) -> tuple[Any, str]:
    for place in _places(name):
        try:
            return ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL), Path(place).name
        except OSError:
            continue
    raise Unavailable(f"lib{name} is not found; set CUDA_HOME to the toolkit's folder")


def matmul_rate() -> Rate:
    """Return floating point operations a second of float16 products summed in float32."""
    import numpy as np  # noqa: PLC0415 - slow to import

    driver = _Driver()
    _library("cublasLt")  # cuBLAS needs it and would not find it outside the loader's folders
    blas, name = _library("cublas")
    handle, one, zero = ctypes.c_void_p(), ctypes.c_float(1.0), ctypes.c_float(0.0)
    _must(blas.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    side = MATMUL_N
    # Real numbers, not zeros: a product of zeros draws less power, so its clock is one that no model ever sees.
    values = np.random.default_rng(1).standard_normal((side, side), np.float32).astype(np.float16)
    try:
        with driver.memory(*[values.nbytes] * 3) as (left, right, out):
            for block in (left, right):
                driver.call(
                    "cuMemcpyHtoD_v2", block, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes)
                )

            def work() -> None:
                for _ in range(TIMES):
                    code = blas.cublasGemmEx(
                        handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, ctypes.byref(one),
                        left, CUDA_R_16F, side, right, CUDA_R_16F, side, ctypes.byref(zero),
                        out, CUDA_R_16F, side, CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT,
                    )  # fmt: skip
                    _must(code, "cublasGemmEx")

            driver.seconds(work)
            took = best(lambda: driver.seconds(work))
    finally:
        blas.cublasDestroy_v2(handle)
    method = f"cublasGemmEx ({name}), float16 summed in float32, n = {side}, {TIMES} in a row, best of {ROUNDS}"
    return Rate(2 * side**3 * TIMES / took, method)
