"""Mutated receipts by the thousand: bytes turned and cut, values of the tree exchanged for hostile ones, sealed again or not."""

import random
import resource
import signal
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit, IntegrityError
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.form import object_bytes
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

LIMIT_S = 1.0  # of CPU for one receipt
LIMIT_BYTES = 2 * 1024**3  # of address space
SHARE = 500  # mutants of one seed

HOSTILE = (
    None, True, False, 0, 1, -1, 2**31, 2**53 - 1, -(2**53) + 1, 0.1, -0.5, 1e-300, 5e-324, 1e308, 1e15, "", "0", "NaN", "x" * 5_000,
    "\u202egnp.exe", "\x1b[31mPASS\x1b[0m", "<script>alert(1)</script>", "../../etc/passwd", "=1+1", "\x00", "\ud83d\ude00",
    "0" * 64, "PASS", "gate", "adopt", "subject", "comparator", "tiny/decode", "tiny/ttft@16", [], {}, [0], [[]], {"": 0},
    [0] * 2_000, {str(at): at for at in range(300)}, "2026-01-01T00:00:00Z",
)  # fmt: skip
TOKENS = (
    b"null", b"true", b"NaN", b"-Infinity", b"1e400", b"-0", b"1.0", b"9007199254740993", b"[" * 100, b"{", b"}", b'"', b"\\", b"\\u0000",
    b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b",,", b'"digest":"', b'{"a":1,"a":2}', b"1" * 400, b'"' + b"y" * 200 + b'"',
)  # fmt: skip


class Hang(BaseException):
    """A verification that took too long; no Exception, so that nothing in lqw may swallow it."""


class Base:
    """A sound receipt, and its parts in canonical form."""

    def __init__(self, data):
        self.data, self.document = data, loads_strict(data)
        self.parts = {key: self._part(key, self.document[key]) for key in self.document}
        verified = verify_receipt(data)
        self.exit_status, self.judgement = verified.exit_status, verified.judgement

    @staticmethod
    def _part(key, value):
        return canonical_bytes(key) + b":" + canonical_bytes(value)

    def with_members(self, changed, *, sealed):
        """Return the bytes of a receipt some of whose members are others; absent where they are None."""
        parts = {
            **self.parts,
            **{key: None if value is None else self._part(key, value[0]) for key, value in changed.items()},
        }
        parts = {key: part for key, part in parts.items() if part is not None}
        if sealed:
            parts.pop("digest", None)
            parts["digest"] = self._part("digest", sha256_bytes(object_bytes(parts)))
        return object_bytes(parts)


def bases(folder):
    """Return two small receipts against one floor: a PASS and a RED."""
    rows = ("ttft@16", "decode")
    store = adopt_floor(folder, synthetic_params(rows=rows, release="1.0.0", repeats=1))
    params = synthetic_params(rows=rows, release="1.1.0", repeats=1)
    return [Base(gate_receipt(store, params, seed=3, effects=effects)) for effects in ({}, {"ttft@16": 3.0})]


def bytes_mutated(rng, data):
    """Return the bytes with one to three things done to them."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, how = rng.randrange(len(data) + 1), rng.randrange(7)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 64, 4_000)))
        if how == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif how == 2:
            data = data[:at] + rng.choice(TOKENS) + data[end:]
        elif how == 3:
            data = data[:at] + data[end:]
        elif how == 4:
            data = data[:end] + data[at:end] + data[end:]
        elif how == 5:
            data = data[:at] if rng.random() < 0.3 else data[at:] + data[:at]
        else:
            data = data[:at] + rng.randbytes(end - at) + data[end:]
    return data


def _spot(rng, value):
    """Return the keys that lead from a container to something in it, at random depth."""
    path = []
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        path.append(key)
        value = value[key]
        if rng.random() < 0.08:
            break
    return path


def at(value, path):
    for key in path:
        value = value[key]
    return value


def put(value, path, change):
    """Return a copy in which the container at *path*'s end was changed; what is not on the way is shared."""
    if len(path) == 1:
        out = dict(value) if isinstance(value, dict) else list(value)
        change(out, path[0])
        return out
    out = dict(value) if isinstance(value, dict) else list(value)
    out[path[0]] = put(value[path[0]], path[1:], change)
    return out


def edit(rng, document, other):
    """Return (path, change) of one edit of the tree."""
    path = _spot(rng, document)
    old, how = at(document, path), rng.randrange(9)
    if how <= 2:
        new = rng.choice(HOSTILE)
    elif how == 3 and isinstance(old, int | float) and not isinstance(old, bool):
        new = rng.choice((old + 1, old - 1, old * 2, old // 2, -old, old * (1 + rng.gauss(0, 0.2))))
    elif how == 4:
        new = at(document, _spot(rng, document))
    elif how == 5:
        try:
            new = at(other, path)
        except (KeyError, IndexError, TypeError):
            new = None
    elif how == 6:
        return path, lambda holder, key: holder.pop(key)
    elif how == 7 and isinstance(path[-1], int):
        there = rng.random()
        return path, lambda holder, key: holder.insert(int(there * len(holder)), holder[key])
    elif how == 8 and isinstance(path[-1], str):
        name = rng.choice((path[-1] + "x", "", "purpose", "__class__", "\u202e"))
        return path, lambda holder, key: holder.__setitem__(name, holder.pop(key))
    else:
        new = [old] if rng.random() < 0.5 else {"value": old}
    return path, lambda holder, key: holder.__setitem__(key, new)


def tree_mutated(rng, base, other):
    """Return the bytes of a receipt with one to three edits of its tree, three times of four sealed again."""
    document, touched = base.document, set()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path, change = edit(rng, document, other.document)
        document = put(document, path, change)
        touched.add(path[0])
    touched |= document.keys() ^ base.document.keys()
    changed = {key: (document[key],) if key in document else None for key in touched}
    try:
        return base.with_members(changed, sealed=rng.random() < 0.75)
    except IntegrityError:
        return seal(base.document)[:-1]  # an edit that canonical JSON cannot write


def judged(data):
    """Verify within a second of CPU; Hang where it takes longer."""

    def late(_number, _frame):
        raise Hang

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        return verify_receipt(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def wrong(verified, base, data):
    """Return in words what a verification of a mutant may not say; empty where it is right."""
    if any("MemoryError" in str(problem.recorded) for problem in verified.problems):
        return "took more memory than there is"
    if verified.exit_status is Exit.INVALID or data == base.data:
        return ""
    if verified.exit_status is not base.exit_status:
        return f"was {base.exit_status!r}, is {verified.exit_status!r}"
    # The same verdict is right only of the same judgement: then the edit touched what no verdict follows from.
    return "" if verified.judgement == base.judgement else "the same verdict with another judgement"


def fuzzed(found, seed, number):
    """Judge *number* mutants; return how often each exit status came, and raise AssertionError that names the mutant."""
    rng, said = random.Random(seed), Counter()  # noqa: S311 - what to break
    for at in range(number):
        base, other = found if rng.random() < 0.5 else found[::-1]
        data = bytes_mutated(rng, base.data) if rng.random() < 0.5 else tree_mutated(rng, base, other)
        name = f"seed {seed}, mutant {at}"
        try:
            verified = judged(data)
        except (Exception, Hang) as err:
            raise AssertionError(f"{name}: {type(err).__name__}: {err}") from err
        fault = wrong(verified, base, data)
        assert not fault, f"{name}: {fault}"
        said[verified.exit_status.name] += 1
    return said


def _share(task):
    seed, number = task
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        return fuzzed(bases(Path(folder)), seed, number)


def fuzzed_by_many(total, seed=0):
    """Judge *total* mutants on every processor; return the same as :func:`fuzzed`."""
    tasks = [(seed + at, min(SHARE * 10, total - done)) for at, done in enumerate(range(0, total, SHARE * 10))]
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(_share, tasks), Counter())
