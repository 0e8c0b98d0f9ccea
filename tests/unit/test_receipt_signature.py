"""Signatures of receipts and records: who may, for what, when; and the bytes against securesystemslib's DSSE."""

import base64
import json
from pathlib import Path

import pytest
import yaml
from securesystemslib import dsse
from securesystemslib.signer import CryptoSigner

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit, IntegrityError, ParamsError, UsageError
from lqw.params.signers import Signers, load_signers, parse_signers, same_person
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.dsse import PAYLOAD_TYPE, pae, parse_bundle, public_bytes, sign_payload, signed_with
from lqw.receipt.signature import check_receipt, check_record, with_signature
from lqw.receipt.signing import bundle_of, find_signers, sign_file, verify_record, verify_signed
from lqw.receipt.statement import parse_statement, receipt_statement, record_statement
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params
from tests.support.signing import Person, allowed, files_of, repository

ROWS = ("ttft@16", "decode")
NOW = "2026-03-01T12:00:00Z"  # after the synthetic receipts were made


@pytest.fixture(scope="module")
def receipt(tmp_path_factory):
    store = adopt_floor(tmp_path_factory.mktemp("store"), synthetic_params(rows=ROWS, release="1.0.0", repeats=1))
    return gate_receipt(store, synthetic_params(rows=ROWS, release="1.1.0", repeats=1), seed=3)


@pytest.fixture(scope="module")
def verified(receipt):
    found = verify_receipt(receipt)
    assert found.exit_status == Exit.PASS
    return found


ADA = Person("Ada Lovelace")
GRACE = Person("Grace Hopper", "approver")
EVE = Person("Eve")


def line(verified, person=ADA, *, at=NOW, **edit):
    statement = json.loads(receipt_statement(verified, name="1.1.0.json", signer=person.name, signed_utc=at))
    statement["predicate"] |= {key: value for key, value in edit.items() if key in statement["predicate"]}
    statement |= {key: value for key, value in edit.items() if key in statement}
    return sign_payload(canonical_bytes(statement), person.key)


def test_a_captains_signature_counts(verified):
    signed = check_receipt(verified, line(verified), allowed(ADA, GRACE))
    assert (signed.problems, signed.signers, signed.notes) == ((), (f"Ada Lovelace as captain on {NOW}",), ())
    merged = with_signature(verified, signed)
    assert merged.exit_status == Exit.PASS
    assert merged.signed_by == signed.signers
    assert not [text for text in merged.not_checked if text.startswith("who made it")]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"person": EVE}, "nobody in params/signers"),
        ({"person": GRACE}, "only a captain signs a receipt"),
        ({"at": "2025-12-31T23:59:59Z"}, "key was not valid on 2025-12-31"),
        ({"at": "2028-01-01T00:00:00Z"}, "key was not valid on 2028-01-01"),
        ({"at": "2026-01-01T00:09:59Z"}, "before it was made"),
        ({"host": "elsewhere"}, "is about host 'elsewhere'"),
        ({"signer": "Grace Hopper"}, "claims to be by 'Grace Hopper', but the key is Ada Lovelace's"),
        ({"as": "author"}, "only a captain signs a receipt"),
        ({"subject": [{"name": "x", "digest": {"sha256": "0" * 64}}]}, "is about the file 000000000000, not this one"),
        ({"predicateType": "urn:lqw:record/1"}, "is a urn:lqw:record/1"),
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "_type"),
        ({"outcome": "RED"}, "RED"),
        ({"exit_status": 1}, "1"),
        ({"release": "1.1.1"}, "1.1.1"),
    ],
)
def test_what_does_not_count_makes_it_invalid_and_is_said(verified, edit, said):
    signed = check_receipt(verified, line(verified, **edit), allowed(ADA, GRACE))
    assert said in " ".join(map(str, signed.problems))
    merged = with_signature(verified, signed)
    assert (merged.exit_status, merged.signed_by) == (Exit.INVALID, ())


def test_a_captain_of_another_host_may_not_sign_here(verified):
    other = Person("Ada Lovelace", hosts=("gx10",))
    signed = check_receipt(verified, line(verified, other), allowed(other))
    assert "may not sign for host synthetic" in str(signed.problems[0])


def test_unsigned_is_invalid_unless_the_policy_names_the_host(verified):
    refused = check_receipt(verified, None, allowed(ADA))
    assert "no signature" in str(refused.problems[0])
    accepted = check_receipt(verified, None, allowed(ADA, unsigned=["synthetic"]))
    assert accepted.problems == ()
    assert "unsigned; params/signing.yaml allows that for host synthetic" in accepted.notes[0]
    assert with_signature(verified, accepted).exit_status == Exit.PASS
    for bundle in (b"", b"\n", b"{}\n", line(verified, EVE)):  # what is there must hold, also where it need not be
        assert check_receipt(verified, bundle, allowed(ADA, unsigned=["synthetic"])).problems


def test_nobody_is_allowed_where_nobody_is_named(verified):
    assert check_receipt(verified, line(verified), Signers((), {})).problems
    assert check_receipt(verified, line(verified), parse_signers({})).problems


def test_a_bundle_may_hold_lines_that_do_not_count(verified):
    junk = b'{"payloadType":"text/plain","payload":"","signatures":[]}\nnot json\n[]\n' + line(verified, EVE)
    signed = check_receipt(verified, junk + line(verified), allowed(ADA))
    assert (signed.problems, len(signed.signers), len(signed.notes)) == ((), 1, 4)


def test_any_byte_of_the_only_envelope_changed_is_no_signature(verified):
    good, signers = line(verified), allowed(ADA)
    envelope = json.loads(good)
    for field in ("payload", "sig"):
        raw = base64.b64decode(envelope["payload"] if field == "payload" else envelope["signatures"][0]["sig"])
        for at in range(0, len(raw), 7):
            other = base64.b64encode(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]).decode()
            edited = {**envelope, "payload": other}
            if field == "sig":
                edited = {**envelope, "signatures": [{"keyid": envelope["signatures"][0]["keyid"], "sig": other}]}
            assert check_receipt(verified, canonical_bytes(edited), signers).problems
    assert check_receipt(verified, good[:-20], signers).problems


def test_the_key_id_is_a_hint_and_decides_nothing(verified):
    for hint in ("", "0" * 64, "x" * 1000, None):
        envelope = json.loads(line(verified))
        envelope["signatures"][0]["keyid"] = hint
        assert check_receipt(verified, canonical_bytes(envelope), allowed(ADA)).problems == ()
    forged = json.loads(line(verified, EVE))
    forged["signatures"][0]["keyid"] = json.loads(line(verified))["signatures"][0]["keyid"]
    assert check_receipt(verified, canonical_bytes(forged), allowed(ADA)).problems


def test_bundles_without_end_are_refused(verified):
    for bundle in (b"x" * 2_000_000, b"{}\n" * 65):
        assert check_receipt(verified, bundle, allowed(ADA)).problems[0].field == "signature"


def test_an_invalid_receipt_is_not_asked_who_made_it(receipt, verified):
    broken = verify_receipt(receipt[:-1])
    signed = check_receipt(broken, line(verified), allowed(ADA))
    assert (signed.problems, signed.signers) == ((), ())
    assert with_signature(broken, signed).exit_status == Exit.INVALID


def test_our_envelopes_are_those_of_securesystemslib(verified):
    """securesystemslib verifies what we sign, and we verify what it signs: the same bytes, PAE and base64."""
    signer = CryptoSigner(ADA.key)
    ours = json.loads(line(verified))
    ours["signatures"][0]["keyid"] = signer.public_key.keyid  # its keyid is another hash of the key
    envelope = dsse.Envelope.from_dict(ours)
    assert list(envelope.verify([signer.public_key], 1)) == [signer.public_key.keyid]
    payload = receipt_statement(verified, name="1.1.0.json", signer=ADA.name, signed_utc=NOW)
    theirs = dsse.Envelope(payload, PAYLOAD_TYPE, {})
    theirs.sign(signer)
    assert theirs.pae() == pae(PAYLOAD_TYPE, payload)
    (read,) = parse_bundle(json.dumps(theirs.to_dict()).encode())
    assert signed_with(read, public_bytes(ADA.key))
    assert check_receipt(verified, json.dumps(theirs.to_dict()).encode(), allowed(ADA)).problems == ()


def test_the_encoding_that_is_signed_is_the_specifications_example():
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_the_statement_is_an_in_toto_statement(verified):
    document = json.loads(receipt_statement(verified, name="1.1.0.json", signer=ADA.name, signed_utc=NOW))
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["subject"] == [{"name": "1.1.0.json", "digest": {"sha256": verified.receipt_sha256}}]
    assert parse_statement(canonical_bytes({**document, "more": 1})).sha256 == verified.receipt_sha256  # monotonic
    for payload in (b"{}", b"[]", b'{"_type":1,"_type":2}', b'{"a":NaN}', b"[" * 10_000, b"\xff"):
        with pytest.raises(IntegrityError, match="statement"):
            parse_statement(payload)


RECORD = {
    "schema": "lqw-rebase/1",
    "host": "synthetic",
    "author": ADA.name,
    "approver": GRACE.name,
    "row": "tiny/decode",
}


def both(record, author=ADA, approver=GRACE):
    def one(person, as_):
        statement = record_statement(
            sha256_bytes(record), name="r.json", host="synthetic", as_=as_, signer=person.name, signed_utc=NOW
        )
        return sign_payload(statement, person.key)

    return one(author, "author") + one(approver, "approver")


def test_a_record_needs_its_author_and_an_approver():
    record = canonical_bytes(RECORD)
    signed = check_record(record, both(record), allowed(ADA, GRACE))
    assert signed.problems == ()
    assert signed.signers == (f"Ada Lovelace as author on {NOW}", f"Grace Hopper as approver on {NOW}")
    first, second = both(record).splitlines()
    for bundle, missing in ((None, 2), (b"", 2), (first, 1), (second, 1), (first + b"\n" + first, 1)):
        assert len(check_record(record, bundle, allowed(ADA, GRACE)).problems) == missing
    assert check_record(record + b" ", both(record), allowed(ADA, GRACE)).problems


@pytest.mark.parametrize("approver", ["Ada Lovelace", "ada  lovelace", "ADA LOVELACE", "Ａda Lovelace"])
def test_a_record_approved_by_its_own_author_is_invalid_also_where_none_need_sign(approver):
    record = canonical_bytes({**RECORD, "approver": approver})
    for bundle, unsigned in ((None, ["synthetic"]), (both(record, ADA, ADA), [])):
        signed = check_record(record, bundle, allowed(ADA, GRACE, unsigned=unsigned))
        assert any("somebody else than its author" in str(problem) for problem in signed.problems)


def test_one_key_cannot_be_two_people():
    """Ada signs as author, and as approver under Grace's name with her own key."""
    record = canonical_bytes(RECORD)
    first = both(record).splitlines()[0]
    statement = record_statement(
        sha256_bytes(record), name="r", host="synthetic", as_="approver", signer=GRACE.name, signed_utc=NOW
    )
    signed = check_record(record, first + b"\n" + sign_payload(statement, ADA.key), allowed(ADA, GRACE))
    assert any("Grace Hopper's as approver" in str(problem) for problem in signed.problems)
    twice = files_of(ADA)
    twice["signers/again.yaml"] = twice["signers/0.yaml"].replace(b"Ada Lovelace", b"Somebody Else")
    with pytest.raises(ParamsError, match="is Ada Lovelace's key too"):
        parse_signers(twice)


def test_a_captain_approves_nothing():
    charles = Person("Charles Babbage")
    record = canonical_bytes({**RECORD, "approver": charles.name})
    signed = check_record(record, both(record, ADA, charles), allowed(ADA, charles))
    assert "is no approver" in str(signed.problems[0])


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"host":1,"author":"a","approver":"b"}', b"x" * 300_000])
def test_what_is_no_record_is_invalid(record):
    assert check_record(record, None, allowed(unsigned=["synthetic"])).problems


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"name": " Ada"}, "name"),
        ({"name": "A\u202eda"}, "printable"),
        ({"role": "king"}, "role"),
        ({"public_key": "ed25519:AAAA"}, "public_key"),
        ({"public_key": "rsa:" + "A" * 43 + "="}, "public_key"),
        ({"valid_until": "2020-01-01"}, "valid_until"),
        ({"hosts": []}, "hosts"),
        ({"hosts": ["*"]}, "hosts"),
        ({"more": 1}, "more"),
        ({"schema": "lqw-signer/2"}, "schema"),
    ],
)
def test_signer_files_are_strict(edit, said):
    text = yaml.safe_dump({**yaml.safe_load(ADA.yaml), **edit}, allow_unicode=True)
    with pytest.raises(ParamsError, match=said):
        parse_signers({"signers/ada.yaml": text.encode()})


def test_one_person_has_one_role_and_may_have_two_keys():
    old, new = Person("Ada Lovelace", until="2026-02-01"), Person("Ada Lovelace", start="2026-02-01")
    assert len(allowed(old, new).people) == 2
    with pytest.raises(ParamsError, match="captain already"):
        allowed(ADA, Person("ada lovelace", "approver"))
    for files in ({"signers/a.yaml": b"\xff"}, {"signers/a.yaml": b"x" * 20_000}, {"signing.yaml": b"a: 1"}):
        with pytest.raises(ParamsError):
            parse_signers(files)


def test_same_person():
    assert same_person("José  Müller", "josé müller")
    assert not same_person("José", "Jose")


def test_verify_looks_beside_the_file_and_only_at_its_repositorys_params(tmp_path, receipt):
    root = repository(tmp_path / "repo", ADA, GRACE)
    place = root / "receipts" / "synthetic" / "1.1.0.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(receipt)
    assert verify_signed(place).exit_status == Exit.INVALID  # this host needs a signature
    planted = repository(place.parent, EVE, unsigned=["synthetic"])  # a forger's params beside the receipt
    (planted / ".git").rmdir()
    assert verify_signed(place).exit_status == Exit.INVALID
    signer, role = sign_file(place, ADA.key, find_signers(place), signed_utc=NOW)
    assert (signer.name, role) == ("Ada Lovelace", "captain")
    assert verify_signed(place).exit_status == Exit.PASS
    before = bundle_of(place).read_bytes()
    sign_file(place, ADA.key, find_signers(place), signed_utc="2026-03-02T12:00:00Z")
    assert bundle_of(place).read_bytes() == before  # twice adds nothing
    (root / "params" / "signers" / "0.yaml").unlink()
    assert verify_signed(place).exit_status == Exit.INVALID  # Ada left
    outside = tmp_path / "alone.json"
    outside.write_bytes(receipt)
    alone = verify_signed(outside)
    assert alone.exit_status == Exit.PASS
    assert any("no params/signing.yaml" in text for text in alone.not_checked)
    assert verify_signed(outside, root / "params").exit_status == Exit.INVALID
    with pytest.raises(UsageError, match="holds neither"):
        verify_signed(outside, tmp_path)


def test_sign_refuses_what_would_not_count(tmp_path, receipt):
    root = repository(tmp_path, ADA, GRACE)
    place = root / "1.1.0.json"
    place.write_bytes(receipt)
    for person, said in ((EVE, "nobody in params/signers"), (GRACE, "only a captain")):
        with pytest.raises(UsageError, match=said):
            sign_file(place, person.key, find_signers(place), signed_utc=NOW)
    with pytest.raises(UsageError, match="before it was made"):
        sign_file(place, ADA.key, find_signers(place), signed_utc="2026-01-01T00:00:00Z")
    place.write_bytes(receipt[:-1])
    with pytest.raises(IntegrityError, match="nobody signs that"):
        sign_file(place, ADA.key, find_signers(place), signed_utc=NOW)
    with pytest.raises(UsageError, match="No such file"):
        sign_file(root / "gone.json", ADA.key, find_signers(place), signed_utc=NOW)
    assert not bundle_of(place).exists()


def test_a_record_is_signed_by_two(tmp_path):
    root = repository(tmp_path, ADA, GRACE, EVE)
    place = root / "receipts" / "record.json"
    place.parent.mkdir()
    place.write_bytes(canonical_bytes(RECORD))
    assert sign_file(place, ADA.key, find_signers(place), signed_utc=NOW)[1] == "author"
    assert len(verify_record(place).problems) == 1
    with pytest.raises(UsageError, match="names neither"):
        sign_file(place, EVE.key, find_signers(place), signed_utc=NOW)
    with pytest.raises(UsageError, match="may not sign"):
        sign_file(place, ADA.key, find_signers(place), signed_utc=NOW, as_="approver")
    assert sign_file(place, GRACE.key, find_signers(place), signed_utc=NOW)[1] == "approver"
    assert verify_record(place).problems == ()
    place.write_bytes(canonical_bytes({**RECORD, "approver": ADA.name}))
    with pytest.raises(IntegrityError, match="somebody else than its author"):
        sign_file(place, ADA.key, find_signers(place), signed_utc=NOW)


def test_the_committed_policy_and_signers_are_sound():
    found = load_signers(Path(__file__).parents[2] / "params")
    assert set(found.unsigned_allowed) == {"demo", "h200"}  # a rehearsal, a demonstration


def test_an_edited_receipt_keeps_no_signature(receipt, verified):
    document = loads_strict(receipt)
    document["run"]["finished_utc"] = "2026-01-01T00:10:01Z"
    again = verify_receipt(seal(document))
    assert again.exit_status == Exit.PASS  # nothing follows from that clock …
    assert check_receipt(again, line(verified), allowed(ADA)).problems  # … but the signature binds it
