"""llama-server's command line around the wheel ``xllamacpp``: the same flags, the same HTTP, the same code inside.

``python -m lqw.engines.embedded_server -m MODEL --port P -np C -c N …``. A process of its own, because a crash or a
kill of the engine must not be the gate's. It imports nothing but the standard library and the wheel: it is started
afresh for every arm of every pair, and every start is waited for.
"""

import argparse
import os
import signal
import sys
from typing import Any


def parser() -> argparse.ArgumentParser:
    """Return the flags: llama-server's names, those lqw uses; an unknown flag is an error, as it is there."""
    flags = argparse.ArgumentParser(prog="embedded_server", description=__doc__, allow_abbrev=False)
    flags.add_argument("-m", "--model", required=True)
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, required=True)
    flags.add_argument("-np", "--parallel", type=int, default=1)
    flags.add_argument("-c", "--ctx-size", type=int, default=0)
    flags.add_argument("-b", "--batch-size", type=int, default=2048)
    flags.add_argument("-ub", "--ubatch-size", type=int, default=512)
    flags.add_argument("-t", "--threads", type=int, default=-1)
    flags.add_argument("-tb", "--threads-batch", type=int, default=-1)
    flags.add_argument("-ngl", "--gpu-layers", type=int, choices=[0], default=0)
    flags.add_argument("-fa", "--flash-attn", choices=["on", "off", "auto"], default="auto")
    flags.add_argument("-ctk", "--cache-type-k", default="f16")
    flags.add_argument("-ctv", "--cache-type-v", default="f16")
    flags.add_argument("-ctxcp", "--ctx-checkpoints", type=int, default=32)
    flags.add_argument("--poll", type=int, default=50)
    flags.add_argument("--mmap", action=argparse.BooleanOptionalAction, default=True)
    flags.add_argument("--fit", choices=["off"], default="off")
    flags.add_argument("--cache-ram", type=int, default=8192)
    flags.add_argument("--metrics", action="store_true")
    flags.add_argument("--slots", action=argparse.BooleanOptionalAction, default=True)
    flags.add_argument("--webui", action=argparse.BooleanOptionalAction, default=False)
    flags.add_argument("--offline", action="store_true")
    flags.add_argument("--spec-type", choices=["none"], default="none")
    flags.add_argument("-lv", "--verbosity", type=int, default=3)
    return flags


def settings(args: argparse.Namespace, x: Any) -> Any:
    """Return the wheel's parameters for parsed flags (*x* is the module ``xllamacpp``)."""
    out = x.CommonParams()
    out.model.path = args.model
    out.hostnames, out.port = [args.host], args.port
    out.n_parallel, out.n_ctx = args.parallel, args.ctx_size
    out.n_batch, out.n_ubatch = args.batch_size, args.ubatch_size
    out.n_gpu_layers, out.fit_params = 0, False
    out.flash_attn_type = getattr(x.llama_flash_attn_type, _FLASH[args.flash_attn])
    out.cache_type_k = getattr(x.ggml_type, f"GGML_TYPE_{args.cache_type_k.upper()}")
    out.cache_type_v = getattr(x.ggml_type, f"GGML_TYPE_{args.cache_type_v.upper()}")
    out.n_ctx_checkpoints, out.cache_ram_mib = args.ctx_checkpoints, args.cache_ram
    out.load_mode = getattr(x.llama_load_mode, "LLAMA_LOAD_MODE_MMAP" if args.mmap else "LLAMA_LOAD_MODE_NONE")
    out.endpoint_metrics, out.endpoint_slots, out.ui = args.metrics, args.slots, args.webui
    out.offline, out.verbosity = args.offline, args.verbosity
    batch_threads = args.threads if args.threads_batch < 0 else args.threads_batch
    for cpu, threads in ((out.cpuparams, args.threads), (out.cpuparams_batch, batch_threads)):
        if threads > 0:
            cpu.n_threads = threads
        cpu.poll = args.poll
    return out


_FLASH = {
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
}


def main() -> int:
    """Serve until a signal ends the process."""
    args = parser().parse_args()
    if args.batch_size <= 1:
        sys.stderr.write("error: -b 1 crashes this build; for a one-token prefill use -ub 1\n")
        return 1
    if not os.access(args.model, os.R_OK):
        sys.stderr.write(f"error: cannot read model {os.path.basename(args.model)}\n")  # noqa: PTH119 - pathlib costs 10 ms
        return 1
    # Blocked before the wheel starts its threads, which inherit the mask: sigwait below is then the only receiver.
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    import xllamacpp  # noqa: PLC0415 - a wrong flag is answered without loading 100 MB

    server = xllamacpp.Server(settings(args, xllamacpp))
    sys.stderr.write(f"embedded_server: {server.listening_address}\n")
    sys.stderr.flush()
    signal.sigwait(stops)
    # No destructors: they may wait for requests in flight, and the kernel frees it all.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
