"""A server that speaks llama-server's HTTP at a declared speed and with declared faults.

``python -m lqw.testing.fake_engine -m MODEL --port P -np C -c N --fault stall …``: llama-server's flags and a few of
its own. It is checked against a real llama.cpp: the same events with the same fields.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.engines.embedded_server import parser as llama_flags
from lqw.testing import fake_chat
from lqw.testing.fake_completion import Completion
from lqw.testing.fake_model import Batch, Slots, Speed, detokenize, tokenize
from lqw.testing.faults import Fault

if TYPE_CHECKING:
    import argparse

    from lqw.testing.fake_model import Slot

__all__ = ["FakeServer", "flags"]

_BUILD = "b0-fake"
_UBATCH_PENALTY = 0.45  # a one-token prefill runs at this part of the prefill speed (seen on a 270M model, 2 cores)
_PAD = 256  # llama.cpp pads the context of a slot


def flags() -> argparse.ArgumentParser:
    """Return llama-server's flags and the fake's own."""
    out = llama_flags()
    out.prog = "fake_engine"
    out.add_argument("--fault", type=Fault, default=Fault.NONE)
    out.add_argument("--fault-after", type=int, default=0)
    out.add_argument("--prefill-tok-s", type=float, default=20_000.0)
    out.add_argument("--decode-tok-s", type=float, default=1_000.0)
    out.add_argument("--contention", type=float, default=0.3)
    out.add_argument("--start-sd", type=float, default=0.0)
    out.add_argument("--load-s", type=float, default=0.0)
    out.add_argument("--rss-mib", type=int, default=0)
    return out


class FakeServer(socketserver.ThreadingTCPServer):
    """Slots, speed and fault of one fake engine."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__((args.host, args.port), _Handler)
        self.args = args
        self.slots = Slots(args.parallel)
        prefill = args.prefill_tok_s * (_UBATCH_PENALTY if args.ubatch_size == 1 else 1.0)
        speed = Speed(prefill, args.decode_tok_s, args.contention, args.start_sd).drawn()
        self.batch = Batch(speed, self.slots)
        self.ready_at = time.monotonic() + args.load_s
        self.serial = threading.Lock()
        self.ballast = bytearray(os.urandom(1) * (args.rss_mib * 2**20))
        self._counted = 0
        self._count_lock = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Return whether the pretended load is over."""
        return self.args.fault is not Fault.HANG_BEFORE_READY and time.monotonic() >= self.ready_at

    @property
    def slot_context(self) -> int:
        """Return the tokens a slot holds, padded as llama.cpp pads them."""
        per_slot: int = -(-self.args.ctx_size // self.args.parallel // _PAD) * _PAD
        return per_slot // 2 if self.args.fault is Fault.SMALL_CONTEXT else per_slot

    def fault_now(self) -> Fault:
        """Count a completion and return the fault it is to show."""
        with self._count_lock:
            self._counted += 1
            active = self._counted > self.args.fault_after
        fault: Fault = self.args.fault
        return fault if active else Fault.NONE


class _Handler(socketserver.StreamRequestHandler):
    """One connection: one request, then closed (the real one keeps some open; nobody may rely on it)."""

    disable_nagle_algorithm = True
    server: FakeServer
    _chat = False

    def handle(self) -> None:
        line = self.rfile.readline().decode("latin-1").split()
        length = 0
        while (header := self.rfile.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(line) < 2:  # noqa: PLR2004 - connected and said nothing
            return
        body = self.rfile.read(length)
        try:
            self._route(line[0], line[1], body)
        except (BrokenPipeError, ConnectionResetError):
            return

    def _route(self, method: str, path: str, body: bytes) -> None:
        server = self.server
        if not server.is_ready:
            self._json(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
        elif (method, path) == ("GET", "/health"):
            self._json(200, {"status": "ok"})
        elif (method, path) == ("GET", "/props"):
            self._json(200, self._props())
        elif (method, path) == ("GET", "/slots"):
            self._json(200, [self._slot(slot) for slot in server.slots.all])
        elif (method, path) == ("POST", "/tokenize"):
            asked = json.loads(body)
            self._json(200, {"tokens": tokenize(asked["content"])[0 if asked.get("add_special") else 1 :]})
        elif (method, path) == ("POST", "/detokenize"):
            self._json(200, {"content": detokenize(json.loads(body)["tokens"])})
        elif (method, path) == ("POST", "/apply-template"):
            self._json(200, {"prompt": fake_chat.templated(json.loads(body))})
        elif (method, path) in (("POST", "/completion"), ("POST", fake_chat.PATH)):
            self._chat = path == fake_chat.PATH
            asked = json.loads(body)
            self._completion(fake_chat.as_completion(asked) if self._chat else asked)
        else:
            self._json(404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}})

    def _props(self) -> dict[str, Any]:
        args, count = self.server.args, self.server.args.parallel
        return {
            "default_generation_settings": {"params": {}, "n_ctx": self.server.slot_context},
            "total_slots": min(count - 1, count // 2) if args.fault is Fault.WRONG_SLOTS else count,
            "model_path": "/models/other.gguf" if args.fault is Fault.WRONG_MODEL else args.model,
            "model_ftype": "fake",
            "build_info": _BUILD,
        }

    def _slot(self, slot: Slot) -> dict[str, Any]:
        context = self.server.slot_context
        return {"id": slot.number, "n_ctx": context, "speculative": False, "is_processing": slot.busy}

    def _completion(self, body: dict[str, Any]) -> None:
        fault, context = self.server.fault_now(), self.server.slot_context
        if fault is Fault.HTTP_500:
            self._json(500, {"error": {"code": 500, "message": "a fault, on demand", "type": "server_error"}})
            return
        if len(body["prompt"]) >= context:
            message = f"request ({len(body['prompt'])} tokens) exceeds the available context size ({context} tokens)"
            self._json(400, {"error": {"code": 400, "message": message, "type": "exceed_context_size_error"}})
            return
        slot = self.server.slots.take(list(body["prompt"]), body.get("id_slot"))
        try:
            self._serve(Completion(body, fault, slot, self.server))
        finally:
            self.server.slots.release(slot)

    def _serve(self, work: Completion) -> None:
        if work.fault is Fault.SERIALISE:
            with self.server.serial:
                work.fault = Fault.NONE
                self._serve(work)
        elif work.stream:
            self._stream(work)
        elif work.fault is Fault.ERROR_IN_200:
            self._json(200, {"error": {"code": 500, "message": "a fault, on demand", "type": "server_error"}})
        else:
            for _ in work.generate():
                self._break_in_the_middle(work)
            self._json(200, self._said(work, work.last()))

    def _stream(self, work: Completion) -> None:
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nServer: fake\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        held = []
        for token in work.generate():
            if self._break_in_the_middle(work):
                return
            if work.fault is Fault.BUFFERED:
                held.append(self._said(work, work.event(token)))
            else:
                self._event(self._said(work, work.event(token)))
        for event in held:
            self._event(event)
        if work.fault is not Fault.NO_LAST_EVENT:
            self._event(self._said(work, work.last()))
        self.wfile.write(b"0\r\n\r\n")

    def _said(self, work: Completion, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event in the words of the route that was asked."""
        return fake_chat.as_chat(event, stream=work.stream) if self._chat else event

    def _break_in_the_middle(self, work: Completion) -> bool:
        """Show the faults that come after half the tokens; True ends the stream here."""
        if len(work.tokens) < max(1, work.limit // 2):
            return False
        if work.fault is Fault.DIE_IN_STREAM:
            os.kill(os.getpid(), signal.SIGKILL)
        if work.fault is Fault.STALL:
            time.sleep(3_600)
        if work.fault is Fault.TRUNCATED:
            self.wfile.write(b'7d\r\ndata: {"index":0,"cont')
            return True
        if work.fault is Fault.ERROR_IN_200:
            self._event({"error": {"code": 500, "message": "a fault, on demand", "type": "server_error"}})
            self.wfile.write(b"0\r\n\r\n")
            return True
        return False

    def _event(self, value: dict[str, Any]) -> None:
        data = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        head = (
            f"HTTP/1.1 {status} Status\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {len(data)}"
        )
        self.wfile.write(head.encode() + b"\r\nConnection: close\r\n\r\n" + data)


def main() -> int:
    """Serve until a signal ends the process."""
    args = flags().parse_args()
    if args.fault is Fault.EXIT_AT_ONCE:
        sys.stderr.write("fake_engine: error loading model: a fault, on demand\n")
        return 6
    if args.fault is Fault.GRANDCHILD:
        ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-I", "-S", "-c", ignore], start_new_session=True)
    if args.fault is Fault.NEVER_LISTENS:
        time.sleep(3_600)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if args.fault is Fault.IGNORES_TERM else lambda *_: os._exit(0))
    threads = args.threads if args.threads > 0 else 1
    sys.stderr.write(f"system_info: n_threads = {threads} (n_threads_batch = {threads}) / 1 | fake\n")
    for name, value in (("n_ctx", args.ctx_size), ("n_batch", args.batch_size), ("n_ubatch", args.ubatch_size)):
        sys.stderr.write(f"llama_context: {name:<21} = {value}\n")
    sys.stderr.write(f"model {Path(args.model).name}\n")
    sys.stderr.flush()
    with FakeServer(args) as server:
        server.serve_forever(poll_interval=0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
