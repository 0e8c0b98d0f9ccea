"""Files beside a receipt as trees of values, and what may be said of a release when one of them says something else."""

import base64
import datetime as dt
import json
import math
import re

import yaml

from lqw.canonical import canonical_bytes, loads_strict
from lqw.correctness import parse_reference, reference_to_json
from lqw.errors import Exit, LqwError
from lqw.ratchet import baseline_to_json, parse_baseline
from lqw.receipt.build import seal
from lqw.receipt.compare import ABSOLUTE, RELATIVE
from tests.support.tamper import pattern

_DAY = re.compile(r"\d{4}-\d\d-\d\d")

# What may say something else while the tag still passes: of each kind of file the leaves, and why. A leaf that is not here
# and has moved beside a PASS is a wrong PASS. ``every_leaf`` goes through each of them, so that a star hides no value there.
FREE = {
    "receipt 1.1.0": {"*"},  # the receipt itself: tests/support/fuzz.py holds its own verdict
    "receipt 1.0.9": {"*"},  # the evidence of a record: its values are the baseline's, which is held; see every_leaf
    "release 1.0.9": {"*"},  # neither this release nor the one before
    "release 1.0.0": {"*"},  # of the release before only the hosts count, and only while it is one
    "signatures": {
        "*"
    },  # lines that do not count are passed over; one that counts must still be there, and needs a key
    "policy": {"(file)", "unsigned_allowed", "unsigned_allowed.*"},  # reasons, and hosts of which nothing is judged
    "signer": {"valid_from", "valid_until", "hosts", "hosts.*"},  # other days and hosts, of which this is still one
    "prompts": {"(file)"},  # a list of hashes for people: SHA256SUMS
}
# Of what a host says of parity, thresholds decide: values may move on this side of them. These may not move at all.
BOUND = {
    "parity m1": {"schema", "cell.model", "cell.file", "shape.batch", "shape.concurrency", "host",
                  "provenance.binary_sha256", "provenance.model_sha256"},
    "parity serving": {"binary_sha256", "host", "model.sha256", "exit", "reference.stable", "bands.*.result"},
}  # fmt: skip


def kind_of(path):
    """Return what a file is, in the words of the table."""
    name = path.rpartition("/")[2]
    if path.startswith("params/"):
        part = path.split("/")[1]
        return {
            "hosts": "host",
            "protocols": "protocol",
            "prompts": "prompts",
            "parity": "parity rules",
            "signers": "signer",
        }.get(
            part,
            {"targets.yaml": "targets", "signing.yaml": "policy"}.get(part, "release " + name.removesuffix(".yaml")),
        )
    if path.startswith("receipts/parity/"):
        return "parity " + name.split(".")[-2]
    if name.endswith(".intoto.jsonl"):
        return "signatures"
    if "/records/" in path or "/batches/" in path:
        return "record" if "/records/" in path else "claim"
    return {"baseline.json": "baseline", "reference.json": "reference"}.get(
        name, "receipt " + name.removesuffix(".json")
    )


def opened(path, data):
    """Return a file as a tree of values; None where it is none."""
    try:
        if path.endswith((".yaml", ".yml")):
            return _plain(yaml.safe_load(data))
        if path.endswith(".jsonl"):
            return [_line(line) for line in data.splitlines() if line.strip()]
        return loads_strict(data) if path.endswith(".json") else data.decode()
    except (LqwError, ValueError, KeyError, TypeError, yaml.YAMLError, RecursionError):
        return None


def _plain(value):
    """Return a tree whose dates are texts."""
    return json.loads(json.dumps(value, default=str))


def _dated(value):
    """Return a tree whose texts that look like dates are dates, as YAML reads them."""
    if isinstance(value, dict):
        return {key: _dated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_dated(item) for item in value]
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) and _DAY.fullmatch(value) else value
    except ValueError:
        return value


def _line(line):
    envelope = json.loads(line)
    return {**envelope, "payload": json.loads(base64.b64decode(envelope["payload"]))}


def closed(path, value, rng=None):
    """Return the bytes of a tree of values; a receipt is sealed anew, three times of four where chance decides."""
    if path.endswith((".yaml", ".yml")):
        return yaml.safe_dump(_dated(value), sort_keys=False, allow_unicode=True).encode()
    if path.endswith(".jsonl"):
        lines = [{**one, "payload": base64.b64encode(canonical_bytes(one["payload"])).decode()} for one in value]
        return b"".join(canonical_bytes(line) + b"\n" for line in lines)
    if isinstance(value, dict) and "digest" in value and (rng is None or rng.random() < 0.75):
        return seal(value)
    return canonical_bytes(value)


def moved(old, new, path=()):
    """Yield the patterns of every leaf in which two trees differ; numbers agree as the verifier's do."""
    if type(old) is type(new) and isinstance(old, dict):
        for key in {**old, **new}:
            if key in old and key in new:
                yield from moved(old[key], new[key], (*path, key))
            else:
                yield pattern((*map(str, path), str(key)))
    elif type(old) is type(new) and isinstance(old, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from moved(one, other, (*path, at))
    elif type(old) is type(new) is float:
        if not math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            yield pattern(path)
    elif repr(old) != repr(new):
        yield pattern(tuple(part if isinstance(part, int) else str(part) for part in path)) or "(file)"


def wrong(base, verdict, path, old, new):
    """Return in words what a PASS may not say; empty where it is right."""
    if verdict.exit_status is not Exit.PASS or old == new:
        return ""
    kind = kind_of(path)
    if verdict.findings or list(moved(_given_up(verdict), _given_up(base))):
        return "another PASS"
    before, after = meaning(path, old), meaning(path, new)
    if kind in BOUND:
        seen = {"(file)"} if after is None else set(moved(before, after)) & BOUND[kind]
    elif "*" in FREE.get(kind, ()):
        seen = set()
    else:
        seen = {"(file)"} if after is None else set(moved(before, after))
        free = FREE.get(kind, set())
        seen = {
            one for one in seen if one not in free and not one.startswith(tuple(f[:-1] for f in free if f[-2:] == ".*"))
        }
    return f"PASS though it says something else: {sorted(seen)}" if seen else ""


def _given_up(verdict):
    return [[one.give_up.total, dict(one.give_up.rows)] if one.give_up else None for one in verdict.hosts]


def meaning(path, data):
    """Return what a file says: fields at their default are said too."""
    try:
        if path.endswith("/baseline.json"):
            return baseline_to_json(parse_baseline(data))
        if path.endswith("/reference.json"):
            return reference_to_json(parse_reference(data))
    except LqwError:
        return None
    return opened(path, data)
