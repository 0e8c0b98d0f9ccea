"""Environment and provenance as name/value pairs, and the commands that repeat the run."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from lqw.metrics.digits import percent
from lqw.outcomes import Purpose
from lqw.report import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lqw.report.facts import Facts

__all__ = ["calibration", "commands", "host_facts", "models", "progress", "provenance", "telemetry"]

Pairs = list[tuple[str, str]]


def _keep(pairs: list[tuple[str, Any]]) -> Pairs:
    return [(name, str(said)) for name, said in pairs if said not in (None, "", [], {})]


def host_facts(facts: Facts) -> Pairs:
    """Return the host class: what the epoch key is made of, and what the run had around it."""
    host = facts.host
    if host is None:
        return [("host", facts.host_name)]
    return _keep(
        [
            ("host class", host.name),
            ("processor", f"{host.cpu_model}, {host.cores} cores"),
            ("memory", f"{host.ram_gib} GiB"),
            ("GPU", host.gpu),
            ("GPU memory", f"{host.vram_mib:,} MiB" if host.vram_mib else None),
            ("power limit", f"{host.power_limit_w} W" if host.power_limit_w else None),
            ("driver", host.driver),
            ("CUDA", host.cuda),
            ("kernel", host.kernel),
            ("Python", host.python),
        ]
    )


def models(facts: Facts) -> Pairs:
    """Return each model with the sha256 of the bytes that were served."""
    served = facts.header.get("models")
    return [(str(k), f"sha256 {v}") for k, v in served.items()] if isinstance(served, dict) else []


_CLIENT = {
    "ttft_error_p50_ms": ("TTFT error, median", "ms"),
    "ttft_error_p99_ms": ("TTFT error, p99 (above 5 ms the run is void)", "ms"),
    "itl_error_p50_ms": ("token gap error, median", "ms"),
    "itl_error_p99_ms": ("token gap error, p99", "ms"),
    "cpu_share": ("client’s share of a core (flagged above 80 %)", "share"),
}


def calibration(facts: Facts) -> Pairs:
    """Return the client's own error against a server whose times are known."""
    out: Pairs = []
    for key, said in facts.calibration.items():
        title, unit = _CLIENT.get(key, (key.replace("_", " "), ""))
        if isinstance(said, bool) or not isinstance(said, int | float):
            text = str(said)
        elif isinstance(said, int) and not unit:
            text = f"{said:,}"  # a count has no decimals
        elif unit == "share":
            text = percent(said)
        else:
            text = words.value(float(said), unit).strip()
        out.append((title, text))
    return out


def _readings(said: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a nested reading by their path, a least/median/largest triple by its outer two."""
    for name, value in said.items():
        if name in ("median", "throttled"):
            continue
        here = path if name in ("min", "max") else f"{path} {name}".strip()
        if isinstance(value, dict):
            yield from _readings(value, here)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield here.replace("_", " "), value


def telemetry(facts: Facts) -> Pairs:
    """Return what the machine's sensors said over the run: the range of each reading, and throttling by name."""
    ranges: dict[str, tuple[float, float]] = {}
    throttled: list[str] = []
    watched = 0
    skipped: set[str] = set()
    for start, said in facts.telemetry:
        gpu = said.get("gpu")
        if isinstance(gpu, dict):
            slowed = gpu.get("throttled")
            told = slowed.items() if isinstance(slowed, dict) else ()
            watched += isinstance(slowed, dict)
            throttled += [f"{start}: {name} in {count} samples" for name, count in told]
            skipped |= {str(gpu["skipped"])} if "skipped" in gpu else set()
        for name, value in _readings(said):
            low, high = ranges.get(name, (math.inf, -math.inf))
            ranges[name] = (min(low, value), max(high, value))
    out = [
        (name, words.number(low) if low == high else f"{words.number(low)} … {words.number(high)}")
        for name, (low, high) in ranges.items()
    ]
    out += [("gpu", f"skipped: {', '.join(sorted(skipped))}")] if skipped else []
    none = f"none in {watched} engine starts" if watched else ""
    told_all = "; ".join(throttled[:8]) or none
    return [*out, ("throttling", told_all)] if told_all else out


def _params_name(facts: Facts) -> str:
    if named := facts.info.get("params_file"):
        return named
    files = facts.params.get("files")
    name = str(facts.params.get("path") or "")
    if isinstance(files, dict):
        return next((f"params/{key}" for key in files if key.endswith(f"/{name}")), f"params/{name}")
    return f"params/{name}" if name else "PARAMS"


def commands(facts: Facts) -> Pairs:
    """Return what to type to measure again, and to judge again without measuring."""
    verb = "lqw baseline adopt" if facts.plan.get("purpose") == str(Purpose.ADOPT) else "lqw gate"
    store = facts.info.get("store", "")
    again = f"{verb} {shlex.quote(_params_name(facts))} --host {shlex.quote(facts.host_name)}"
    again += f" --store {shlex.quote(store)}" if store.startswith("runs/") else ""
    if not facts.receipt_name:
        on = [("Go on where it stopped:", f"{again} --resume {shlex.quote(facts.folder)}")] if facts.folder else []
        return [*on, ("Measure it again from the start:", again)]
    receipt = shlex.quote(facts.receipt_name)
    return [
        ("Measure it again, on the same host class:", again),
        ("Judge the same samples again, anywhere, without a GPU:", f"lqw verify {receipt}"),
        ("Read the receipt in a terminal:", f"lqw show {receipt}"),
    ]


def _short(files: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {str(sha)[:12]}" for name, sha in files.items())


def _attempt(facts: Facts) -> str:
    """Say which attempt at this version a receipt is, and how the earlier ones ended: nothing is re-run in silence."""
    earlier = facts.run.get("earlier")
    told = [str(one.get("outcome")) for one in earlier if isinstance(one, dict)] if isinstance(earlier, list) else []
    number = str(facts.run.get("attempt", ""))
    return f"{number}, earlier: {', '.join(told)}" if told else number


def provenance(facts: Facts) -> Pairs:
    """Return what a repeat must be compared with: identities, seed, hashes."""
    files = facts.params.get("files")
    judged = facts.judgement
    return _keep(
        [
            ("run", facts.header.get("run_id")),
            ("lqw", facts.header.get("lqw_version")),
            ("lqw source sha256", facts.header.get("lqw_source_sha256")),
            ("attempt", _attempt(facts)),
            ("seed", facts.plan.get("seed")),
            ("method", judged.method if judged else None),
            ("pairs", ", ".join(f"{m} {n}" for m, n in judged.pairs.items()) if judged else None),
            ("looks", ", ".join(map(str, facts.plan.get("policy", {}).get("looks", [])))),
            ("engine starts", facts.starts_done or None),
            ("time under measurement", words.duration(facts.wall_s) if facts.wall_s else None),
            ("plan sha256", facts.header.get("plan_sha256")),
            ("params files", _short(files) if isinstance(files, dict) else None),
            ("epoch sha256", facts.standing.epoch_sha256),
            ("receipt sha256", facts.receipt_sha256),
        ]
    )


def progress(facts: Facts) -> str:
    """Say how far an incomplete run came, and that what it measured is not lost."""
    if not facts.starts_done:
        return f"{len(facts.planned)} rows were planned; no engine start is on record."
    failed = f", {len(facts.starts_failed)} of them failed" if facts.starts_failed else ""
    return f"{facts.starts_done} engine starts are in the journal{failed}; a resumed run does not measure them again."
