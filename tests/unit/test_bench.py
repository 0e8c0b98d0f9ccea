"""``lqw bench``: one engine's rows as table, CSV, Markdown and JSON; prompts sized by a server's own count."""

import csv
import json
import re

import pytest
import yaml

from lqw.cli.app import run
from lqw.collect.calibrate import Calibration, Load, null_server
from lqw.collect.sized import sized_prompts
from lqw.engines.base import Prompt
from lqw.engines.openai_url import OpenAiUrl
from lqw.errors import Exit
from lqw.outcomes import Reason
from lqw.params import ProtocolSpec
from lqw.samples import Failure, StartRecord
from tests.support.fake_params import ENVIRONMENT, REPOSITORY, write_params

STEPS = [
    {"kind": "cached", "prompt_tokens": 64, "suffix_tokens": 16, "repeats": 1, "warmups": 0},
    {"kind": "cold", "prompt_tokens": 64, "repeats": 2, "warmups": 1},
    {"kind": "decode", "prompt_tokens": 16, "output_tokens": 16, "repeats": 1, "warmups": 0},
]
ROWS = ["ttft@64", "prefill@64", "decode", "agg@2", "ttft_cached@64", "vram_peak", "rss_peak"]
AGG = {"kind": "agg", "prompt_tokens": 16, "output_tokens": 32, "streams": 2, "repeats": 1, "warmups": 0}
FAST = {"slots": 1, "steps": STEPS}
FOUR = {"slots": 2, "steps": [AGG]}
PROTOCOL = {
    "schema": "lqw-protocol/1",
    "name": "small",
    "rows": ROWS,
    "launches": [FAST, FOUR],
    "min_window_s": 0.001,
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a small protocol and a model; the client is taken to be punctual."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    write_params(tmp_path, releases={})
    (tmp_path / "params/protocols/small.yaml").write_text(yaml.safe_dump(PROTOCOL))
    monkeypatch.chdir(tmp_path)
    _client_error(monkeypatch, 0.3)
    return tmp_path


def _client_error(monkeypatch, ttft_ms):
    def measure(_target, load: Load):
        return Calibration(load, ttft_ms, ttft_ms, 0.1, 0.1, 0.2)

    monkeypatch.setattr("lqw.collect.session.calibrate_patiently", measure)


ENGINE = ["bench", "fake", "--model", "params/fake/model.gguf", "--protocol", "params/protocols/small.yaml"]


def test_every_row_has_a_value_or_its_reason_in_four_forms(place, capsys):
    files = ["--json", "b.json", "--csv", "b.csv", "--markdown", "b.md", "--set", "decode_tok_s=400", "--starts", "2"]
    assert run([*ENGINE, *files, "--journal", "b.jsonl"]) == Exit.PASS  # a CPU host has no GPU memory to read
    shown = capsys.readouterr().out
    body = json.loads((place / "b.json").read_text())
    assert [row["row"] for row in body["rows"]] == ROWS
    without = {row["row"]: row["failure"]["reason"] for row in body["rows"] if row["failure"]}
    assert without == {"vram_peak": "NO_MEMORY_READING"}
    values = {row["row"]: row["value"] for row in body["rows"]}
    assert all(value > 0 for row, value in values.items() if row != "vram_peak")
    assert values["prefill@64"] == pytest.approx(64e3 / values["ttft@64"], rel=0.5)
    assert all(row["starts"] == 2 and row["sd_fraction"] is not None for row in body["rows"] if not row["failure"])
    assert body["facts"]["engine"] == "fake"
    assert re.fullmatch("[0-9a-f]{64}", body["model_sha256"])
    with (place / "b.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["row"], row["value"]) for row in table] == [(r, str(values[r] or "")) for r in ROWS]
    records = [StartRecord.model_validate_json(line) for line in (place / "b.jsonl").read_text().splitlines()]
    assert [(record.pair, record.launch) for record in records] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    markdown = (place / "b.md").read_text()
    for row in ROWS:
        assert f"| {row} |" in markdown
        assert row in shown


def test_a_late_client_voids_what_it_timed_and_not_the_memory(place, monkeypatch, capsys):
    _client_error(monkeypatch, 6.0)
    assert run([*ENGINE, "--json", "-"]) == Exit.UNDECIDED
    rows = {row["row"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["decode"]["failure"]["reason"] == "CLIENT_LATE"
    assert "it read" in rows["decode"]["failure"]["detail"]
    assert rows["rss_peak"]["value"] > 0


def test_an_engine_that_does_not_start_is_named_on_every_row(place, capsys):
    assert run([*ENGINE, "--json", "-", "--set", "fault=exit_at_once"]) == Exit.UNDECIDED
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["failure"]["reason"] for row in rows} == {"FAILED_START"}


def test_an_engine_that_crawls_ends_at_the_deadline_and_every_row_says_so(place, capsys):
    crawl = ["--set", "decode_tok_s=0.2", "--starts", "3", "--deadline", "2"]  # 16 tokens would take 80 s
    assert run([*ENGINE, "--json", "-", *crawl]) == Exit.UNDECIDED
    rows = {row["row"]: row["failure"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {failure["reason"] for failure in rows.values()} == {"TIMEOUT"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench"], "name an ENGINE or --url"),
        (["bench", "fake", "--url", "http://127.0.0.1:1"], "one of them"),
        (["bench", "fake"], "needs a model"),
        (["bench", "fake", "--model", "absent.gguf"], "absent.gguf"),
        ([*ENGINE, "--set", "threads"], "not NAME=VALUE"),
        ([*ENGINE, "--set", "nonsense=1"], "nonsense"),
        ([*ENGINE, "--compute", "tpu"], "neither cpu nor cuda"),
        ([*ENGINE[:-1], "nowhere"], "protocols/nowhere.yaml is not there"),
        (["bench", "--url", "ftp://x"], "not http://HOST:PORT"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_started(place, capsys, words, said):
    assert run(words) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_the_protocol_of_thirteen_rows_is_measurements():
    protocol = ProtocolSpec.model_validate(yaml.safe_load((REPOSITORY / "params/protocols/thirteen.yaml").read_text()))
    assert len(protocol.rows) == 13
    steps = {step.step_id: step for launch in protocol.launches for step in launch.steps}
    assert {name: steps[name].repeats for name in ("cold@850", "cold@4096", "cold@32768", "decode")} == {
        "cold@850": 7, "cold@4096": 7, "cold@32768": 3, "decode": 3,
    }  # fmt: skip
    assert all(steps[f"agg@{c}"].output_tokens == 256 and steps[f"agg@{c}"].repeats == 2 for c in (1, 4, 16))


# a server that is there ---------------------------------------------------------------------------------------------

CORPUS = " ".join(f"word{i} it" for i in range(400))


TEMPLATE = 9


def _count(text, route="completion"):
    """A tokenizer in which longer words are two tokens; a text has a begin token, a chat its template."""
    return (TEMPLATE if route == "chat" else 1) + sum(1 if len(word) < 4 else 2 for word in text.split())


def _protocol():
    return ProtocolSpec.model_validate(PROTOCOL)


def test_prompts_are_exact_by_the_servers_own_count_and_share_no_beginning():
    protocol = _protocol()
    made = sized_prompts(protocol, CORPUS, _count)
    for key, text in made.texts.items():
        assert _count(text) == len(made.ids[key])
    lengths = {key[:2]: len(ids) for key, ids in made.ids.items()}
    assert lengths["cached@64", "prime"] == lengths["cold@64", "timed"] == 64
    assert lengths["cached@64", "timed"] == 80
    prime = made.texts["cached@64", "prime", 0, 0]
    assert made.texts["cached@64", "timed", 0, 0].startswith(prime + " ")
    firsts = [text[:3] for key, text in made.texts.items() if not (key[0] == "cached@64" and key[1] == "timed")]
    assert len(set(firsts)) == len(firsts)
    assert len(set(made.ids.values())) == len(made.ids), "their hashes differ too"


def test_chats_are_sized_with_their_template_and_left_out_where_there_is_no_such_route():
    raw = {**PROTOCOL, "launches": [FAST, {"slots": 2, "steps": [{**AGG, "route": "chat"}]}]}
    protocol = ProtocolSpec.model_validate(raw)
    made = sized_prompts(protocol, CORPUS, _count)
    seen = {(key[0], _count(text, "chat" if key[0] == "agg@2" else "completion")) for key, text in made.texts.items()}
    assert seen == {("cached@64", 64), ("cached@64", 80), ("cold@64", 64), ("decode", 16), ("agg@2", 16)}
    without = sized_prompts(protocol, CORPUS, _count, ("completion",))
    assert {key[0] for key in without.texts} == {"cached@64", "cold@64", "decode"}


def test_a_server_that_cannot_be_sized_says_why():
    failed = sized_prompts(_protocol(), CORPUS, lambda *_: Failure(reason=Reason.HTTP_ERROR, detail="no"))
    assert failed.detail == "no"
    odd = sized_prompts(_protocol(), CORPUS, lambda text, _: 2 * len(text.split()) + 1)
    assert odd.reason is Reason.PROMPT_LENGTH


def test_what_is_sent_to_a_server():
    request = OpenAiUrl("m", chat=True).request_body("cold", Prompt((), "hello"), 7, cache=False, stream=True, slot=0)
    assert request.path == "/v1/chat/completions"
    body = json.loads(request.body)
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["max_tokens"], body["cache_prompt"], body["id_slot"]) == (7, False, 0)
    assert body["stream_options"] == {"include_usage": True}


def test_a_server_that_runs_is_asked_on_its_openai_route(place, tmp_path, capsys):
    """The null server reuses nothing, and says so by saying nothing: a cached row is not believed."""
    with null_server("bench", tmp_path / "null.log") as target:
        url = f"http://{target.host}:{target.port}/v1"
        assert run(["bench", "--url", url, "--chat", "--protocol", ENGINE[-1], "--json", "-"]) == Exit.UNDECIDED
    body = json.loads(capsys.readouterr().out)
    assert body["facts"]["settings"] == {"models": ["null"], "settings_proven": False}
    without = {row["row"]: row["failure"]["reason"] for row in body["rows"] if row["failure"]}
    assert without == {"ttft_cached@64": "NO_REUSE", "vram_peak": "NO_MEMORY_READING"}
    values = {row["row"]: row["value"] for row in body["rows"]}
    assert values["ttft@64"] >= 20.0, "the first token is 20 ms away"
    assert values["decode"] > 0


def test_a_server_that_does_not_answer_is_named_on_every_row(place, capsys):
    words = ["bench", "--url", "http://127.0.0.1:1", "--protocol", ENGINE[-1], "--json", "-"]
    assert run(words) == Exit.UNDECIDED
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["failure"]["reason"] for row in rows} == {"FAILED_START"}
