"""Private keys: mode, place, passphrase; and the commands around them."""

import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from typer.testing import CliRunner

from lqw.canonical import canonical_bytes
from lqw.cli.app import app_of, run
from lqw.errors import UsageError
from lqw.params.signers import load_signers
from lqw.receipt.dsse import public_bytes
from lqw.receipt.keys import NeedsPassphrase, default_folder, new_key, read_key, write_key
from lqw.receipt.paths import repository_of
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params
from tests.support.signing import Person, repository

app, runner = app_of(None), CliRunner()
ROWS = ("ttft@16", "decode")


@pytest.mark.parametrize("passphrase", [None, b"correct horse"])
def test_a_key_comes_back_and_only_its_owner_may_read_it(tmp_path, passphrase):
    place, key = tmp_path / "new" / "ada.pem", new_key()
    old = os.umask(0)
    try:
        write_key(place, key, passphrase)
    finally:
        os.umask(old)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert public_bytes(read_key(place, passphrase)) == public_bytes(key)
    assert (b"ENCRYPTED" in place.read_bytes()) is (passphrase is not None)
    with pytest.raises(UsageError, match="never overwritten"):
        write_key(place, key)


def test_other_peoples_eyes_other_passphrases_and_other_files_are_refused(tmp_path):
    place = tmp_path / "ada.pem"
    write_key(place, new_key(), b"one")
    with pytest.raises(NeedsPassphrase, match="is encrypted"):
        read_key(place)
    with pytest.raises(UsageError, match="another passphrase"):
        read_key(place, b"two")
    place.chmod(0o640)
    with pytest.raises(UsageError, match="mode 0640"):
        read_key(place, b"one")
    plain = tmp_path / "plain.pem"
    write_key(plain, new_key())
    with pytest.raises(UsageError, match="is not encrypted"):
        read_key(plain, b"one")
    other = tmp_path / "ec.pem"
    pem = generate_private_key(SECP256R1()).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    for data, said in ((pem, "not an Ed25519"), (b"no", "not a private key"), (b"x" * 20_000, "not a key file")):
        other.write_bytes(data)
        other.chmod(0o600)
        with pytest.raises(UsageError, match=said):
            read_key(other)
    for missing, said in ((tmp_path / "gone.pem", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError, match=said):
            read_key(missing)


def test_a_key_never_lies_in_a_work_tree_not_even_behind_a_link(tmp_path):
    repo = repository(tmp_path / "repo")
    (repo / "deep").mkdir()
    (tmp_path / "link").symlink_to(repo / "deep")
    (repo / "out").symlink_to(tmp_path / "elsewhere")
    for place in (repo / "a.pem", repo / "deep" / "a.pem", tmp_path / "link" / "a.pem", repo / "out" / "a.pem",
                  tmp_path / "x" / ".." / "repo" / "a.pem"):  # fmt: skip
        with pytest.raises(UsageError, match="git work tree"):
            write_key(place, new_key())
        assert not place.exists()
    inside = repo / "b.pem"
    outside = tmp_path / "b.pem"
    write_key(outside, new_key())
    inside.write_bytes(outside.read_bytes())
    inside.chmod(0o600)
    with pytest.raises(UsageError, match="git work tree"):
        read_key(inside)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        write_key(tmp_path / "file" / "a.pem", new_key())


def test_a_linked_worktree_is_one_too(tmp_path):
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert repository_of(tmp_path / "a" / "b") == tmp_path
    assert repository_of(tmp_path / "a" / ".." / ".." / "b") != tmp_path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_from_new_key_to_a_signed_receipt(home):
    """What a captain does: make a key, commit its public half, gate, sign; and CI verifies."""
    repo = repository(home / "repo")
    made = runner.invoke(app, ["key", "new", "Ada Lovelace", "--role", "captain", "--host", "synthetic"])
    assert made.exit_code == 0
    assert "PRIVATE" not in made.output
    (repo / "params" / "signers").mkdir()
    (repo / "params" / "signers" / "ada.yaml").write_text(made.stdout)
    (one,) = load_signers(repo / "params").people
    assert (one.name, one.role, one.hosts) == ("Ada Lovelace", "captain", ["synthetic"])
    assert public_bytes(read_key(default_folder() / "ada-lovelace.pem")) == one.public_bytes
    store = adopt_floor(home / "store", synthetic_params(rows=ROWS, release="1.0.0", repeats=1))
    place = repo / "receipts" / "synthetic" / "1.1.0.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(gate_receipt(store, synthetic_params(rows=ROWS, release="1.1.0", repeats=1), seed=3))
    assert run(["verify", str(place)]) == 4
    signed = runner.invoke(app, ["sign", str(place)])
    assert signed.exit_code == 0, signed.output
    assert "signed by Ada Lovelace as captain; commit" in signed.output
    said = runner.invoke(app, ["verify", str(place)])
    assert said.exit_code == 0
    assert "signed by Ada Lovelace as captain on " in said.output
    shown = runner.invoke(app, ["key", "show"])
    assert shown.output.split()[0] == one.public_key
    listed = runner.invoke(app, ["key", "list", "--params", str(repo / "params")])
    assert "captain   Ada Lovelace  synthetic" in listed.output
    assert run(["key", "new", "Ada Lovelace", "--role", "captain", "--host", "synthetic"]) == 2  # never overwritten
    assert run(["key", "new", "X Y", "--role", "king", "--host", "synthetic"]) == 2
    assert run(["key", "new", "X Y", "--role", "captain", "--host", "Bad Host"]) == 2
    assert not (default_folder() / "x-y.pem").exists()


def test_a_passphrase_from_a_file(home):
    (home / "secret").write_text("correct horse\n")
    out = home / "ada.pem"
    arguments = ["key", "new", "Ada", "--role", "approver", "--host", "h", "--out", str(out)]
    assert runner.invoke(app, [*arguments, "--passphrase-file", str(home / "secret")]).exit_code == 0
    assert public_bytes(read_key(out, b"correct horse"))
    show = ["key", "show", "--key", str(out)]
    assert run([*show, "--passphrase-file", str(home / "secret")]) == 0
    assert run(show) == 2  # nobody is there to ask
    (home / "secret").write_text("\n")
    assert run([*show, "--passphrase-file", str(home / "secret")]) == 2
    assert run([*show, "--passphrase-file", str(home / "gone")]) == 2


def test_a_passphrase_is_asked_for_twice(home):
    out = home / "ada.pem"
    arguments = ["key", "new", "Ada", "--role", "approver", "--host", "h", "--out", str(out), "--passphrase"]
    assert runner.invoke(app, arguments, input="one\none\n").exit_code == 0
    assert public_bytes(read_key(out, b"one"))


def test_which_key_is_said_where_it_is_not_clear(home, capsys):
    assert run(["key", "show"]) == 2
    assert "holds 0 keys" in capsys.readouterr().err
    for name in ("a", "b"):
        write_key(default_folder() / f"{name}.pem", new_key())
    assert run(["key", "show"]) == 2
    assert "holds 2 keys" in capsys.readouterr().err


def test_a_record_approved_by_its_own_author_ends_in_exit_4(home):
    ada = Person("Ada Lovelace")
    repo = repository(home / "repo", ada)
    write_key(home / "ada.pem", ada.key)
    record = repo / "record.json"
    document = {"schema": "lqw-rebase/1", "host": "synthetic", "author": ada.name, "approver": ada.name}
    record.write_bytes(canonical_bytes(document))
    assert run(["sign", "--key", str(home / "ada.pem"), str(record)]) == 4
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "record.json").write_bytes(canonical_bytes(document))
    assert run(["sign", "--key", str(home / "ada.pem"), str(home / "elsewhere" / "record.json")]) == 2
