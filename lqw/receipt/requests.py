"""The requests of every start against the protocol: which were due, and what a sample without a failure must hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lqw.receipt.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.params import LaunchSpec, Params, StepSpec
    from lqw.samples import RequestSample, StartRecord

__all__ = ["request_problems"]

REUSE_SLACK = 8  # tokens of a primed prefix that may be evaluated again (MEASUREMENT, "TTFT cached")
_Key = tuple[str, str, int, int]  # step, role, repeat, stream


def request_problems(params: Params, starts: Sequence[StartRecord]) -> Iterator[Problem]:
    """Yield every request that is missing, extra or other than planned.

    A start that failed, or one of whose requests failed, may have stopped early: its requests may be missing, but
    none may be extra.
    """
    launches = params.protocol.launches
    prompts: dict[tuple[str, int, int, _Key], tuple[str, str]] = {}
    for at, start in enumerate(starts):
        where = f"starts.{at}"
        if start.launch >= len(launches):
            yield Problem(f"{where}.launch", start.launch, f"below {len(launches)}")
            continue
        yield from _complete(where, start, launches[start.launch])
        steps = {step.step_id: step for step in launches[start.launch].steps}
        for number, request in enumerate(start.requests):
            field = f"{where}.requests.{number}"
            step = steps.get(request.step)
            if step is not None:
                yield from _request(field, request, step)
            key = (start.model, start.pair, start.launch, _key(request))
            other, sha256 = prompts.setdefault(key, (field, request.prompt_sha256))
            if sha256 != request.prompt_sha256:
                yield Problem(f"{field}.prompt_sha256", request.prompt_sha256, f"{sha256} (as {other})")


def _key(request: RequestSample) -> _Key:
    return (request.step, request.role, request.repeat, request.stream)


def _due(step: StepSpec) -> Iterator[_Key]:
    """Yield what a step must hold; how often a cached step primes is the collector's recipe, see :func:`_complete`."""
    for stream in range(step.streams):
        yield from ((step.step_id, "warmup", repeat, stream) for repeat in range(step.warmups))
        yield from ((step.step_id, "timed", repeat, stream) for repeat in range(step.repeats))


def _complete(where: str, start: StartRecord, launch: LaunchSpec) -> Iterator[Problem]:
    due = {key for step in launch.steps for key in _due(step)}
    primed = {step.step_id for step in launch.steps if step.kind == "cached"}
    got = Counter(_key(request) for request in start.requests)
    for key, count in got.items():
        if count > 1:
            yield Problem(f"{where}.requests", f"{_name(key)} stands {count} times", "once")
        elif key not in due and not (key[1] == "prime" and key[0] in primed):
            yield Problem(f"{where}.requests", f"{_name(key)} was measured", "it was not planned")
    if start.failure is not None or any(request.failure for request in start.requests):
        return
    for key in sorted(due - got.keys()):
        yield Problem(f"{where}.requests", f"{_name(key)} is not there", "it was planned")
    for step in sorted(primed - {key[0] for key in got if key[1] == "prime"}):
        yield Problem(f"{where}.requests", f"{step} was never primed", "a cached step primes first")


def _name(key: _Key) -> str:
    return f"{key[0]} {key[1]} {key[2]}, stream {key[3]}"


def _request(field: str, request: RequestSample, step: StepSpec) -> Iterator[Problem]:
    """Yield what contradicts the plan, or, where the sample claims no failure, itself."""
    extension = step.kind == "cached" and request.role != "prime"
    wanted = step.prompt_tokens + (step.suffix_tokens if extension else 0)
    if request.prompt_tokens != wanted:
        yield Problem(f"{field}.prompt_tokens", request.prompt_tokens, wanted)
    if request.want_tokens != (1 if request.role == "prime" else step.output_tokens):
        yield Problem(f"{field}.want_tokens", request.want_tokens, step.output_tokens)
    if request.failure is not None:
        return
    checks: list[tuple[str, Any, Any]] = [
        ("ttft_ns", request.ttft_ns is not None, True),
        ("gaps_ns", len(request.gaps_ns), len(request.chunk_tokens) - 1),
        ("chunk_tokens", sum(request.chunk_tokens), request.want_tokens),
        ("status", request.status, 200),
        ("gaps_ns", min(request.gaps_ns, default=0) >= 0 and min(request.chunk_tokens, default=1) > 0, True),
    ]
    last = request.sent_ns + (request.ttft_ns or 0) + sum(request.gaps_ns)
    checks.append(("end_ns", request.end_ns is not None and request.end_ns >= last, True))
    checks.append(("sent_ns", request.sent_ns >= request.due_ns, True))
    timings = request.timings
    if timings is not None:
        if timings.predicted_n is not None:
            checks.append(("timings.predicted_n", timings.predicted_n, request.want_tokens))
        reused = timings.cache_n or 0
        if extension:
            checks.append(("timings.cache_n", reused >= step.prompt_tokens - REUSE_SLACK, True))
        elif step.kind != "cached":
            checks.append(("timings.cache_n", reused, 0))
    for name, recorded, must in checks:
        if recorded != must:
            yield Problem(f"{field}.{name}", recorded, must)
