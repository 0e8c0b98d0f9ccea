"""``docs/benchmarks/client.md`` from what the parts of :mod:`tests.bench.client` kept."""

from itertools import takewhile

from tests.bench.peers import CLIENTS, PINS
from tests.bench.resume import PARTS
from tests.support.scratch import REPOSITORY

PAGE = REPOSITORY / "docs" / "benchmarks" / "client.md"
HELD_MS = 1.0
HEAD = """# What a client adds to what it measures

Made by `make bench`, the ten minutes of memory by `make bench-memory`; nothing here is a test. Machine: {machine}.
Every client in an environment of its own, made on the first call by `python -m venv runs/bench/peers/NAME` and
`pip install` of {pins}; each is run as its documentation says. The null server (`lqw.testing.pump`) has the last core,
the clients may use all of them; its stamps, taken just before each send, are the truth, with the kernel's stamp of each
request's arrival. Nothing is taken from a client but its own report.
{noise}
"""
ASKED = """
## What was asked, and what was seen

| figure | asked | seen | met |
|---|---|---|---|
"""
SIDE = """
## Side by side: 16 streams × 500 tokens a second, true TTFT 50 ms

160 requests of 256 tokens each. Error: the client's quantile minus the server's; ITL is a request's mean time between
tokens, its error in percent. CPU: time of the client and all that it started over wall time, while streams ran.

| client | TTFT it says p50 / p99, ms | error p50 / p99, ms | ITL error p50 / p99 | of a core |
|---|---|---|---|---|
"""
LADDER = """
## How many tokens a second one core holds

Each client on one core, the null server on another. A rung is held while the median TTFT and the median time of the
last token are both right to {held:g} ms; after two misses in a row a client climbs no further. "server late": how late
the null server itself sent (p99). Where it was late it sent several tokens at once, and stamped them truly.

| client | tokens a second | TTFT error p50 / p99, ms | last token, ms | each token p50 / p99, ms | of a core | server late, ms | held |
|---|---|---|---|---|---|---|---|
"""


def _cpu(seen):
    return "–" if seen["cpu"] is None else f"{100 * seen['cpu']:.0f} %"


def holds(seen):
    """Return whether a client's medians are right to a millisecond: of the first token and of the last one."""
    return max(seen["error_p50"], seen["end_error_p50"]) <= HELD_MS


def _noise(kept):
    """Say how busy others were: what the machine did while no part ran."""
    seen = kept.get("noise", {})
    if not seen:
        return "How busy the machine was with other work was not looked at."
    part, most = max(seen.items(), key=lambda one: one[1])
    calm = sorted(seen.values())[len(seen) // 2]
    return (
        f"Other work on this machine, looked at for 2 s before and after each part: {100 * calm:.0f} % of a core (median of "
        f"{len(seen)} parts), at most {100 * most:.0f} % ({part})."
    )


def _side(kept):
    for name, one in kept["side"].items():
        ttft, error = (
            f"{one['ttft_p50']:.1f} / {one['ttft_p99']:.1f}",
            f"{one['error_p50']:.2f} / {one['error_p99']:.2f}",
        )
        yield f"| {name} | {ttft} | {error} | {one['itl_error_p50']:.2f} / {one['itl_error_p99']:.2f} % | {_cpu(one)} |"


def _ladders(kept):
    return {part.partition(":")[2]: rungs for part, rungs in kept.items() if part.startswith("ladder:")}


def _ladder(kept):
    for name, rungs in _ladders(kept).items():
        for one in rungs:
            each = "–" if one["event_p50"] is None else f"{one['event_p50']:.2f} / {one['event_p99']:.2f}"
            yield (
                f"| {name} | {one['events_s']:,.0f} | {one['error_p50']:.2f} / {one['error_p99']:.2f} "
                f"| {one['end_error_p50']:.2f} | {each} | {_cpu(one)} | {one['late_p99']:.2f} | {'yes' if holds(one) else 'no'} |"
            )


def _highest(kept):
    """Return the most tokens a second that each client held, and that lqw held with 99 of 100 tokens right, a second.

    Of lqw below its first miss; the others are given their best rung, wherever it stands.
    """
    ladders = _ladders(kept)
    best = {name: max((one["events_s"] for one in rungs if holds(one)), default=0) for name, rungs in ladders.items()}
    best["lqw"] = max((one["events_s"] for one in takewhile(holds, ladders["lqw"])), default=0)
    return best, max((one["events_s"] for one in ladders["lqw"] if one["event_p99"] <= HELD_MS), default=0)


def _best(kept):
    best, strict = _highest(kept)
    peer = max((name for name in best if name != "lqw"), key=best.get)
    others = f"best of the others {peer} with {best[peer]:,.0f}" if best[peer] else "none of the others held the lowest"
    return (
        f"Highest rung held: lqw, below its first miss, {best['lqw']:,.0f}; {others}: {_times(kept)[0]}. By a stricter "
        f"measure, 99 of 100 tokens of lqw's stamped right to {HELD_MS:g} ms: {strict:,.0f} a second."
    )


def _times(kept):
    """Say how many times the best of the others lqw held, and whether it is enough; where none held, of the lowest rung."""
    best, _ = _highest(kept)
    peer = max(held for name, held in best.items() if name != "lqw")
    lowest = min(rungs[0]["events_s"] for rungs in _ladders(kept).values())
    return f"{'' if peer else 'more than '}{best['lqw'] / (peer or lowest):.0f} ×", best["lqw"] >= 5 * (peer or lowest)


def _asked(kept):
    """Yield each figure that was asked for: what it is, what was asked, what was seen, whether it is met."""
    side = kept.get("side", {}).get("lqw")
    if side:
        yield (
            "TTFT error at 16 × 500 tok/s, median",
            "≤ 0.5 ms",
            f"{side['error_p50']:.2f} ms",
            side["error_p50"] <= 0.5,
        )
        yield "the same, p99", "≤ 2 ms", f"{side['error_p99']:.2f} ms", side["error_p99"] <= 2
        itl = max(side["itl_error_p50"], side["itl_error_p99"])
        yield "ITL error there", "≤ 0.5 %", f"{itl:.2f} %", itl <= 0.5
        yield "of a core there", "≤ 25 %", _cpu(side), side["cpu"] <= 0.25
    if set(_ladders(kept)) == set(CLIENTS):
        best, _ = _highest(kept)
        yield (
            "tokens a second on one core, medians right to 1 ms",
            "≥ 40,000",
            f"{best['lqw']:,.0f}",
            best["lqw"] >= 40_000,
        )
        yield "the same over the best of the others", "≥ 5 ×", *_times(kept)
    if "memory" in kept:
        grown = kept["memory"]["rss_end"] - kept["memory"]["rss_begin"]
        yield "memory over a stream of ten minutes", "flat", f"{grown / 2**20:+.1f} MiB", abs(grown) < 2**20
    if "lateness" in kept:
        one = kept["lateness"]
        factor = max(one["engine_p50"] / one["null_p50"], one["engine_p99"] / one["null_p99"])
        yield (
            "lateness on llama-server over the error on the null server",
            "within 2 ×",
            f"{factor:.1f} ×",
            0.5 <= factor <= 2,
        )
    if "resume" in kept:
        added = kept["resume"]["added_s"]
        yield "a resume adds", "≤ 2 s", f"{added:.1f} s", added <= 2


def _memory(one):
    mib = 2**20
    return (
        f"One stream of 500 tokens a second for {one['minutes']:g} minutes ({one['reads']:,} reads, "
        f"{one['bytes'] / mib:.0f} MiB): resident memory {one['rss_begin'] / mib:.1f} MiB at its begin, "
        f"{one['rss_middle'] / mib:.1f} in the middle, {one['rss_end'] / mib:.1f} at its end. What it received is on disk "
        f"meanwhile; when the stream is over it is read back, and memory is {one['rss_after'] / mib:.1f} MiB then."
    )


def _lateness(one):
    return (
        f"A real llama-server (CPU, the demo's 270M model, one thread, {one['gap_ms']:.1f} ms a token) tells its own clock "
        f"with each token (`timings_per_token`). Gaps between tokens differ from it by {one['engine_p50']:.3f} / "
        f"{one['engine_p99']:.3f} ms (p50 / p99); on the null server at that rate the client's error is "
        f"{one['null_p50']:.3f} / {one['null_p99']:.3f} ms: factors {one['engine_p50'] / one['null_p50']:.1f} and "
        f"{one['engine_p99'] / one['null_p99']:.1f}. Both are by the kernel's stamps, so no waking of a client's thread is in "
        "them: what differs on llama-server is its own way from its clock to its socket. The check bounds the client's "
        "error from above."
    )


def _resume(one):
    low, high = min(one["added"]), max(one["added"])
    rows = "\n".join(f"| {said} | {one['way'][part]:.2f} |" for part, said in PARTS.items())
    return (
        f"The fake engine's gate in one go: {one['whole_s']:.1f} s. Killed (SIGKILL) when its third start was written "
        f"({one['killed_s']:.1f} s) and resumed at once ({one['resumed_s']:.1f} s). Added: killed + resumed − in one go, "
        f"{one['added_s']:.1f} s, median of {one['times']} ({low:.1f} … {high:.1f}). It is killed between two starts: what a "
        f"kill within a start loses, at most that start, comes to it. Where the time goes, from the command to the first "
        f"start that is measured ({one['way_s']:.1f} s, at most {one['way_most_s']:.1f}):\n\n"
        f"| part | s |\n|---|---|\n{rows}"
    )


def write(kept):
    """Write the page from what was kept."""
    pins = ", ".join(f"`{pin}`" for pin in PINS.values())
    text = HEAD.format(machine=kept["machine"], pins=pins, noise=_noise(kept))
    lines = [f"| {name} | {asked} | {seen} | {'yes' if met else '**no**'} |" for name, asked, seen, met in _asked(kept)]
    text += ASKED + "\n".join(lines) + "\n"
    if "side" in kept:
        text += SIDE + "\n".join(_side(kept)) + "\n"
    if _ladders(kept):
        text += LADDER.format(held=HELD_MS) + "\n".join(_ladder(kept)) + "\n\n" + _best(kept) + "\n"
    parts = (
        ("Memory", "memory", _memory),
        ("Lateness on a real engine", "lateness", _lateness),
        ("Resuming", "resume", _resume),
    )
    for title, part, say in parts:
        if part in kept:
            text += f"\n## {title}\n\n{say(kept[part])}\n"
    PAGE.write_text(text)
