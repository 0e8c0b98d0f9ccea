"""The rules of parity, one malformed receipt at a time: exit status and message of each."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lqw.cli.parity import app
from lqw.errors import Exit, ParamsError, UsageError
from lqw.parity.files import reader_below
from lqw.parity.verdict import names_model

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/parity"
THRESHOLDS = ROOT / "params/parity/thresholds.yaml"


def load(name):
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def edited(name, path, value):
    """Return a fixture with one place changed; value ``...`` removes it."""
    form = copy.deepcopy(load(name))
    inner = form
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return form


@pytest.fixture
def run(tmp_path):
    def call(command, receipt, model, *more):
        path = tmp_path / "receipt.json"
        path.write_text(receipt if isinstance(receipt, str) else json.dumps(receipt), encoding="utf-8")
        if command == "judge":
            more = ("--thresholds", str(THRESHOLDS), *more)
        return CliRunner().invoke(app, [command, str(path), "--model", model, *more])

    return call


def ended(result, status, *words):
    assert result.exit_code == status, result.output
    for word in words:
        assert word in result.output
    assert result.output.count("shape ") >= 1, "the verdict line always prints the shape"


# cosine records


@pytest.mark.parametrize("host", ["lambda", "gx10"])
def test_the_known_good_model_passes_and_the_negative_control_fails(run, host):
    good, bad = load(f"qwen2.5-coder-7b.{host}.json"), load(f"qwen2.5-coder-1.5b.{host}.json")
    ended(run("judge", good, "qwen2.5-coder-7b"), 0, "PASS", "shape batch=1 concurrency=1", "64 positions")
    least = {"lambda": "0.950827", "gx10": "0.950611"}[host]
    ended(run("judge", bad, "qwen2.5-coder-1.5b"), 1, "FAIL", "positions below 0.98 (default)", least)


def test_a_record_is_read_inside_its_envelope_and_held_to_its_models_floor(run):
    ended(run("judge", load("lambda.m1.json"), "qwen3.5-9b"), 0, "PASS", "floor 0.99 (models.qwen3.5-9b)")
    low = edited("lambda.m1.json", ("raw", "metrics", 5, "cosine_similarity"), 0.985)
    ended(run("judge", low, "qwen3.5-9b"), 1, "1 of 64 positions below 0.99", "position 5 0.985000")


def test_the_first_five_positions_below_are_named_and_the_rest_counted(run):
    record = load("qwen2.5-coder-7b.lambda.json")
    for position in range(10, 18):
        record["metrics"][position]["cosine_similarity"] = 0.5
    result = run("judge", record, "qwen2.5-coder-7b")
    ended(result, 1, "8 of 64", "position 10 0.500000", "position 14 0.500000 and 3 more")
    assert "position 15" not in result.output


GOOD = "qwen2.5-coder-7b.lambda.json"
RECORD_FAULTS = [
    ("truncated JSON", '{"model": "qwen2.5-coder-7b.gguf", "metrics": [{"pos', "unreadable"),
    ("NaN", '{"model": "qwen2.5-coder-7b.gguf", "metrics": [{"position": 0, "cosine_similarity": NaN}]}', "NaN"),
    ("duplicate key", '{"model": "a", "model": "b"}', "duplicate key"),
    ("an array", "[]", "not a JSON object"),
    ("a string", '"PASS"', "bare string"),
    ("20 positions", edited(GOOD, ("metrics",), load(GOOD)["metrics"][:20]), "20 positions, at least 64 are needed"),
    ("63 positions", edited(GOOD, ("metrics",), load(GOOD)["metrics"][:63]), "63 positions, at least 64 are needed"),
    ("no metrics", edited(GOOD, ("metrics",), ...), "no metrics"),
    ("empty metrics", edited(GOOD, ("metrics",), []), "no metrics"),
    ("one position twice", edited(GOOD, ("metrics", 1, "position"), 0), "position 0 stands twice"),
    ("position a bool", edited(GOOD, ("metrics", 0, "position"), False), "is not a whole number"),
    ("cosine null", edited(GOOD, ("metrics", 9, "cosine_similarity"), None), "position 9: cosine_similarity = None"),
    ("cosine a bool", edited(GOOD, ("metrics", 9, "cosine_similarity"), True), "cosine_similarity = True"),
    ("cosine a text", edited(GOOD, ("metrics", 9, "cosine_similarity"), "0.99"), "is not a cosine"),
    ("cosine of 400 digits", edited(GOOD, ("metrics", 9, "cosine_similarity"), 10**400), "beyond 2^53"),
    ("cosine beyond one", edited(GOOD, ("metrics", 9, "cosine_similarity"), 1.5), "is not a cosine"),
    ("batch a bool", edited(GOOD, ("shape",), {"batch": True, "concurrency": 1}), "shape.batch = True"),
    ("batch 1.0", edited(GOOD, ("shape",), {"batch": 1.0, "concurrency": 1}), "shape.batch = 1.0"),
    ("batch zero", edited(GOOD, ("shape",), {"batch": 0, "concurrency": 1}), "shape.batch = 0"),
    ("half a shape", edited(GOOD, ("shape",), {"batch": 1}), "shape.concurrency = '(absent)'"),
    ("shape null", edited(GOOD, ("shape",), None), "shape = None"),
    ("a batch", edited(GOOD, ("shape",), {"batch": 8, "concurrency": 8}), "licenses no claim about another shape"),
    ("other model", load("qwen2.5-coder-1.5b.lambda.json"), "not of qwen2.5-coder-7b"),
    ("no model", edited(GOOD, ("model",), ...), "the record is of model None"),
    ("unknown schema", edited(GOOD, ("schema",), "apr-parity-receipt/v3"), "is not apr-parity-receipt/v2"),
]


@pytest.mark.parametrize(("receipt", "words"), [c[1:] for c in RECORD_FAULTS], ids=[c[0] for c in RECORD_FAULTS])
def test_a_malformed_record_fails_with_exit_1_and_says_why(run, receipt, words):
    ended(run("judge", receipt, "qwen2.5-coder-7b"), 1, "FAIL", words)


def test_a_missing_shape_means_one_stream_and_another_shape_is_printed(run):
    assert "shape" not in load(GOOD)
    ended(run("judge", load(GOOD), "qwen2.5-coder-7b"), 0, "shape batch=1 concurrency=1")
    batched = edited(GOOD, ("shape",), {"batch": 8, "concurrency": 16})
    ended(run("judge", batched, "qwen2.5-coder-7b"), 1, "shape batch=8 concurrency=16")


ENVELOPE_FAULTS = [
    ("no raw", ("raw",), ..., "no raw record"),
    ("no cell", ("cell",), ..., "no cell"),
    ("brings its floor", ("threshold",), 0.5, "may not bring the floor"),
    ("no result", ("result",), ..., "no result"),
    ("count edited", ("result", "positions"), 65, "result.positions = 65, but raw holds 64"),
    ("least edited", ("result", "min_cosine"), 0.9999, "result.min_cosine = 0.9999"),
    ("place edited", ("result", "min_cosine_position"), 0, "result.min_cosine_position = 0"),
    ("raw of another shape", ("raw", "shape"), {"batch": 4, "concurrency": 4}, "raw was taken at shape batch=4"),
    ("other model", ("cell", "model"), "qwen3.5-0.8b", "not of qwen3.5-9b"),
    ("brings its floor inside", ("result", "threshold"), 0.1, "may not bring the floor"),
    ("other file", ("cell", "file"), "qwen2.5-coder-1.5b.gguf", "the cell of file 'qwen2.5-coder-1.5b.gguf'"),
    ("no provenance", ("provenance",), ..., "no provenance"),
    ("no program", ("provenance", "binary_sha256"), "", "provenance.binary_sha256 = '' is not a sha256"),
    ("no bytes", ("provenance", "model_sha256"), ..., "provenance.model_sha256 = '(absent)' is not a sha256"),
    ("begun after its end", ("provenance", "started_utc"), "2027-01-01T00:00:00Z", "before the measurement began"),
    ("no moment", ("generated_at",), "yesterday", "generated_at = 'yesterday' is not a moment"),
    ("a moment without zone", ("generated_at",), "2026-01-05T10:00:00", "is not a moment with its zone"),
]


@pytest.mark.parametrize(
    ("path", "value", "words"), [c[1:] for c in ENVELOPE_FAULTS], ids=[c[0] for c in ENVELOPE_FAULTS]
)
def test_an_envelope_whose_numbers_do_not_follow_from_its_raw_fails(run, path, value, words):
    ended(run("judge", edited("lambda.m1.json", path, value), "qwen3.5-9b"), 1, "FAIL", words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (json.dumps(load("lambda.m1.json")).encode("utf-16"), "not UTF-8 at byte 0"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b'{"host": "\\ud800"}', "no canonical form"),
        (b"[" * 200_000, "not JSON"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "deeper than 64"),
        (b" " * (8 * 1024 * 1024 + 1), "larger than 8388608 bytes"),
    ],
    ids=["utf-16", "a mark of bytes", "half a character", "brackets without end", "a hundred deep", "too large"],
)
def test_what_no_gate_receipt_could_carry_is_unreadable(tmp_path, data, words):
    (tmp_path / "r.json").write_bytes(data)
    result = CliRunner().invoke(app, ["judge", str(tmp_path / "r.json"), "--model", "qwen3.5-9b"])
    ended(result, 1, "FAIL qwen3.5-9b m1 shape unknown: unreadable", words)


def test_a_device_without_end_and_a_folder_are_unreadable(tmp_path):
    for place, words in (("/dev/zero", "larger than"), (str(tmp_path), "Is a directory")):
        ended(CliRunner().invoke(app, ["judge", place, "--model", "m"]), 1, "unreadable", words)


def test_a_blessed_receipt_is_read_below_the_repository_only(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    (root / "link.json").symlink_to(tmp_path / "outside.json")
    (root / "inside.json").write_text("{}")
    read = reader_below(root)
    assert read("inside.json") == {}
    for path in ("link.json", "../outside.json", str(tmp_path / "outside.json")):
        assert read(path) == f"{path}: leads out of the repository"
    with pytest.raises(FileNotFoundError):
        read("missing.json")


def test_a_record_that_is_not_there_fails_as_unreadable():
    result = CliRunner().invoke(app, ["judge", "no-such.json", "--model", "m", "--thresholds", str(THRESHOLDS)])
    ended(result, 1, "FAIL m m1", "unreadable: no-such.json: no such file")


# thresholds: the environment, exit 2


THRESHOLD_FAULTS = [
    ("blank basis", ("default", "basis"), "  ", "basis"),
    ("no basis", ("default", "basis"), ..., "default.basis"),
    ("no min_cosine", ("default", "min_cosine"), ..., "default.min_cosine"),
    ("min_cosine a bool", ("default", "min_cosine"), True, "default.min_cosine"),
    ("min_cosine a text", ("default", "min_cosine"), "0.98", "default.min_cosine"),
    ("min_cosine NaN", ("default", "min_cosine"), float("nan"), "default.min_cosine"),
    ("min_cosine 98", ("default", "min_cosine"), 98.0, "default.min_cosine"),
    ("min_positions a bool", ("min_positions",), True, "min_positions"),
    ("min_positions zero", ("min_positions",), 0, "min_positions"),
    ("a model without basis", ("models", "qwen3.5-9b", "basis"), "", "models.qwen3.5-9b.basis"),
    ("other schema", ("schema",), "apr-parity-thresholds/v2", "schema"),
    ("no default", ("default",), ..., "default"),
]


@pytest.mark.parametrize(
    ("path", "value", "field"), [c[1:] for c in THRESHOLD_FAULTS], ids=[c[0] for c in THRESHOLD_FAULTS]
)
def test_a_floor_without_number_or_basis_is_exit_2_even_where_another_floor_holds(tmp_path, path, value, field):
    form = yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))
    inner = form
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    file = tmp_path / "thresholds.yaml"
    file.write_text(yaml.safe_dump(form), encoding="utf-8")
    args = ["judge", str(FIXTURES / GOOD), "--model", "qwen2.5-coder-7b", "--thresholds", str(file)]
    result = CliRunner().invoke(app, args)
    assert isinstance(result.exception, ParamsError)
    assert result.exception.exit_status is Exit.USAGE
    assert result.exception.field == field or field in str(result.exception)
    assert str(file) in str(result.exception)


def test_missing_thresholds_and_a_blank_model_are_exit_2(run, tmp_path):
    args = ["judge", str(FIXTURES / GOOD), "--model", "m", "--thresholds", str(tmp_path / "none.yaml")]
    assert isinstance(CliRunner().invoke(app, args).exception, ParamsError)
    assert isinstance(run("judge", load(GOOD), " ").exception, UsageError)


def test_the_committed_floors_state_their_populations():
    form = yaml.safe_load(THRESHOLDS.read_text(encoding="utf-8"))
    assert (form["default"]["min_cosine"], form["min_positions"]) == (0.98, 64)
    for number in ("0.998607", "0.998465", "0.950827", "0.950611", "n = 5", "stdev 0", "lambda", "gx10"):
        assert number in form["default"]["basis"]
    for model, numbers in {"qwen3.5-0.8b": ("0.998971", "0.999176"), "qwen3.5-9b": ("0.999254", "0.999351")}.items():
        assert form["models"][model]["min_cosine"] == 0.99
        for number in (*numbers, "n = 5", "n = 3"):
            assert number in form["models"][model]["basis"]


def test_json_says_the_same_as_the_line(run):
    result = run("judge", load("qwen2.5-coder-1.5b.lambda.json"), "qwen2.5-coder-1.5b", "--json")
    form = json.loads(result.output)
    assert result.exit_code == form["exit"] == 1
    assert (form["verdict"], form["shape"]) == ("FAIL", {"batch": 1, "concurrency": 1})
    assert form["numbers"]["min_cosine"] == 0.950827


@pytest.mark.parametrize(
    ("path", "model", "same"),
    [
        ("/a/b/Qwen3.5-9B-Q4_K_M.gguf", "qwen3.5-9b", True),
        ("C:\\models\\qwen3.5-9b.gguf", "qwen3.5-9b", True),
        ("qwen3.5-9b", "Qwen3.5-9B", True),
        ("qwen3.5-9bx.gguf", "qwen3.5-9b", False),
        ("/qwen3.5-9b/other.gguf", "qwen3.5-9b", False),
        ("qwen3.5-0.8b.gguf", "qwen3.5-9b", False),
        (None, "qwen3.5-9b", False),
        ("qwen3.5-9b.gguf", "", False),
    ],
)
def test_a_file_names_its_model_by_its_own_name_only(path, model, same):
    assert names_model(path, model) is same
