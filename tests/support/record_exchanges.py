"""Record what a real engine answers on every route its adapter has, byte for byte, as fixtures that CI can hold parsers to.

``python -m tests.support.record_exchanges PARAMS ENGINE OUT`` starts ENGINE (``apr``, ``llama-server``) of a release file
by its own adapter, asks each question once, and leaves in OUT: ``NAME.txt`` for each question, the answer's raw bytes;
``exchanges.jsonl``, a line each with the request, where every ``recv`` ended and when; ``engine.log``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lqw.collect.preflight import corpus_text
from lqw.collect.transport import Target, encode_request, exchange_together
from lqw.engines.base import HttpRequest, Prompt, StartRequest, Where
from lqw.engines.models import resolve_models
from lqw.engines.registry import get_engine
from lqw.engines.starting import start_engine
from lqw.errors import LqwError
from lqw.host.lock import HostLock
from lqw.outcomes import Arm
from lqw.params import load_params
from lqw.samples import Failure

MOST_BYTES = 2 * 2**20
LOG_BYTES = 256 * 2**10
CONTEXT, SLOTS = 4096, 4
PROMPT, PRIMED, EXTENDED, GENERATED = 64, 512, 544, 24  # tokens
CHATS = 4
TOO_LONG_BYTES = 2_500_000  # more than apr takes in a body, and than the slots of llama-server hold
SHOWN_BYTES = 16_384  # of a request's body
TIMEOUT_S = 300.0
TOLD = ("/health", "/v1/models", "/v1/effective-config", "/props", "/slots")


@dataclass(frozen=True)
class Question:
    """What is sent: one request, or several at one moment, and how the answer is to be read (empty: not a stream)."""

    name: str
    requests: tuple[HttpRequest, ...]
    stream_format: str = ""


def questions(running, corpus):
    """Yield every question that the adapter has a route for."""
    words = ((corpus + " ") * (TOO_LONG_BYTES // len(corpus) + 1)).split()

    def prompt(size, start):
        """Return a text of about *size* tokens that begins with the word at *start*, and its first *size* ids.

        An engine that takes text is not asked for ids: apr would have to serve the text for that, and then reuse it.
        """
        text = " ".join(words[start : start + size])
        ids = running.tokenize(text) if running.engine.takes == "ids" else []
        if isinstance(ids, Failure):
            raise SystemExit(f"{ids.reason}: {ids.detail}")
        return Prompt(tuple(ids[:size]), text)

    for at, route in enumerate(running.engine.routes):
        form, base = running.format_of(route), 7 * at

        def ask(text, tokens=GENERATED, *, stream=True, cache=False, kind="decode", route=route):
            return running.request_body(kind, text, tokens, cache=cache, stream=stream, route=route)

        yield Question(f"{route}_stream", (ask(prompt(PROMPT, base)),), form)
        yield Question(f"{route}_one_token", (ask(prompt(PROMPT, base + 1), 1, kind="cold"),), form)
        yield Question(f"{route}_whole", (ask(prompt(PROMPT, base + 2), stream=False),))
        yield Question(f"{route}_prime", (ask(prompt(PRIMED, base + 3), 1, cache=True, kind="cached"),), form)
        yield Question(f"{route}_cached", (ask(prompt(EXTENDED, base + 3), 1, cache=True, kind="cached"),), form)
        several = tuple(ask(prompt(PROMPT, base + 100 + 9 * one), kind="agg") for one in range(CHATS))
        yield Question(f"{route}_together", several, form)
        yield Question(f"{route}_too_long", (ask(prompt(TOO_LONG_BYTES // 5, 0)),))
        path = several[0].path
        yield Question(f"{route}_bad_json", (HttpRequest(path, b'{"prompt": "The quick", '),))
        yield Question(f"{route}_bad_type", (HttpRequest(path, b'{"model":"m","prompt":7,"messages":"no list"}'),))
        body = {**json.loads(several[0].body), "model": "no-such-model"}
        yield Question(f"{route}_wrong_model", (HttpRequest(path, json.dumps(body).encode()),), form)
    for kind in ("identity", "witness"):
        found = running.request_body(kind, prompt(PROMPT, 50), GENERATED, cache=False, stream=False)
        yield Question(kind, (found,))
    yield Question("no_such_route", (HttpRequest("/no/such/route", b"{}"),))
    for path in TOLD:  # an engine that has no such page says so
        yield Question("get" + path.replace("/", "_"), (HttpRequest(path, b""),))


def record(params_file, engine, out, *, host=None):
    """Write the recorded exchanges and return a line about each; SystemExit where the engine does not start."""
    params = load_params(params_file, host=host)
    name = engine.replace("-", "_")
    specs = (params.release.subject, params.release.comparator, *params.release.beside)
    spec = next((one for one in specs if one.engine == name), None)
    if spec is None:
        raise SystemExit(f"{params_file} names no {name}; it names {', '.join(one.engine for one in specs)}")
    adapter = get_engine(name)
    adapter.check(spec, compute=params.host.compute, where=Where(str(params_file), name))
    model = next(iter(resolve_models(params, Path("runs/models").absolute()).values()))
    out.mkdir(parents=True, exist_ok=True)
    lines, told = [], []
    with tempfile.TemporaryDirectory(prefix="lqw-record-") as folder, HostLock(params.host.lock):
        link = Path(folder) / model.name  # engines repeat the path they were given: not this machine's
        link.symlink_to(model)
        request = StartRequest(
            spec=spec, model_path=link, slots=SLOTS, context_tokens_per_slot=CONTEXT, compute=params.host.compute,
            run_id="record", log_path=Path(folder) / "engine.log", timeout_s=TIMEOUT_S, arm=Arm.SUBJECT,
        )  # fmt: skip
        running = start_engine(adapter, request)
        if isinstance(running, Failure):
            raise SystemExit(f"{name}: {running.reason}: {running.detail}\n" + "\n".join(running.log_tail))
        with running:
            target = Target(running.host, running.port)
            for question in questions(running, corpus_text(params)):
                sent = [_encoded(target, one) for one in question.requests]
                for number, got in enumerate(exchange_together(target, sent, timeout_s=TIMEOUT_S)):
                    file = question.name if len(sent) == 1 else f"{question.name}_{number}"
                    lines.append(_line(file, question, question.requests[number], got))
                    (out / f"{file}.txt").write_bytes(b"".join(got.reads))
                    told.append(f"{file}: {sum(map(len, got.reads))} bytes in {len(got.reads)} reads {got.error}")
            facts = running.facts.model_dump(mode="json")
            log = running.log_path.read_bytes()
            failure = running.stop()
    head = {"engine": name, "facts": facts, "log_bytes": len(log), "left": failure and failure.detail}
    (out / "exchanges.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [head, *lines]))
    (out / "engine.log").write_bytes(log if len(log) <= LOG_BYTES else log[: LOG_BYTES // 2] + log[-LOG_BYTES // 2 :])
    size = sum(path.stat().st_size for path in out.iterdir())
    if size > MOST_BYTES:
        raise SystemExit(f"{out}: {size} bytes, at most {MOST_BYTES} are kept in a repository")
    return [*told, f"{out}: {size} bytes in all"]


def _encoded(target, request):
    """Return the bytes to send: a request without a body is a GET."""
    encoded = encode_request(target, request.path, request.body)
    return encoded if request.body else encoded.replace(b"POST", b"GET", 1)


def _line(file, question, request, got):
    """Return what the raw bytes do not tell: the request, where each read ended, and when, ns since it was sent."""
    ends, at, body = [], 0, request.body.decode()
    for stamp, part in zip(got.stamps, got.reads, strict=True):
        at += len(part)
        ends.append([stamp - got.sent_ns, at])
    return {
        "file": f"{file}.txt", "format": question.stream_format, "path": request.path, "body": body if len(body) <= SHOWN_BYTES else f"{len(body)} bytes",
        "reads": ends, "closed_ns": got.closed_ns - got.sent_ns, "error": got.error, "detail": got.detail,
    }  # fmt: skip


def main(words=None):
    """Enter from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("params", type=Path)
    parser.add_argument("engine", help="apr, llama-server: an engine that the release file names")
    parser.add_argument("out", type=Path)
    parser.add_argument("--host", help="which host of the release, where it names several")
    asked = parser.parse_args(words)
    try:
        for line in record(asked.params, asked.engine, asked.out, host=asked.host):
            sys.stdout.write(f"{line}\n")
    except LqwError as err:
        sys.stderr.write(f"{err}\n")
        sys.exit(err.exit_status)


if __name__ == "__main__":
    main()
