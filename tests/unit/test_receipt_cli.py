"""``lqw verify``: exit statuses, several receipts, plain output, hostile content."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lqw.canonical import loads_strict
from lqw.cli.plain import plain
from lqw.cli.verify import verify
from lqw.errors import UsageError
from lqw.receipt.build import seal
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

app = typer.Typer(add_completion=False)
app.command()(verify)
runner = CliRunner()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return name → path of one receipt of each outcome."""
    root = tmp_path_factory.mktemp("receipts")
    store = adopt_floor(root / "store", synthetic_params(release="1.0.0"))
    params = synthetic_params(release="1.1.0")
    made = {
        "pass": gate_receipt(store, params, seed=5),
        "red": gate_receipt(store, params, seed=5, effects={"decode": 0.4}),
        "undecided": gate_receipt(store, params, pairs=2),
    }
    document = loads_strict(made["pass"])
    document["starts"][2]["requests"][1]["ttft_ns"] = round(document["starts"][2]["requests"][1]["ttft_ns"] * 1.01)
    made["edited"] = seal(document)
    for name, data in made.items():
        (root / f"{name}.json").write_bytes(data)
    return {name: str(root / f"{name}.json") for name in made}


@pytest.mark.parametrize(("name", "status"), [("pass", 0), ("red", 1), ("undecided", 3), ("edited", 4)])
def test_exit_status_of_one(files, name, status):
    result = runner.invoke(app, [files[name]])
    assert result.exit_code == status
    assert "rows: planned 8, measured " in result.stdout


@pytest.mark.parametrize(
    ("names", "status"),
    [(("pass", "red"), 1), (("undecided", "pass"), 3), (("red", "undecided"), 1), (("pass", "edited", "red"), 4)],
)
def test_exit_status_of_several_is_the_worst(files, names, status):
    assert runner.invoke(app, [files[name] for name in names]).exit_code == status


def test_an_edit_is_named_with_both_values(files):
    out = runner.invoke(app, [files["edited"]]).stdout
    assert "INVALID (exit 4)" in out
    assert "judgement.rows." in out
    assert "recorded" in out
    assert "follows (recompute)" in out


def test_no_receipt_is_never_a_pass(files, tmp_path):
    assert isinstance(runner.invoke(app, []).exception, UsageError)
    for path in (tmp_path, tmp_path / "receipts" / "*.json"):
        for arguments in ([str(path)], [files["pass"], str(path)]):
            assert isinstance(runner.invoke(app, arguments).exception, UsageError)


def test_json_holds_everything(files):
    (one,) = json.loads(runner.invoke(app, ["--json", files["edited"]]).stdout)
    assert one["exit_status"] == 4
    assert one["counts"]["planned"] == 8
    assert {"field", "recorded", "recomputed", "check"} == set(one["problems"][0])


HOSTILE = "\x1b[2J\x1b]0;title\x07 <b>&\u202egnp\u2066 \r\nPASS \x00\x9b \u2028 \ud83d"


def test_hostile_text_is_harmless():
    shown = plain(HOSTILE)
    assert shown.isprintable()
    assert "\\x1b[2J" in shown
    assert len(plain("x" * 10_000)) == 400
    assert plain("± σ ≥ 12 % · 日本") == "± σ ≥ 12 % · 日本"


def test_hostile_receipts_print_one_harmless_line_each(files, tmp_path):
    document = loads_strict(Path(files["pass"]).read_bytes())
    document["header"]["host"]["name"] = HOSTILE.replace("\ud83d", "")
    document["judgement"]["sentence"] = HOSTILE.replace("\ud83d", "")
    evil = tmp_path / "evil.json"
    evil.write_bytes(seal(document))
    result = runner.invoke(app, [str(evil)])
    assert result.exit_code == 4
    assert all(line.isprintable() for line in result.stdout.split("\n"))
