"""What is too large, too deep, too long or too many is refused in words, and before it can hold the verifier up."""

import pytest
import yaml

from lqw.canonical import MAX_BYTES, MAX_STRING, canonical_bytes
from lqw.errors import Exit, IntegrityError, ParamsError
from lqw.params import load_params
from lqw.params.specs import MAX_ROWS
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from tests.support import fuzz
from tests.support.scratch import Scratch


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return fuzz.bases(tmp_path_factory.mktemp("store"))[0]


def refused(data, words):
    """Check that bytes are INVALID within the second that every receipt has, and for the reason that is meant."""
    verified = fuzz.judged(data)
    assert verified.exit_status is Exit.INVALID
    assert any(words in str(problem) for problem in verified.problems), verified.problems
    return verified


def put(base, *path, value):
    """Return the document with a value at a path, lists and objects on the way copied."""

    def change(holder, key):
        holder[key] = value

    return fuzz.put(base.document, path, change)


def at(base, *path):
    return fuzz.at(base.document, path)


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    place = tmp_path / "1.0.0.json"
    with place.open("wb") as out:
        out.truncate(MAX_BYTES + 1)
    (problem,) = verify_receipt(place).problems
    assert f"larger than {MAX_BYTES} bytes" in str(problem)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b"[" * 200_000 + b"]" * 200_000, "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'"' + b"x" * (MAX_STRING + 1) + b'"', f"longer than {MAX_STRING}"),
        (b'{"' + b"k" * (MAX_STRING + 1) + b'":0}', "too long"),
        (b"9007199254740993", "beyond 2^53"),
        (b"1" * 5_000, "not JSON"),
        (b"1e400", "overflows"),
        (b"NaN", "NaN is not JSON"),
        (b'{"a":1,"a":1}', "duplicate key"),
        (b'"\\ud800"', "no canonical form"),
        (b'"\xed\xa0\x80"', "no canonical form"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_a_value_that_no_receipt_holds(base, text, words):
    data = base.data.replace(b'"calibration":', b'"calibration":' + text + b',"x":', 1)
    refused(data, words)


def test_a_field_that_nobody_knows(base):
    refused(seal({**base.document, "verdict": "PASS"}), "Extra inputs are not permitted")
    refused(seal(put(base, "header", "approved", value=True)), "Extra inputs are not permitted")


def test_more_rows_than_a_release_has(base):
    model = at(base, "header", "params", "release", "models", 0)
    models = [{**model, "name": f"m{number}"} for number in range(64)]
    many = put(base, "header", "params", "release", "models", value=models)
    params = many["header"]["params"]
    protocol, (launch, *_) = params["protocol"], params["protocol"]["launches"]
    rows = [f"ttft@{16 + number}" for number in range(MAX_ROWS // 64 + 1)]
    steps = [{**launch["steps"][0], "prompt_tokens": 16 + number} for number in range(len(rows))]
    protocol = {**protocol, "rows": rows, "launches": [{**launch, "steps": steps}]}
    many = {**many, "header": {**many["header"], "params": {**params, "protocol": protocol}}}
    refused(seal(many), f"1088 rows over all models, more than {MAX_ROWS}")


def test_as_many_rows_as_allowed_are_answered_in_time(base):
    model = at(base, "header", "params", "release", "models", 0)
    models = [{**model, "name": f"m{number}"} for number in range(64)]
    refused(seal(put(base, "header", "params", "release", "models", value=models)), "plan")


def test_a_plan_of_many_million_requests_is_not_counted_out(base):
    launches = at(base, "header", "params", "protocol", "launches")
    cold, decode = launches[0]["steps"]
    steps = [{**cold, "prompt_tokens": 16 + number, "repeats": 1_000, "warmups": 100} for number in range(63)]
    many = [{**launches[0], "steps": [*steps, {**decode, "repeats": 1_000}]}]
    refused(seal(put(base, "header", "params", "protocol", "launches", value=many)), "plan")


@pytest.mark.parametrize(("key", "item", "number"), [("d", 0.1, 201), ("history", None, 257)])
def test_a_reference_of_more_sessions_or_pairs_than_are_measured(base, key, item, number):
    row, reference = next(iter(at(base, "standing", "references").items()))
    if key == "d":
        edited = put(base, "standing", "references", row, "floor", "d", value=[item] * number)
    else:
        spread = {"ss": 0.1, "df": 5, "release": "1.0.0"}
        edited = put(base, "standing", "references", row, "history", value=[spread] * number)
    refused(seal(edited), "standing")
    assert reference


def test_a_list_of_a_hundred_thousand_strangers_is_told_in_a_few_lines(base):
    verified = refused(seal(put(base, "starts", value=[{"who": at} for at in range(30_000)])), "Extra inputs")
    assert len(verified.problems) <= 21
    assert all(len(str(problem)) < 500 for problem in verified.problems)


@pytest.mark.parametrize(
    "name", ["../../outside.json", "/etc/passwd", "a/b.json", ".hidden", "", "x" * 129, "a\u202eb", "a\nb"]
)
def test_a_file_name_that_leads_elsewhere(base, name):
    refused(seal(put(base, "artefacts", name, value="0" * 64)), "artefacts")


@pytest.mark.parametrize("release", ["../1.1.0", "a/b", "", "1.1.0\x00", "x" * 65])
def test_a_release_that_no_file_can_have(base, release):
    refused(seal(put(base, "header", "params", "release", "release", value=release)), "release")


def test_a_release_file_of_too_many_rows_starts_nothing(tmp_path):
    scratch = Scratch(tmp_path / "many", more_models=63).begin()
    path = scratch.root / "params/protocols/small.yaml"
    body = yaml.safe_load(path.read_text())
    cold, decode = body["launches"][0]["steps"]
    body["launches"][0]["steps"] = [*({**cold, "prompt_tokens": 512 + number} for number in range(17)), decode]
    body["rows"] = [f"ttft@{512 + number}" for number in range(17)]
    scratch.write("params/protocols/small.yaml", body)
    scratch.release("1.0.0")
    with pytest.raises(ParamsError, match=r"17 of each of 64 models.*more than 1024 rows"):
        load_params(scratch.root / "params/1.0.0.yaml")


def test_an_attempt_of_any_number_is_not_counted_up_to(base):
    refused(seal(put(base, "run", "attempt", value=2**53 - 1)), "all before attempt")


def test_canonical_json_itself_knows_the_limits():
    with pytest.raises(IntegrityError, match="longer than"):
        canonical_bytes(["x" * (MAX_STRING + 1)])
