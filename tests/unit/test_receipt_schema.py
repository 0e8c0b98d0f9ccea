"""docs/receipt against the code: the JSON Schema is the models', and real receipts satisfy it."""

import json
from pathlib import Path

import jsonschema
import pytest

from lqw.canonical import loads_strict
from lqw.receipt.jsonschema import schema_text
from lqw.receipt.schema import Receipt
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

DOCS = Path(__file__).parents[2] / "docs" / "receipt"
SCHEMA = DOCS / "lqw-receipt-1.schema.json"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    store = adopt_floor(tmp_path_factory.mktemp("store"), synthetic_params(release="1.0.0"))
    params = synthetic_params(release="1.1.0")
    made = [
        gate_receipt(store, params, **options)
        for options in ({"seed": 5}, {"effects": {"decode": 0.3}}, {"answers": 1})
    ]
    return [loads_strict(data) for data in (*made, store.receipt("synthetic", "1.0.0").read_bytes())]


def test_the_schema_is_that_of_the_models():
    assert SCHEMA.read_text() == schema_text(), f"run python -m lqw.receipt.jsonschema > {SCHEMA.name}"


def test_receipts_satisfy_the_schema(documents):
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    validator.check_schema(validator.schema)
    for document in documents:
        assert list(validator.iter_errors(document)) == []


def test_the_schema_refuses_unknown_and_missing_fields(documents):
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for edit in ({"note": "x"}, {"digest": "x"}, {"starts": {}}):
        assert list(validator.iter_errors({**documents[0], **edit}))
    assert list(validator.iter_errors({k: v for k, v in documents[0].items() if k != "judgement"}))


def test_every_top_level_field_is_described():
    page = (DOCS / "README.md").read_text()
    for name, field in Receipt.model_fields.items():
        assert f"| `{field.alias or name}` |" in page
