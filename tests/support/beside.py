"""The files beside a release's receipt, broken: each is exchanged within git's objects, as if it had never been otherwise.

``python -m tests.support.beside`` writes docs/receipt/tamper-beside.md.
"""

import json
import random
import signal
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import yaml

from lqw.errors import Exit, LqwError
from lqw.receipt import verify_receipt
from lqw.receipt.signing import sign_file
from lqw.release import judged as judging
from lqw.release.git import Repository
from lqw.release.objects import Object
from lqw.release.tag import verify_tag
from tests.red.test_release_tag import rebased
from tests.support import fuzz
from tests.support.beside_files import closed, kind_of, opened, wrong
from tests.support.scratch import Scratch
from tests.support.signing import Person, allowed, files_of
from tests.support.tamper import HOW, changed, leaves, pattern

TABLE = Path(__file__).parents[2] / "docs" / "receipt" / "tamper-beside.md"
DAY = "2026-03-01"
SIGNED = "2026-02-01T00:00:00Z"
SHARE = 2_000  # mutants of one process
LIMIT_S = 2.0  # of CPU for one verdict


class _Asked:
    """Reads each object once for all."""

    def __init__(self, objects, known):
        self._objects, self._known = objects, known

    def read(self, name):
        """Return the object, or None."""
        if name not in self._known:
            self._known[name] = self._objects.read(name)
        return self._known[name]


class Swapped(Repository):
    """A repository in which some files hold something else; git is asked once for what does not change."""

    def __init__(self, folder, known, swaps):
        self._known, self._swaps = known, swaps
        super().__init__(folder)
        self._objects = _Asked(self._objects, known)

    def _start(self, arguments, data=None):
        key = (tuple(arguments), data)
        if key not in self._known:
            self._known[key] = super()._start(arguments, data)
        return self._known[key]

    def _object(self, name, kind):
        if kind == "blob" and name in self._swaps:
            return Object(name, kind, self._swaps[name])
        return super()._object(name, kind)


_recorded = lru_cache(maxsize=16)(judging._recorded)
_alone = lru_cache(maxsize=16)(verify_receipt)
_FOUND = {}


def _remembered(*, found):
    """Return a verifier that remembers; what a batch rests on it finds in the store, which must be what it was."""

    def verified(data, *, find):
        if b'"batch":{' not in data:
            return _alone(data)
        if not found:
            return verify_receipt(data, find=find)
        if data not in _FOUND:
            _FOUND[data] = verify_receipt(data, find=find)
        return _FOUND[data]

    return verified


class Scene:
    """A release that passes, every file beside its receipt, and verdicts on what becomes of it."""

    def __init__(self, scratch, tag, speaker):
        self.folder, self.tag, self.known = scratch.root, tag, {}
        repository = Repository(scratch.root)
        head = repository.tree(repository.commit("HEAD"))
        listed = {**head.files("receipts"), **head.files("params")}
        older = {one.new: one.path for one in repository.changes(["HEAD"], ["receipts/lambda"]) if one.status != "D"}
        files = {**older, **{entry.blob: path for path, entry in listed.items()}}
        self.files, self.speaker = files, speaker
        self.data = dict(zip(self.files, repository.blobs(list(self.files)), strict=True))
        self.base = self.judge({})
        assert (self.base.exit_status, self.base.findings) == (Exit.PASS, ()), self.base.findings

    def judge(self, swaps):
        """Return the verdict with some blobs exchanged; a receipt that stands by itself is judged once for all."""
        before = judging.verify_receipt, judging._recorded
        untouched = not any("/lambda/1." in self.files[blob] for blob in swaps)
        judging.verify_receipt, judging._recorded = _remembered(found=untouched), _recorded
        try:
            return verify_tag(Swapped(self.folder, self.known, swaps), self.tag, day=DAY)
        finally:
            judging.verify_receipt, judging._recorded = before


def scenes(folder):
    """Return two releases that pass: one whose floor a signed record lowered, one whose gain a third arm confirmed."""
    scratch = Scratch(folder / "signed").begin()
    ada, grace = Person("Ada", hosts=["lambda"]), Person("Grace", "approver", hosts=["lambda"])
    who = allowed(ada, grace)
    for name, data in files_of(ada, grace).items():
        scratch.write(f"params/{name}", data)
    scratch.adopt()
    record = rebased(scratch, "2026-05-01")
    for path in ("1.0.0.json", "1.0.9.json", "1.1.0.json"):
        sign_file(scratch.root / "receipts/lambda" / path, ada.key, who, signed_utc=SIGNED)
    for person in (ada, grace):
        sign_file(record, person.key, who, signed_utc=SIGNED)
    scratch.commit("signed")
    batch = Scratch(folder / "batch").begin().adopt()
    batch.release("1.1.0")
    gain = {"ttft@512": 0.4}
    batch.measure("1.1.0", effects=gain, third={"effects": gain, "earlier_binary": "1.0.0"}, run_id="first")
    binary = yaml.safe_load((batch.root / "params/1.1.0.yaml").read_text())["subject"]["sha256"]
    batch.write(f"receipts/lambda/batches/{binary}.json", json.dumps({"run_id": "first", "binary_sha256": binary}))
    batch.commit("receipt of 1.1.0, and its claim")
    return [Scene(one, "v1.1.0", "receipts/lambda/1.1.0.json") for one in (scratch, batch)]


def mutated(rng, path, data, other):
    """Return other content for a file: bytes turned, or its tree edited one to three times."""
    value = opened(path, data)
    if rng.random() < 0.35 or not isinstance(value, dict | list) or not value:
        return fuzz.bytes_mutated(rng, data)
    try:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            where, change = fuzz.edit(rng, value, other)
            value = fuzz.put(value, where, change)
        return closed(path, value, rng)
    except (LqwError, ValueError, TypeError, KeyError, IndexError, AttributeError, yaml.YAMLError):
        return fuzz.bytes_mutated(rng, data)  # an edit that such a file cannot hold


def judged(scene, swaps):
    """Judge within seconds of CPU; an error of lqw's own is a verdict too, and never PASS."""

    def late(_number, _frame):
        raise fuzz.Hang

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        return scene.judge(swaps)
    except LqwError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fuzzed(found, seed, number):
    """Judge *number* mutants; return how often each exit status came; AssertionError names the mutant."""
    rng, said, faults = random.Random(seed), Counter(), []  # noqa: S311 - what to break
    for at in range(number):
        scene = rng.choice(found)
        blob = rng.choice(list(scene.files))
        path, data = scene.files[blob], scene.data[blob]
        beside = rng.choice(list(scene.files))
        other = opened(scene.files[beside], scene.data[beside])
        new = mutated(rng, path, data, other)
        try:
            verdict = judged(scene, {blob: new})
        except (Exception, fuzz.Hang) as err:
            raise AssertionError(f"seed {seed}, mutant {at} of {path}: {type(err).__name__}: {err}") from err
        fault = "" if verdict is None else wrong(scene.base, verdict, path, data, new)
        if fault:
            faults.append(f"seed {seed}, mutant {at} of {path} ({kind_of(path)}): {fault}")
        said["refused" if verdict is None else verdict.exit_status.name] += 1
    assert not faults, "\n".join(faults[:40])
    return said


def every_leaf(found):
    """Yield (kind of file, pattern, how, checks that caught it) of every kind of leaf of every kind of file."""
    done = set()
    for scene in found:
        for blob, path in scene.files.items():
            value = opened(path, scene.data[blob])
            if not isinstance(value, dict | list) or kind_of(path).startswith("receipt"):
                continue  # a receipt's own leaves have a table of their own: tamper.md
            for leaf in leaves(value):
                name = pattern(leaf)
                for how in HOW:
                    if (kind_of(path), name, how) in done or not leaf:
                        continue
                    done.add((kind_of(path), name, how))
                    edited = changed(value, leaf, how)
                    if edited is None or edited == value:
                        continue
                    try:
                        new = closed(path, edited)
                    except (LqwError, ValueError, TypeError):
                        continue
                    verdict = judged(scene, {blob: new})
                    caught = "refused" if verdict is None else caught_by(verdict)
                    yield kind_of(path), name, how, caught


def caught_by(verdict):
    """Return the checks that caught an edit; a dash where none did."""
    return ", ".join(dict.fromkeys(one.check for one in verdict.findings)) or "–"


def _share(task):
    seed, number = task
    with tempfile.TemporaryDirectory() as folder:
        return fuzzed(scenes(Path(folder)), seed, number)


def fuzzed_by_many(total, seed=0):
    """Judge *total* mutants on every processor; return the same as :func:`fuzzed`."""
    tasks = [(seed + at, min(SHARE, total - done)) for at, done in enumerate(range(0, total, SHARE))]
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(_share, tasks), Counter())


HEAD = """# What catches an edit beside the receipt

Every kind of leaf of the files that a tag's verdict reads besides the receipt itself, changed in each way, as if it had
been committed so from the start: no rewritten file gives it away. Of two releases that pass: one whose floor a signed
record lowered, on a host that needs signatures, and one whose gain a third arm confirmed. Written by
`python -m tests.support.beside`; a slow test holds it equal to what `lqw verify --tag` does.

A word is the check that made it INVALID, RED or UNDECIDED; `refused` is an error of its own, exit 2 or 4, which names the
file. `–`: the tag still passes, since nothing that was judged follows from the leaf: names and notes for people, a value on
the same side of its threshold, a field that holds its default (*removed*). 1.1.0 is the release, 1.0.0 the one before and
the floor, 1.0.9 the record's evidence. The receipts' own leaves are in [tamper.md](tamper.md).

| file | field | value | type | removed | duplicated |
|---|---|---|---|---|---|
"""


def table(said):
    """Return the page, from what :func:`every_leaf` yielded."""
    rows = defaultdict(dict)
    for kind, name, how, caught in said:
        rows[kind, name][how] = caught
    lines = [
        f"| {kind} | `{name}` | " + " | ".join(found.get(how, "") for how in HOW) + " |"
        for (kind, name), found in sorted(rows.items())
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        TABLE.write_text(table(every_leaf(scenes(Path(made)))))
