"""What somebody may do to a clone, so that git itself tells another story than what is committed."""

import hashlib
import shutil
import struct
import zlib

import pytest

from lqw.errors import Exit, LqwError
from lqw.release.git import Repository
from lqw.release.history import verify_history
from lqw.release.tag import verify_tag
from tests.support.scratch import Scratch

DAY = "2026-06-01"
SLOW = {"ttft@512": 3.0}


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("scratch") / "passed").begin().adopt().passing()


@pytest.fixture(scope="module")
def hidden(passed, tmp_path_factory):
    """Return a repository in which a receipt was taken away, and brought back by the next commit."""
    scratch = passed.copy(tmp_path_factory.mktemp("scratch") / "hidden")
    place = scratch.root / "receipts/lambda/1.0.0.json"
    data = place.read_bytes()
    place.unlink()
    scratch.commit("away")
    place.write_bytes(data)
    scratch.commit("and back")
    return scratch


@pytest.fixture
def scratch(passed, tmp_path):
    return passed.copy(tmp_path / "repository")


def judged(scratch, name="v1.1.0", **more):
    return verify_tag(Repository(scratch.root), name, day=DAY, **more)


def object_path(scratch, name):
    sha = scratch.git("rev-parse", name)
    return scratch.root / ".git/objects" / sha[:2] / sha[2:]


def skip_the_parent(scratch):
    """Write a commit graph in which HEAD follows its grandparent, with a checksum that is right."""
    scratch.git("commit-graph", "write", "--reachable")
    path = scratch.root / ".git/objects/info/commit-graph"
    data = bytearray(path.read_bytes())
    table = [bytes(data[8 + 12 * at : 20 + 12 * at]) for at in range(data[6])]
    chunks = {line[:4]: struct.unpack(">Q", line[4:])[0] for line in table}
    count = struct.unpack(">I", data[chunks[b"OIDF"] + 1020 : chunks[b"OIDF"] + 1024])[0]
    ids = [bytes(data[chunks[b"OIDL"] + 20 * at : chunks[b"OIDL"] + 20 * at + 20]).hex() for at in range(count)]
    place = chunks[b"CDAT"] + 36 * ids.index(scratch.head) + 20
    data[place : place + 4] = struct.pack(">I", ids.index(scratch.git("rev-parse", "HEAD~2")))
    path.chmod(0o644)
    path.write_bytes(bytes(data[:-20]) + hashlib.sha1(bytes(data[:-20])).digest())  # noqa: S324 - git's own


def graft(scratch):
    scratch.write(".git/info/grafts", f"{scratch.head} {scratch.git('rev-parse', 'HEAD~2')}\n")


def replace(scratch):
    head, far = scratch.head, scratch.git("rev-parse", "HEAD~2")
    other = scratch.git("commit-tree", f"{head}^{{tree}}", "-p", far, "-m", "and back")
    scratch.git("replace", head, other)


@pytest.mark.parametrize("trick", [skip_the_parent, graft, replace], ids=lambda trick: trick.__name__)
def test_no_trick_of_a_clone_hides_a_commit(hidden, tmp_path, trick):
    scratch = hidden.copy(tmp_path / "repository")
    trick(scratch)
    assert len(scratch.git("rev-list", "HEAD").split()) == len(hidden.git("rev-list", "HEAD").split()) - 1
    for verdict in (judged(scratch), verify_history(Repository(scratch.root))):
        assert verdict.exit_status is Exit.INVALID
        assert any("1.0.0.json: deleted in commit" in one.text for one in verdict.findings)


@pytest.mark.parametrize("name", ["HEAD:params/signing.yaml", "HEAD:receipts/lambda/1.0.0.json", "HEAD^{tree}", "HEAD"])
def test_an_object_whose_content_is_another_than_its_name_says_is_refused(scratch, name):
    place, kind = object_path(scratch, name), scratch.git("cat-file", "-t", name)
    data = zlib.decompress(place.read_bytes()).partition(b"\0")[2].replace(b"lambda", b"lambdb") + b"\n"
    place.chmod(0o644)
    place.write_bytes(zlib.compress(f"{kind} {len(data)}".encode() + b"\0" + data))
    text = refused(scratch)
    assert kind != "blob" or "another content than its name says" in text  # git looks at the others itself


def refused(scratch):
    """Return in which words a verdict is refused, or made INVALID."""
    try:
        verdict = judged(scratch)
    except LqwError as err:
        return err.message
    assert verdict.exit_status is Exit.INVALID
    return " | ".join(one.text for one in verdict.findings)


def test_a_replaced_receipt_is_not_read(scratch):
    other = scratch.git("hash-object", "-w", "--stdin", input="{}")
    scratch.git("replace", scratch.git("rev-parse", "HEAD:receipts/lambda/1.0.0.json"), other)
    assert scratch.git("show", "HEAD:receipts/lambda/1.0.0.json") == "{}"
    assert judged(scratch).findings == ()


def test_a_work_tree_elsewhere_is_not_the_repository(scratch, passed, tmp_path):
    other = passed.copy(tmp_path / "other")
    (scratch.root / "receipts/lambda/1.0.0.json").unlink()
    scratch.commit("a receipt gone")
    scratch.git("config", "core.worktree", str(other.root))
    assert judged(scratch).exit_status is Exit.INVALID
    assert verify_history(Repository(scratch.root)).exit_status is Exit.INVALID


ATTRIBUTES = "*.json -diff -text -merge binary ident eol=crlf filter=evil diff=evil export-ignore linguist-generated\n"


@pytest.mark.parametrize("where", ["receipts/.gitattributes", ".git/info/attributes"])
def test_attributes_change_nothing_that_is_read(scratch, where):
    before = scratch.head
    scratch.release("1.2.0")
    scratch.measure("1.2.0", effects=SLOW)
    scratch.commit("RED")
    scratch.write(where, ATTRIBUTES)
    scratch.release("1.3.0", binary="1.2.0")
    (scratch.root / "receipts/lambda/1.3.0.json").write_bytes(
        (scratch.root / "receipts/lambda/1.2.0.json").read_bytes()
    )
    scratch.commit("the RED subject under another version")
    for name in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command"):
        scratch.git("config", name, "echo {}")
    assert any("1.2.0.json: this very subject was RED there" in one.text for one in judged(scratch, "v1.3.0").findings)
    assert judged(scratch, at=before).findings == ()


def test_another_repository_within_a_store_is_refused(scratch):
    scratch.git("update-index", "--add", "--cacheinfo", f"160000,{scratch.head},receipts/lambda/more")
    scratch.git("commit", "-q", "-m", "a submodule")
    verdict = judged(scratch)
    assert verdict.exit_status is Exit.INVALID
    assert any("more" in one.text and "another repository" in one.text for one in verdict.findings)


@pytest.mark.parametrize(
    "name", ["1.1.0.attempt2.json", "baseline.json", "records/0001.json", "1.0.0.json.intoto.jsonl"]
)
def test_what_is_larger_than_any_receipt_is_refused_unread(scratch, name):
    scratch.write(f"receipts/lambda/{name}", b"[" + b"0," * (33 * 1024**2) + b"0]")
    scratch.commit("large")
    verdict = judged(scratch)
    assert verdict.exit_status is Exit.INVALID
    assert any("bytes, not at most" in one.text for one in verdict.findings)


def test_names_that_differ_by_case_are_others(scratch):
    for name in ("Lambda/1.1.0.json", "lambda/Baseline.json", "lambda/REFERENCE.JSON", "Parity/lambda/x.json"):
        scratch.write(f"receipts/{name}", "{}")
    scratch.write("Params/signing.yaml", "unsigned_allowed: {}\n")
    scratch.git("add", "-A", "receipts")
    scratch.git("commit", "-q", "-m", "beside")
    assert judged(scratch).exit_status is Exit.PASS


def test_a_clone_that_borrows_its_objects_is_judged_and_without_them_refused(scratch, tmp_path):
    source = scratch.copy(tmp_path / "source")
    clone = Scratch(tmp_path / "clone")
    source.git("clone", "-q", "--shared", str(source.root), str(clone.root))
    assert judged(clone).findings == ()
    shutil.rmtree(source.root)
    with pytest.raises(LqwError):
        judged(clone)


def test_a_clone_without_files_fetches_them_or_is_refused(scratch, tmp_path):
    source = scratch.copy(tmp_path / "source")
    source.git("config", "uploadpack.allowFilter", "true")
    source.git("config", "uploadpack.allowAnySHA1InWant", "true")
    for name in ("whole", "cut"):
        source.git("clone", "-q", "--no-checkout", "--filter=blob:none", source.root.as_uri(), str(tmp_path / name))
    assert judged(Scratch(tmp_path / "whole")).findings == ()
    shutil.rmtree(source.root)
    with pytest.raises(LqwError):
        judged(Scratch(tmp_path / "cut"))


def test_a_search_that_git_refuses_finds_not_nothing(scratch):
    repository = Repository(scratch.root)
    with pytest.raises(LqwError, match="grep"):
        repository.holding("x", "0" * 40, "receipts")
