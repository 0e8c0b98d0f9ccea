"""A release that names a blessed model needs both parity receipts on each host, fresh, or it is blocked by name."""

import json
from pathlib import Path

import pytest

from lqw.canonical import loads_strict
from lqw.errors import ParamsError
from lqw.outcomes import Purpose
from lqw.params import Params
from lqw.params.loading import load_params
from lqw.params.parity import ParityParams
from lqw.parity import UnderTest, judge_release
from lqw.parity.commits import same_commit
from lqw.parity.files import load_blessed, load_thresholds, read_receipt
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.parity import read_documents
from lqw.testing.params import name_sha256, synthetic_params
from lqw.testing.receipts import adopt_floor, receipt_of
from lqw.testing.synthetic import synthetic_run
from tests.support.fake_params import write_params

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/parity"
BINARY = {
    host: json.loads((FIXTURES / f"{host}.serving.json").read_text(encoding="utf-8"))["binary_sha256"]
    for host in ("lambda", "gx10")
}
COMMIT = "9c34b9a91"


def parity(name="green"):
    return ParityParams(
        blessed=load_blessed(FIXTURES / f"blessed-{name}.yaml"),
        thresholds=load_thresholds(ROOT / "params/parity/thresholds.yaml"),
    )


def judged(name="green", hosts=("lambda", "gx10"), binaries=BINARY, **more):
    under_test = UnderTest(binaries, **{"commit": COMMIT, **more})
    return judge_release(parity(name), lambda p: read_receipt(FIXTURES / p), hosts=hosts, under_test=under_test)


def test_fresh_green_receipts_of_every_host_block_nothing():
    assert judged().blocks == ()
    assert judged(hosts=["lambda"], binaries={"lambda": BINARY["lambda"]}).blocks == ()


def test_the_other_hosts_binary_is_not_known_here_so_its_commit_must_be_the_one_under_test():
    assert judged(binaries={"lambda": BINARY["lambda"]}).blocks == ()
    blocks = judged(binaries={"lambda": BINARY["lambda"]}, commit="abcdef123").blocks
    assert [block.split(": ")[0] for block in blocks] == ["gx10", "gx10"]
    assert all("STALE" in b and f"of commit {COMMIT}, the one under test is abcdef123" in b for b in blocks)
    assert len(judged(binaries={}, commit="").blocks) == 4, "nothing known of the program: nothing is fresh"


def test_a_receipt_of_another_binary_is_stale_by_name():
    blocks = judged(binaries={**BINARY, "lambda": "0" * 64}).blocks
    assert len(blocks) == 2
    assert blocks[0].startswith("lambda: STALE qwen3.5-9b m1 shape batch=1 concurrency=1: the receipt is of binary")
    assert "the one under test is 000000000000; it said PASS" in blocks[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing-host", ["gx10: MISSING qwen3.5-9b m1", "gx10: MISSING qwen3.5-9b serving"]),
        ("m1-only", ["gx10: MISSING qwen3.5-9b serving"]),
        ("no-batch", ["lambda: UNMEASURED qwen3.5-9b serving"]),
        ("garbage-slot", ["lambda: FAIL qwen3.5-9b serving"]),
    ],
)
def test_what_is_missing_unmeasured_or_red_blocks_by_host_and_name(name, words):
    blocks = judged(name).blocks
    assert len(blocks) == len(words)
    for block, word in zip(blocks, words, strict=True):
        assert block.startswith(word)


def test_a_host_that_is_not_blessed_no_host_and_no_model_block():
    assert len(judged(hosts=["lambda", "gx10", "thor"]).blocks) == 2
    assert judged(hosts=[]).blocks == ("no host is named: nothing would be judged",)
    none = judge_release(None, read_receipt, hosts=["lambda"], under_test=UnderTest(BINARY))
    assert none.blocks == ("the release names no blessed model: parity at the serving shape is not shown",)


@pytest.mark.parametrize(
    ("day", "words"),
    [("2026-01-05", ()), ("2026-01-04", ()), ("2026-01-03", ("dated 2026-01-05, which is after 2026-01-03",) * 2)],
)
def test_a_receipt_from_the_future_does_not_count_a_zone_of_the_earth_apart_it_does(day, words):
    verdict = judge_release(
        parity(), lambda p: read_receipt(FIXTURES / p), hosts=["lambda", "gx10"], under_test=UnderTest(BINARY), day=day
    )
    assert len(verdict.blocks) == len(words)
    assert all(word in block and "UNMEASURED" in block for word, block in zip(words, verdict.blocks, strict=True))


def test_a_witness_whose_day_is_none_does_not_count():
    def read(path):
        receipt = read_receipt(FIXTURES / path)
        return receipt | {"generated_at": "yesterday"} if path == "lambda.serving.json" else receipt

    verdict = judge_release(parity(), read, hosts=["lambda"], under_test=UnderTest(BINARY), day="2026-02-01")
    assert verdict.blocks[0].endswith("generated_at = 'yesterday' is not a moment with its zone")


def test_receipts_of_other_model_bytes_than_the_release_measures_block():
    assert "different model bytes: the release 000000000000" in judged(model_sha256="0" * 64).blocks[0]


# the params


def test_a_release_names_the_model_that_is_blessed_and_carries_blessing_and_floors(tmp_path):
    write_params(tmp_path, releases={"1.0.0": {}})
    file = tmp_path / "params/fake/1.0.0.yaml"
    before = load_params(file)
    assert (before.parity, "blessed" in before.resolved()["release"]) == (None, False)
    file.write_text(file.read_text(encoding="utf-8") + "\nblessed: qwen3.5-9b\n", encoding="utf-8")
    with pytest.raises(ParamsError, match=r"blessed\.yaml"):
        load_params(file)
    (tmp_path / "params/parity").mkdir()
    for name in ("blessed.yaml", "thresholds.yaml"):
        (tmp_path / "params/parity" / name).write_bytes((ROOT / "params/parity" / name).read_bytes())
    params = load_params(file)
    assert params.parity.blessed.hosts == ["lambda", "gx10"]
    assert Params.model_validate(params.resolved()).parity == params.parity
    assert {"parity/blessed.yaml", "parity/thresholds.yaml"} <= set(params.files)
    file.write_text(file.read_text(encoding="utf-8").replace("qwen3.5-9b", "qwen3.5-0.8b"), encoding="utf-8")
    with pytest.raises(ParamsError, match=r"blesses 'qwen3\.5-9b'"):
        load_params(file)


# the gate


def blessed_params(release, name="green"):
    """A synthetic release on one of the two hosts, of the blessed model."""
    plain = synthetic_params(release=release, host="lambda", rows=("ttft@128",), models=("qwen3.5-9b",))
    body = plain.model_dump(mode="json", by_alias=True)
    serving = json.loads((FIXTURES / "lambda.serving.json").read_text(encoding="utf-8"))
    body["release"] |= {"blessed": "qwen3.5-9b", "hosts": ["lambda"]}
    body["release"]["models"][0]["sha256"] = serving["model"]["sha256"]
    body["parity"] = parity(name).model_dump(mode="json", by_alias=True)
    return Params.model_validate(body)


def documents(params):
    """The fixtures as if they had been taken of the synthetic subject."""
    found = read_documents(params, lambda path: read_receipt(FIXTURES / path))
    for receipt in found.values():
        receipt.get("provenance", receipt)["binary_sha256"] = name_sha256("binary", "subject")
        if "generated_at" in receipt:
            receipt["generated_at"] = receipt["provenance"]["started_utc"] = "2025-12-31T10:00:00Z"
    return found


def gated(tmp_path, name="green", change=None):
    store = adopt_floor(tmp_path, blessed_params("1.0.0", name))
    params = blessed_params("1.1.0", name)
    found = documents(params)
    if change is not None:
        change(found)
    return receipt_of(synthetic_run(params, Purpose.GATE), store, parity=found)


def test_a_gate_with_fresh_green_receipts_passes_and_carries_them(tmp_path):
    receipt = gated(tmp_path)
    verified = verify_receipt(receipt)
    assert verified.outcome == "PASS", verified.judgement.sentence
    assert [g.subject for g in verified.judgement.guards if g.guard == "parity"] == ["lambda m1", "lambda serving"]
    carried = loads_strict(receipt)
    assert set(carried["parity"]) == {"lambda.m1.json", "lambda.serving.json"}
    carried["parity"]["lambda.serving.json"]["bands"][3]["m_formed"] = 4
    assert verify_receipt(seal(carried)).outcome == "INVALID", "an edited witness does not lead to the same judgement"


@pytest.mark.parametrize(
    ("name", "change", "outcome", "words"),
    [
        ("green", lambda found: found.clear(), "UNDECIDED", "parity of lambda m1: MISSING"),
        ("green", lambda found: found.pop("lambda.serving.json"), "UNDECIDED", "parity of lambda serving: MISSING"),
        ("green", lambda f: f["lambda.serving.json"].update(binary_sha256="0" * 64), "UNDECIDED", "serving: STALE"),
        ("no-batch", None, "UNDECIDED", "parity of lambda serving: UNMEASURED"),
        ("garbage-slot", None, "RED", "slot 2: one token repeated 61 times"),
        ("green", lambda f: f.update({"lambda.m1.json": "lambda.m1.json: cut"}), "RED", "unreadable: lambda.m1.json"),
    ],
)
def test_a_missing_stale_or_red_receipt_blocks_the_gate_by_name(tmp_path, name, change, outcome, words):
    judgement = verify_receipt(gated(tmp_path, name, change)).judgement
    assert (judgement.outcome, int(judgement.exit_status)) == (outcome, {"UNDECIDED": 3, "RED": 1}[outcome])
    assert any(words in reason for reason in judgement.reasons), judgement.reasons
    assert words in judgement.sentence


def test_a_floor_is_adopted_without_receipts_and_flags_them(tmp_path):
    store = adopt_floor(tmp_path, blessed_params("1.0.0"))
    (receipt,) = (path for path in (tmp_path / "lambda").glob("1.0.0*.json"))
    judgement = verify_receipt(receipt).judgement
    assert judgement.outcome == "FLOOR"
    assert [guard.effect for guard in judgement.guards if guard.guard == "parity"] == ["flag", "flag"]
    assert store.baseline("lambda").is_file()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("9c34b9a91", "9c34b9a910", True),
        ("9C34B9A91", "9c34b9a91", True),
        ("9c34b9a91", "9c34b9a92", False),
        ("9c34", "9c34b9a91", False),
        ("0.72.3", "0.72.30", False),
        ("0.72.3+no-git", "0.72.3+no-git", True),
        ("", "", False),
    ],
)
def test_commits_are_compared_as_prefixes_of_one_hash(one, other, same):
    """PITFALLS 11: nine digits against ten are one commit."""
    assert same_commit(one, other) is same
    assert same_commit(other, one) is same


def test_a_commit_cut_to_another_length_is_still_fresh():
    assert judged(binaries={}, commit=f"{COMMIT}0f").blocks == ()
