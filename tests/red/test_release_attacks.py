"""What somebody may try with git itself, so that a tag gets out that was not measured, or a floor is left behind."""

import subprocess

import pytest

from lqw.cli.app import run
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Purpose
from lqw.release.git import Repository
from lqw.release.history import verify_history
from lqw.release.tag import verify_tag
from lqw.release.tagging import check_push, make_tag, message_of
from tests.support.scratch import Scratch

DAY = "2026-06-01"
SLOW = {"ttft@512": 3.0}


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("scratch") / "passed").begin().adopt().passing()


@pytest.fixture
def scratch(passed, tmp_path):
    return passed.copy(tmp_path / "repository")


def judged(scratch, name="v1.1.0", place="", **more):
    return verify_tag(Repository(scratch.root / place), name, day=DAY, **more)


def said_of(scratch, name="v1.1.0"):
    verdict = judged(scratch, name)
    return verdict.exit_status, " | ".join(str(one) for one in verdict.findings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (["tag", "v1.1.0", "HEAD:src/main.rs"], "a tag of a blob"),
        (["tag", "-a", "v1.1.0", "HEAD^{tree}", "-m", "x"], "a tag of a tree"),
        (["tag", "-a", "v1.1.0", "v1.0.0", "-m", "x"], "a tag of a tag"),
        (["update-ref", "refs/tags/v1.1.0", "v1.0.0"], "made as 'v1.0.0'"),
    ],
)
def test_a_tag_that_is_not_one_commits_own_is_invalid_and_no_other_commit_is_judged_for_it(scratch, make, words):
    value = [scratch.git("rev-parse", one) if one == "v1.0.0" and make[0] == "update-ref" else one for one in make]
    scratch.git(*value)
    line = f"refs/tags/v1.1.0 {scratch.git('rev-parse', 'refs/tags/v1.1.0')} refs/tags/v1.1.0 {'0' * 40}\n"
    for attempt in (
        lambda: judged(scratch),
        lambda: make_tag(Repository(scratch.root), "v1.1.0", at=None, policy=None, day=DAY),
        lambda: check_push(Repository(scratch.root), [line], policy=None, day=DAY),
    ):
        with pytest.raises(IntegrityError, match=words):
            attempt()


def test_the_message_of_a_nested_tag_does_not_carry_it_through(scratch):
    scratch.git("tag", "-a", "inner", "-m", "x")
    scratch.git("tag", "-a", "v1.1.0", "inner", "-m", message_of(judged(scratch)))
    line = f"refs/tags/v1.1.0 {scratch.git('rev-parse', 'v1.1.0')} refs/tags/v1.1.0 {'0' * 40}\n"
    with pytest.raises(IntegrityError, match="a tag of a tag"):
        check_push(Repository(scratch.root), [line], policy=None, day=DAY)


@pytest.mark.parametrize(
    "name", ["", "v1.1.0 ", "v1.1.0\n", "v1.1.0^{}", "v1.1.0~0", "-v1.1.0", "v1.1.*", "v../x", "v1.lock"]
)
def test_a_name_that_no_tag_can_have(scratch, name):
    with pytest.raises(UsageError, match="no tag can have that name"):
        judged(scratch, name)


@pytest.mark.parametrize("name", ["V1.1.0", "vv1.1.0", "v01.1.0", "v\uff11.1.0", "v1.1", "v1.1.0-rc.1"])
def test_a_name_that_is_nearly_the_releases_is_another_release(scratch, name):
    assert judged(scratch, name).exit_status == Exit.UNDECIDED
    with pytest.raises(Exception, match=r"not a release's tag|is of release"):
        make_tag(Repository(scratch.root), name, at=None, policy=None, day=DAY)


def test_two_tags_on_one_commit_are_two_releases(scratch):
    scratch.git("tag", "-a", "v1.2.0", "-m", "x")
    scratch.git("tag", "-a", "v1.1.0", "-m", "x")
    assert (judged(scratch, "v1.1.0").exit_status, judged(scratch, "v1.2.0").exit_status) == (Exit.PASS, Exit.UNDECIDED)


def test_a_store_that_moves_leaves_no_floor_behind(scratch):
    host = scratch.root / "params/hosts/lambda.yaml"
    host.write_text(host.read_text() + "receipts: fresh\n")
    scratch.release("1.2.0")
    scratch.measure("1.2.0", purpose=Purpose.ADOPT, effects=SLOW, store="fresh")
    scratch.commit("another store, with a slow release for its first floor")
    words = "names the store fresh; in commit"
    assert words in said_of(scratch, "v1.2.0")[1]
    status, said = (
        verify_history(Repository(scratch.root)).exit_status,
        verify_history(Repository(scratch.root)).sentence,
    )
    assert (status, words in said) == (Exit.INVALID, True)


def test_all_looks_into_every_store_that_a_host_names(scratch, capsys):
    host = (scratch.root / "params/hosts/lambda.yaml").read_text()
    scratch.write("params/hosts/other.yaml", host.replace("name: lambda", "name: other") + "receipts: elsewhere/kept\n")
    assert run(["verify", "--all", "--repo", str(scratch.root)]) == Exit.PASS
    scratch.write("elsewhere/kept/other/1.0.0.json", "{}")
    assert run(["verify", "--all", "--repo", str(scratch.root)]) == Exit.INVALID
    scratch.write("params/hosts/other.yaml", "schema: broken\n")
    assert run(["verify", "--all", "--repo", str(scratch.root)]) == Exit.USAGE
    assert "params/hosts/other.yaml" in capsys.readouterr().err


def test_the_history_of_a_store_that_no_host_names_any_more_is_looked_at(scratch):
    host = scratch.root / "params/hosts/lambda.yaml"
    sound = host.read_text()
    host.write_text(sound + "receipts: other\n")
    scratch.write("other/lambda/0.9.0.json", "{}")
    scratch.commit("a store")
    host.write_text("schema: broken\n")
    (scratch.root / "other/lambda/0.9.0.json").unlink()
    scratch.commit("a host file that nobody can read, and a receipt gone")
    texts = [str(one) for one in verify_history(Repository(scratch.root)).findings]
    assert any("other/lambda/0.9.0.json: deleted" in text for text in texts)


@pytest.mark.parametrize("name", ["1.1.0.attempt3.json", "1.1.0.attempt02.json", "1.1.0.attempt2.JSON", "1.1.0.JSON"])
def test_an_attempt_that_the_count_passes_over_is_named(scratch, name):
    (made := scratch.measure("1.1.0", effects=SLOW, baseline=False)).rename(made.with_name(name))
    scratch.commit("a RED attempt under a name that is not counted")
    status, said = said_of(scratch)
    assert (status, f"{name}: not one of the 1 attempts" in said) == (Exit.INVALID, True)


def test_a_later_attempt_must_verify_even_where_it_does_not_speak(scratch):
    scratch.write("receipts/lambda/1.1.0.attempt2.json", "{}")
    scratch.commit("garbage in the place of a RED attempt")
    assert "attempt2.json" in said_of(scratch)[1]


@pytest.mark.parametrize("ref", ["refs/pull/7/head", "refs/notes/x", "refs/stash"])
def test_an_attempt_under_any_ref_is_not_forgotten(scratch, ref):
    scratch.measure("1.1.0", effects=SLOW)
    scratch.git("update-ref", ref, scratch.commit("a RED attempt"))
    scratch.git("reset", "-q", "--hard", "HEAD~1")
    status, said = said_of(scratch)
    assert (status, "attempt2.json: stands in commit" in said) == (Exit.INVALID, True)


def test_a_folder_of_the_repository_is_the_repository(scratch):
    assert judged(scratch, place="params/hosts").exit_status == Exit.PASS
    scratch.git("rm", "-q", "receipts/lambda/1.0.0.json")
    scratch.commit("a receipt gone")
    assert verify_history(Repository(scratch.root / "src")).exit_status == Exit.INVALID
    assert judged(scratch, place="src").exit_status == Exit.INVALID


def test_a_bare_repository_is_judged_too(scratch, tmp_path):
    scratch.git("clone", "-q", "--bare", str(scratch.root), str(tmp_path / "bare.git"))
    bare = Repository(tmp_path / "bare.git")
    assert verify_tag(bare, "v1.1.0", day=DAY).exit_status == Exit.PASS
    assert verify_history(bare).exit_status == Exit.PASS
    assert verify_tag(Repository(scratch.root / ".git"), "v1.1.0", day=DAY).exit_status == Exit.PASS


def test_no_setting_of_git_changes_what_is_read(scratch):
    scratch.release("1.2.0")
    scratch.measure("1.2.0", effects=SLOW)
    scratch.commit("RED")
    settings = (
        ("color.ui", "always"), ("grep.column", "true"), ("i18n.logOutputEncoding", "UTF-16"), ("log.showSignature", "true"),
        ("diff.relative", "true"), ("diff.ignoreSubmodules", "all"), ("log.follow", "true"), ("core.quotePath", "true"),
    )  # fmt: skip
    for name, value in settings:
        scratch.git("config", name, value)
    assert judged(scratch, at="HEAD~3").exit_status == Exit.PASS
    scratch.release("1.3.0", binary="1.2.0")
    receipt = scratch.root / "receipts/lambda/1.2.0.json"
    (receipt.with_name("1.3.0.json")).write_bytes(receipt.read_bytes())
    scratch.commit("the RED subject under another version")
    assert "receipts/lambda/1.2.0.json: this very subject was RED there" in said_of(scratch, "v1.3.0")[1]


def test_a_clock_that_was_moved_is_named(scratch):
    early = verify_tag(Repository(scratch.root), "v1.1.0", day="2025-12-31")
    assert early.exit_status == Exit.UNDECIDED
    assert "one of the two clocks is wrong" in early.sentence


def test_what_is_judged_may_be_outside_of_the_policys_branch_and_that_is_said(scratch):
    reviewed = "whether anybody reviewed what is tagged"
    told = [any(reviewed in text for text in judged(scratch, policy=one).not_checked) for one in ("HEAD~1", "HEAD")]
    assert told == [True, False]


def test_git_is_asked_of_no_variable(scratch, monkeypatch, tmp_path):
    """What a hook, or an attacker, leaves in the environment names another repository, index or history."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    for name, value in (
        ("GIT_DIR", tmp_path / "other/.git"), ("GIT_OBJECT_DIRECTORY", tmp_path), ("GIT_NAMESPACE", "x"),
        ("GIT_WORK_TREE", "/"), ("GIT_EXEC_PATH", tmp_path), ("GIT_SHALLOW_FILE", "/dev/null"),
        ("GIT_CONFIG_PARAMETERS", "'core.bare=true'"), ("GIT_EXTERNAL_DIFF", "false"),
    ):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    assert judged(scratch).exit_status == Exit.PASS
