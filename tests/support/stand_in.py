"""A stand-in for ollama and vLLM in tests: their documented HTTP around the fake model's tokenizer, at no speed at all.

Started as ``stand_in.py serve`` it is ollama (``OLLAMA_HOST``, ``OLLAMA_MODELS``), as ``stand_in.py serve MODEL --port P
…`` vLLM. ``STAND_IN`` names a fault.
"""

import http.server
import json
import os
import sys
import time
from pathlib import Path

from lqw.testing.fake_model import detokenize, tokenize

FAULT = os.environ.get("STAND_IN", "")
WORD = " sea"
NEVER = 3600.0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def _say(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, kind, pieces):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(0.002)
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True


class Ollama(Handler):
    """https://docs.ollama.com/api: version, create, generate, ps."""

    def do_GET(self):
        if self.path == "/api/version":
            self._say({"version": "0.17.4"})
        elif self.path == "/api/ps":
            details = {"format": "gguf", "family": "qwen35", "quantization_level": "Q4_K_M"}
            model = {"name": "lqw:latest", "size": 10, "size_vram": 0, "details": details, "context_length": 4096}
            self._say({"models": [model]})

    def do_POST(self):
        body, store = self._body(), Path(os.environ["OLLAMA_MODELS"])
        if self.path == "/api/create":
            self._create(body, store)
        elif "prompt" not in body:
            if FAULT == "unknown_architecture":
                self._say({"error": "unable to load model: unknown model architecture: 'qwen35'"}, 500)
            else:
                self._say({"model": body["model"], "response": "", "done": True, "done_reason": "load"})
        else:
            self._stream("application/x-ndjson", self._lines(body))

    def _create(self, body, store):
        (digest,) = body["files"].values()
        if not (store / "blobs" / digest.replace(":", "-")).is_file():
            self._say({"error": "blob does not exist"}, 400)
            return
        if FAULT == "other_blob":
            digest = "sha256:" + "0" * 64
        manifest = store / "manifests" / "registry.ollama.ai" / "library" / body["model"] / "latest"
        manifest.parent.mkdir(parents=True)
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 1}
        manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
        self._say({"status": "success"})

    def _lines(self, body):
        wanted = body["options"]["num_predict"]
        if FAULT == "stall":
            time.sleep(NEVER)
        for _ in range(wanted):
            yield json.dumps({"model": "lqw", "response": WORD, "done": False}).encode() + b"\n"
        if FAULT == "error_line":
            yield json.dumps({"error": "an error was encountered while running the model"}).encode() + b"\n"
        last = {"model": "lqw", "response": "", "done": True, "done_reason": "length", "total_duration": 9_000_000}
        last |= {"prompt_eval_count": len(body["prompt"]), "prompt_eval_duration": 2_000_000}
        yield json.dumps({**last, "eval_count": wanted, "eval_duration": 6_000_000}).encode() + b"\n"


class Vllm(Handler):
    """https://docs.vllm.ai: health, version, models, completions with token ids, tokenize."""

    def do_GET(self):
        if self.path == "/version":
            self._say({"version": "0.33.0"})
        elif self.path == "/v1/models":
            model = {"id": flag("--served-model-name", "served"), "object": "model"}
            self._say({"object": "list", "data": [{**model, "max_model_len": int(flag("--max-model-len", "4096"))}]})
        else:
            self._say({})

    def do_POST(self):
        body = self._body()
        if FAULT == "unauthorized":
            self._say({"error": "Unauthorized"}, 401)
        elif self.path == "/tokenize":
            ids = tokenize(body["prompt"])
            self._say({"count": len(ids), "max_model_len": 4096, "tokens": ids})
        elif self.path == "/detokenize":
            self._say({"prompt": detokenize(body["tokens"])})
        else:
            self._stream("text/event-stream; charset=utf-8", self._events(body))

    def _events(self, body):
        prompt, wanted = body["prompt"], body["max_tokens"]
        base = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]}
        for at in range(wanted):
            choice = {"index": 0, "text": WORD, "logprobs": None, "token_ids": [7 + at], "stop_reason": None}
            ended = {"finish_reason": "length" if at + 1 == wanted else None}
            yield b"data: " + json.dumps({**base, "choices": [{**choice, **ended}]}).encode() + b"\n\n"
        count = len(prompt)
        usage = {"prompt_tokens": count, "total_tokens": count + wanted, "completion_tokens": wanted}
        yield b"data: " + json.dumps({**base, "choices": [], "usage": usage}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"


def flag(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def main():
    if FAULT == "cannot_load":
        sys.exit("ValueError: GGUF model with architecture qwen35 is not supported yet.")
    if "--port" in sys.argv:
        handler, port = Vllm, int(flag("--port", "0"))
    else:
        handler, port = Ollama, int(os.environ["OLLAMA_HOST"].rpartition(":")[2])
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main()
