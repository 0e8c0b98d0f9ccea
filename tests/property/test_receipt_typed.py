"""The typed form of a receipt, taken from what was read of its bytes: nothing may pass there that the bytes do not."""

from random import Random

import orjson
import pytest
from pydantic import ValidationError

from lqw.receipt.schema import Receipt
from tests.support import fuzz, tamper


def typed(how, data):
    try:
        return how(data)
    except ValidationError:
        return None


def agree(document):
    """Return the typed form by both ways, held equal; None where there is none."""
    try:
        data = orjson.dumps(document)
    except TypeError:  # a lone surrogate: JSON has none
        return None
    by_bytes = typed(Receipt.model_validate_json, data)
    by_value = typed(Receipt.model_validate, orjson.loads(data))
    assert by_value == by_bytes
    assert by_bytes is None or by_value.model_dump_json() == by_bytes.model_dump_json()
    return by_bytes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return fuzz.bases(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    return tamper.batch_receipt(tmp_path_factory.mktemp("batch"))[0]


def test_every_kind_of_leaf_with_hostile_values(found, batch):
    rng, said = Random(4), []  # noqa: S311 - which hostile values

    def put(document, path, value):
        return fuzz.put(document, path, lambda holder, key: holder.__setitem__(key, value))

    for document, having in ((found[0].document, ""), (batch, "batch.")):
        kinds = tamper.kinds_of_leaf(document)
        paths = [rng.choice(paths) for name, paths in kinds.items() if name.startswith(having)]
        said += [agree(put(document, path, value)) for path in paths for value in rng.sample(fuzz.HOSTILE, 8)]
    assert said.count(None) > 1_000
    assert len(said) - said.count(None) > 100


@pytest.mark.parametrize("value", ["subject", "SUBJECT", 0, 1, True, ["subject"], {"subject": 1}, None, 1.0, ""])
@pytest.mark.parametrize(
    "where", [("starts", 0, "arm"), ("header", "purpose"), ("starts",), ("run", "earlier"), ("batch", "starts")]
)
def test_enumerations_and_tuples_take_nothing_more(batch, where, value):
    agree(fuzz.put(batch, where, lambda holder, key: holder.__setitem__(key, value)))


def test_mutants(found):
    rng = Random(11)  # noqa: S311 - what to break
    said = []
    for _ in range(1_000):
        base, other = rng.sample(found, 2)
        path, change = fuzz.edit(rng, base.document, other.document)
        said.append(agree(fuzz.put(base.document, path, change)))
    assert said.count(None) > 300
    assert len(said) - said.count(None) > 100
