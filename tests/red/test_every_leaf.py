"""Not one leaf of each kind but every leaf, changed in every way: minutes, so `make test-slow` runs it."""

import pytest

from lqw.canonical import canonical_bytes
from lqw.errors import Exit
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from tests.support import tamper
from tests.support.tamper import ALLOWED, HOW, OPTIONAL, changed, leaves, pattern

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    return tamper.receipts(tmp_path_factory.mktemp("store"))


def edits(document):
    for path in leaves(document):
        for how in HOW:
            edited = None if path == ("digest",) else changed(document, path, how)
            if edited is not None and edited != document:
                yield path, how, edited


def test_every_leaf_with_the_digest_left_as_it_was_is_invalid(receipts):
    tried = 0
    for path, how, edited in edits(receipts[0]):
        assert verify_receipt(canonical_bytes(edited)).exit_status == Exit.INVALID, (path, how)
        tried += 1
    assert tried > 5_000


def test_every_leaf_with_the_digest_made_anew_is_invalid_or_moves_nothing(receipts):
    """On a RED receipt: INVALID, or RED with the same rows, and that only where the table says that nothing follows."""
    for document, own in zip(receipts, (Exit.PASS, Exit.RED), strict=True):
        judged = verify_receipt(seal(document)).judgement
        for path, how, edited in edits(document):
            verified = verify_receipt(seal(edited))
            if verified.exit_status != Exit.INVALID:
                assert (verified.exit_status, verified.judgement) == (own, judged), (path, how)
                assert pattern(path) in ALLOWED | OPTIONAL | tamper.BY_PLACE, (path, how)


def test_any_two_neighbours_of_any_list_that_change_places(receipts):
    """Order is part of what was measured: swapped items are another document, and never a better one."""
    red = receipts[1]
    for path, how, edited in tamper.swapped(red):
        assert verify_receipt(canonical_bytes(edited)).exit_status == Exit.INVALID, (path, how)
        assert verify_receipt(seal(edited)).exit_status in {Exit.INVALID, Exit.RED}, (path, how)
