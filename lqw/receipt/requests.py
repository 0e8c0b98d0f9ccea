"""The requests of every start against the protocol: which were due, and what a sample without a failure must hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from lqw.noise.lengthen import lengthened
from lqw.plan import StartKey
from lqw.receipt.problems import Problem
from lqw.samples import StartRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lqw.params import Params, StepSpec
    from lqw.samples import BatchStart, RequestSample

__all__ = ["request_problems"]

REUSE_SLACK = 8  # tokens of a primed prefix that may be evaluated again (MEASUREMENT, "TTFT cached")
OK = 200
_Wrong = tuple[str, Any, Any]  # field, what is there, what must be
_Key = tuple[str, str, int, int]  # step, role, repeat, stream


def request_problems(
    params: Params, starts: Sequence[StartRecord | BatchStart], *, name: str = "starts"
) -> Iterator[Problem]:
    """Yield every request of *starts* (the receipt's member *name*) that is missing, extra or other than planned.

    A start that failed, or one of whose requests failed, may have stopped early: its requests may be missing, but
    none may be extra.
    """
    launches = params.protocol.launches
    pairs = [start for start in starts if isinstance(start, StartRecord)]
    prompts_of: dict[tuple[str, int, int], dict[_Key, tuple[str, int, str]]] = defaultdict(dict)
    asked: dict[tuple[int, tuple[tuple[str, int], ...]], dict[str, StepSpec]] = {}  # one for all starts alike
    for at, start in enumerate(starts):
        where = f"{name}.{at}"
        if start.launch >= len(launches):
            yield Problem(f"{where}.launch", start.launch, f"below {len(launches)}")
            continue
        must: dict[str, int] = {}
        if isinstance(start, StartRecord):
            must = lengthened(params.protocol, pairs, StartKey(start.model, start.pair, start.arm, start.launch))
            if start.repeats != must:
                yield Problem(f"{where}.repeats", start.repeats, f"{must}, from the pairs before")
        alike = (start.launch, tuple(must.items()))
        if alike not in asked:
            asked[alike] = {step.step_id: step for step in launches[start.launch].repeated(must).steps}
        steps = asked[alike]
        keys = [_key(request) for request in start.requests]
        yield from _complete(where, start, keys, steps)
        yield from _routes(where, start, steps)
        prompts = prompts_of[start.model, start.pair, start.launch]
        for number, (request, key) in enumerate(zip(start.requests, keys, strict=True)):
            step = steps.get(request.step)
            if step is not None:
                for field, recorded, wanted in _wrong(request, step):
                    yield Problem(f"{where}.requests.{number}.{field}", recorded, wanted)
            first, other, sha256 = prompts.setdefault(key, (where, number, request.prompt_sha256))
            if sha256 != request.prompt_sha256:
                field = f"{where}.requests.{number}.prompt_sha256"
                yield Problem(field, request.prompt_sha256, f"{sha256} (as {first}.requests.{other})")


def _key(request: RequestSample) -> _Key:
    return (request.step, request.role, request.repeat, request.stream)


def _due(step: StepSpec) -> Iterator[_Key]:
    """Yield what a step must hold; how often a cached step primes is the collector's recipe, see :func:`_complete`."""
    for stream in range(step.streams):
        yield from ((step.step_id, "warmup", repeat, stream) for repeat in range(step.warmups))
        yield from ((step.step_id, "timed", repeat, stream) for repeat in range(step.repeats))


def _planned(key: _Key, steps: Mapping[str, StepSpec]) -> bool:
    name, role, repeat, stream = key
    step = steps.get(name)
    if step is None or stream >= step.streams:
        return False
    if role == "prime":
        return step.kind == "cached"
    return repeat < (step.warmups if role == "warmup" else step.repeats)


def _complete(
    where: str, start: StartRecord | BatchStart, keys: Sequence[_Key], steps: Mapping[str, StepSpec]
) -> Iterator[Problem]:
    got = set(keys)
    sound = len(got) == len(keys) and all(_planned(key, steps) for key in keys)
    if not sound:
        for key, count in Counter(keys).items():
            if count > 1:
                yield Problem(f"{where}.requests", f"{_name(key)} stands {count} times", "once")
            elif not _planned(key, steps):
                yield Problem(f"{where}.requests", f"{_name(key)} was measured", "it was not planned")
    if start.failure is not None or any(request.failure for request in start.requests):
        return
    primed = {key[0] for key in keys if key[1] == "prime"}
    due = sum(step.streams * (step.warmups + step.repeats) for step in steps.values())
    if not sound or sum(key[1] != "prime" for key in keys) != due:  # else all that stands was due, and nothing twice
        for step in steps.values():
            # Lazily and only the first: a plan may ask for far more than a document holds.
            missing = next((key for key in _due(step) if key not in got), None)
            if missing is not None:
                yield Problem(f"{where}.requests", f"{_name(missing)} is not there", "it was planned")
    for name in sorted(name for name, step in steps.items() if step.kind == "cached" and name not in primed):
        yield Problem(f"{where}.requests", f"{name} was never primed", "a cached step primes first")


def _routes(where: str, start: StartRecord | BatchStart, steps: Mapping[str, StepSpec]) -> Iterator[Problem]:
    """Yield steps asked by another route than declared, or left by the GPU without the start having failed for it.

    Receipts from before there were routes hold no facts of steps; a step by chat must have its own.
    """
    seen = Counter(facts.step for facts in start.steps)
    for at, facts in enumerate(start.steps):
        field, step = f"{where}.steps.{at}", steps.get(facts.step)
        if step is None or seen[facts.step] > 1:
            yield Problem(f"{field}.step", facts.step, "a planned step, once")
            continue
        if ("/chat/" in facts.path) != (step.route == "chat"):
            yield Problem(f"{field}.path", facts.path, f"a route of {step.route}, as declared")
        if facts.used_gpu is False and start.failure is None:
            yield Problem(f"{field}.used_gpu", facts.used_gpu, "true: the start claims no failure")
    asked = {request.step for request in start.requests}
    if start.failure is None:
        for name, step in steps.items():
            if step.route == "chat" and name in asked and name not in seen:
                yield Problem(f"{where}.steps", f"{name} is not there", "its route, which is declared as chat")


def _name(key: _Key) -> str:
    return f"{key[0]} {key[1]} {key[2]}, stream {key[3]}"


def _wrong(request: RequestSample, step: StepSpec) -> list[_Wrong]:
    """Return what contradicts the plan, or, where the sample claims no failure, itself."""
    out: list[_Wrong] = []
    extension = step.kind == "cached" and request.role != "prime"
    wanted = step.prompt_tokens + (step.suffix_tokens if extension else 0)
    if request.prompt_tokens != wanted:
        out.append(("prompt_tokens", request.prompt_tokens, wanted))
    if request.want_tokens != (1 if request.role == "prime" else step.output_tokens):
        out.append(("want_tokens", request.want_tokens, step.output_tokens))
    if request.failure is None:
        _stamps(request, out)
        _counts(request, step, out, extension=extension)
    return out


def _stamps(request: RequestSample, out: list[_Wrong]) -> None:
    """Check the time: a first token came, gaps do not run backwards, the end is not before the last token."""
    ttft, gaps, end = request.ttft_ns, request.gaps_ns, request.end_ns
    if ttft is None:
        out.append(("ttft_ns", None, "a first token: the request claims no failure"))
        return
    last = request.sent_ns + ttft + sum(gaps)
    if ttft <= 0:
        out.append(("ttft_ns", ttft, "above 0"))
    if gaps and min(gaps) < 0:
        out.append(("gaps_ns", min(gaps), "at least 0"))
    if end is None or end < last:
        out.append(("end_ns", end, f"at least {last}, when the last token came"))


def _counts(request: RequestSample, step: StepSpec, out: list[_Wrong], *, extension: bool) -> None:
    """Check the counts: tokens by chunks and by the server's timings, reuse, status."""
    tokens, timings = request.chunk_tokens, request.timings
    chunks, total = len(tokens), sum(tokens)
    if len(request.gaps_ns) != chunks - 1:
        out.append(("gaps_ns", f"{len(request.gaps_ns)} gaps", f"{chunks - 1} of {chunks} chunks"))
    # Chunks may tell of fewer tokens than came: text waits for a whole character. Never of more.
    if total > request.want_tokens:
        out.append(("chunk_tokens", f"{total} tokens", f"at most {request.want_tokens}"))
    if tokens and min(tokens) <= 0:
        out.append(("chunk_tokens", min(tokens), "above 0"))
    if request.status != OK:
        out.append(("status", request.status, OK))
    told = None if timings is None else timings.predicted_n
    if told is not None and told != request.want_tokens:
        out.append(("timings.predicted_n", told, request.want_tokens))
    reused, least = (0 if timings is None else timings.cache_n or 0), step.prompt_tokens - REUSE_SLACK
    if extension:
        if reused < least:
            out.append(("timings.cache_n", reused, f"at least {least}: the row is a cached one"))
    elif step.kind != "cached" and reused != 0:
        out.append(("timings.cache_n", reused, "0: nothing may be reused"))
