"""docs/receipt/fields.md: every field of the models, in words, and no claim that the tamper table does not bear out."""

from pathlib import Path

import pytest

from lqw.canonical import loads_strict
from lqw.receipt import fields
from lqw.receipt.fields import LOOSE, UNBOUND, WORDS, field_lines, fields_text
from tests.support.tamper import ALLOWED, BATCH_ALLOWED, leaves

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "receipt" / "fields.md"
RECEIPT = REPOSITORY / "receipts" / "h200" / "0.72.3.json"


def matches(path, field):
    """Say whether a leaf lies at a field of the page, in a free value below it, or is an empty parent of it."""
    return all(b in ("*", a) for a, b in zip(path.split("."), field.split("."), strict=False))


def test_the_page_is_that_of_the_models():
    assert PAGE.read_text() == fields_text(), f"run python -m lqw.receipt.fields > {PAGE.name}"


def test_every_field_says_what_unit_who_and_how_it_is_verified():
    for one in field_lines():
        assert all((one.what, one.unit, one.writer, one.verifier)), one
        assert "|" not in f"{one.what}{one.unit}{one.writer}{one.verifier}", one


def test_every_leaf_of_a_real_receipt_is_on_the_page():
    document = loads_strict(RECEIPT.read_bytes())
    described = [one.path for one in field_lines()]
    kinds = {
        tuple("*" if isinstance(part, int) else part.replace(".", "_") for part in path) for path in leaves(document)
    }
    unknown = {kind for kind in kinds if not any(matches(".".join(kind), field) for field in described)}
    assert unknown == set()


def test_what_is_called_unbound_is_what_the_tamper_table_lets_through():
    loose = {one.path for one in field_lines() if one.verifier == LOOSE}
    assert loose == UNBOUND, "a path of UNBOUND that is no field"
    for field in loose:
        assert any(matches(name, field) for name in ALLOWED | BATCH_ALLOWED), (
            f"{field} is caught: take it out of UNBOUND"
        )


def test_a_field_without_words_is_refused_and_so_are_words_without_a_field(monkeypatch):
    monkeypatch.setitem(WORDS, "Counts", {name: text for name, text in WORDS["Counts"].items() if name != "void"})
    with pytest.raises(LookupError, match=r"Counts\.void has no words"):
        fields.field_lines()
    monkeypatch.setitem(WORDS, "Counts", {**WORDS["Counts"], "void": "x", "ghost": "x"})
    with pytest.raises(LookupError, match="ghost"):
        fields.field_lines()
