"""Control-plane HTTP to one engine: health, settings, tokens, untimed answers. Timed streams never come this way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    import httpx

__all__ = ["Control", "ControlError"]

_SHOWN = 500  # characters of a body that a message quotes


class ControlError(Exception):
    """A control request that gave no usable answer; carries the Failure it amounts to."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.failure = Failure(reason=reason, detail=detail[:4000])


class Control:
    """A client of one server that opens a connection per request and never retries.

    Servers close connections after a stream without saying so before (llama-server from build 11434 says
    ``Connection: close``; others close after 100 answers or 5 s): a kept connection would turn that into a reset.
    Proxies and ``.netrc`` of the environment are ignored: the server is on this machine.
    """

    last_status: int | None = None
    """What the last :meth:`status` was: a server that never becomes ready may have said why (401, 503)."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 30.0) -> None:
        import httpx  # noqa: PLC0415 - 0.1 s, and nothing that is checked before a start asks a server

        self._client = httpx.Client(
            base_url=f"http://{host}:{port}",
            timeout=httpx.Timeout(timeout_s),
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            verify=False,  # noqa: S501 - plain HTTP on the loopback; building a TLS context costs 10 ms a client
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def status(self, path: str, *, timeout_s: float = 2.0) -> int | None:
        """Return the status of a GET, or None where there is no answer (refused, reset, silent)."""
        import httpx  # noqa: PLC0415 - as above

        try:
            self.last_status = self._client.get(path, timeout=timeout_s).status_code
        except httpx.HTTPError:
            self.last_status = None
        return self.last_status

    def get(self, path: str) -> Any:
        """Return the JSON of a GET; ControlError for anything but a 200 with JSON in it."""
        return self._json("GET", path, None, None)

    def text(self, path: str) -> str:
        """Return the text of a GET; ControlError for anything but a 200."""
        return self._send("GET", path, None, None).text

    def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> Any:
        """Return the JSON of a POST; ControlError for anything but a 200 with JSON without an error object."""
        return self._json("POST", path, body, timeout_s)

    def _send(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> httpx.Response:
        import httpx  # noqa: PLC0415 - as above

        timeout = httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            answer = self._client.request(method, path, content=body, headers=headers, timeout=timeout)
        except httpx.TimeoutException as err:
            raise ControlError(Reason.TIMEOUT, f"{method} {path}: no answer in time ({type(err).__name__})") from err
        except httpx.HTTPError as err:
            lost = isinstance(err, (httpx.NetworkError, httpx.RemoteProtocolError))
            reason = Reason.CONNECTION_RESET if lost else Reason.HTTP_ERROR
            raise ControlError(reason, f"{method} {path}: {type(err).__name__}: {err}") from err
        if answer.status_code != httpx.codes.OK:
            raise ControlError(Reason.HTTP_ERROR, f"{method} {path}: {answer.status_code}: {answer.text[:_SHOWN]}")
        return answer

    def _json(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> Any:
        answer = self._send(method, path, body, timeout_s)
        try:
            value = json.loads(answer.content)
        except ValueError as err:
            raise ControlError(Reason.HTTP_ERROR, f"{method} {path}: not JSON: {answer.text[:_SHOWN]}") from err
        if isinstance(value, dict) and "error" in value:
            raise ControlError(Reason.HTTP_ERROR, f"{method} {path}: error in a 200: {str(value['error'])[:_SHOWN]}")
        return value
