"""The proof that a notebook ran: every way in which an executed notebook can look complete and not be."""

import copy
import json

import pytest

from lqw.canonical import canonical_bytes, sha256_file
from lqw.pipeline.proof import EXPECTED_END, artefact_problems, end_of, notebook_problems

STAMP = "2026-12-02T05:00:00"


def cell(source, count, *, tags=(), outputs=(), status="completed", exception=False):
    record = {"status": status, "exception": exception, "end_time": STAMP}
    return {
        "cell_type": "code",
        "source": source,
        "execution_count": count,
        "outputs": list(outputs),
        "metadata": {"tags": list(tags), "papermill": record},
    }


def error(name):
    return {"output_type": "error", "ename": name, "evalue": "seen", "traceback": []}


ORIGINAL = {"cells": [cell("run_dir = None", None, tags=["parameters"]), cell("work()", None), cell("end()", None)]}
GOOD = {
    "cells": [
        cell("run_dir = None", 1, tags=["parameters"]),
        cell("run_dir = 'x'", 2, tags=["injected-parameters"]),
        {"cell_type": "markdown", "source": "text", "metadata": {}},
        cell("work()", 3),
        cell("end()", 4),
    ],
    "metadata": {"papermill": {"end_time": STAMP, "exception": None}},
}


def problems(tmp_path, executed, **more):
    source, done = tmp_path / "40_verdict.ipynb", tmp_path / "done.ipynb"
    source.write_text(json.dumps(ORIGINAL))
    done.write_text(executed if isinstance(executed, str) else json.dumps(executed))
    return notebook_problems(source, done, **more)


def changed(edit):
    book = copy.deepcopy(GOOD)
    edit(book, book["cells"])
    return book


def test_a_whole_run_has_no_problem(tmp_path):
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda b, c: c[4].update(execution_count=None), "execution count None, not 4"),
        (lambda b, c: c[4].update(execution_count=9), "execution count 9, not 4"),
        (lambda b, c: c[3]["outputs"].append(error("ValueError")), "ValueError"),
        (lambda b, c: c[3]["metadata"]["papermill"].update(status="running"), "'running'"),
        (lambda b, c: c[3]["metadata"]["papermill"].update(end_time=None), "not 'completed'"),
        (lambda b, c: c[3]["metadata"]["papermill"].update(exception=True), "exception True"),
        (lambda b, c: c[3]["metadata"].pop("papermill"), "status None"),
        (lambda b, c: c.pop(), "not the committed notebook"),
        (lambda b, c: c[3].update(source="pass"), "not the committed notebook"),
        (lambda b, c: b["metadata"]["papermill"].update(end_time=None), "recorded no end"),
        (lambda b, c: b["metadata"].clear(), "recorded no end"),
        (lambda b, c: b["metadata"]["papermill"].update(exception=True), "that no cell shows"),
        (lambda b, c: c.clear(), "no code cell"),
    ],
)
def test_each_sign_of_an_unfinished_run_is_named(tmp_path, edit, said):
    assert said in "\n".join(problems(tmp_path, changed(edit)))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": NaN}'])
def test_an_unreadable_notebook_is_a_problem_not_a_traceback(tmp_path, text):
    assert problems(tmp_path, text) != []


def test_a_missing_notebook_is_a_problem(tmp_path):
    assert notebook_problems(tmp_path / "a.ipynb", tmp_path / "b.ipynb") == [
        "a: executed notebook is missing or unreadable"
    ]


def _ended(name):
    def edit(book, cells):
        cells[4]["outputs"].append(error(name))
        cells[4]["metadata"]["papermill"].update(status="failed", exception=True)
        book["metadata"]["papermill"]["exception"] = True
        cells.insert(0, {"cell_type": "markdown", "source": "!", "metadata": {"tags": ["papermill-error-cell-tag"]}})

    return changed(edit)


@pytest.mark.parametrize("name", EXPECTED_END)
def test_an_expected_end_is_allowed_in_the_last_cell_only(tmp_path, name):
    assert problems(tmp_path, _ended(name), may_raise=tuple(EXPECTED_END)) == []
    assert problems(tmp_path, _ended(name)) != []
    assert end_of(tmp_path / "done.ipynb") == (name, "seen")
    early = changed(lambda b, c: c[3]["outputs"].append(error(name)))
    assert problems(tmp_path, early, may_raise=tuple(EXPECTED_END)) != []


def test_an_unexpected_end_is_never_allowed(tmp_path):
    assert problems(tmp_path, _ended("SystemExit"), may_raise=tuple(EXPECTED_END)) != []


@pytest.fixture
def artefact(tmp_path):
    (tmp_path / "in.json").write_text("{}")

    def write(**changes):
        body = {"schema": "s/1", "run_id": "r", "inputs": {"in.json": sha256_file(tmp_path / "in.json")}, **changes}
        path = tmp_path / "a.json"
        path.write_bytes(canonical_bytes({k: v for k, v in body.items() if v is not None}))
        return artefact_problems(path, schema="s/1", run_id="r", folder=tmp_path)

    return write


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": "s/2"}, "schema 's/2'"),
        ({"run_id": "q"}, "of run 'q'"),
        ({"inputs": None}, "names no inputs"),
        ({"inputs": {}}, "names no inputs"),
        ({"inputs": {"in.json": "0" * 64}}, "has changed since"),
        ({"inputs": {"gone.json": "0" * 64}}, "not in the run folder"),
        ({"inputs": {"../in.json": "0" * 64}}, "not in the run folder"),
    ],
)
def test_an_artefact_of_something_else_is_named(artefact, changes, said):
    assert artefact() == []
    assert said in "\n".join(artefact(**changes))


def test_an_absent_or_broken_artefact_is_a_problem(tmp_path):
    path = tmp_path / "a.json"
    assert artefact_problems(path, schema="s/1", run_id="r", folder=tmp_path) != []
    path.write_text('{"a": 1, "a": 2}')
    assert "duplicate" in artefact_problems(path, schema="s/1", run_id="r", folder=tmp_path)[0]
