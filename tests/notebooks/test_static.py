"""What the notebooks of the chain may contain (ARCHITECTURE, Notebooks): they show and steer, the library does."""

import ast
import json
from pathlib import Path

import pytest

from lqw.pipeline import notebooks, steps
from lqw.pipeline.runs import STAGES

FOLDER = Path(__file__).parents[2] / "notebooks"
PARAMETERS = {"params_file", "run_dir", "purpose", "host", "store"}
MAX_CELLS, MAX_LINES = 12, 12


def _code(stage):
    cells = json.loads((FOLDER / f"{stage}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _trees(stage):
    return [ast.parse(source) for source in _code(stage)]  # a magic or a shell escape is a SyntaxError


def test_committed_notebooks_are_what_their_twins_say():
    assert notebooks.drift(FOLDER) == []


@pytest.mark.parametrize("edit", ["output", "count", "id", "source"])
def test_an_edit_of_the_notebook_alone_is_drift(tmp_path, edit):
    (tmp_path / "sandbox").mkdir()
    for stage in notebooks.TWINS:
        for suffix in ("py", "ipynb"):
            (tmp_path / f"{stage}.{suffix}").write_bytes((FOLDER / f"{stage}.{suffix}").read_bytes())
    path = tmp_path / "20_correctness.ipynb"
    book = json.loads(path.read_text())
    cell = next(cell for cell in book["cells"] if cell["cell_type"] == "code")
    if edit == "output":
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    elif edit == "count":
        cell["execution_count"] = 1
    elif edit == "id":
        cell["id"] = "other"
    else:
        cell["source"] += "\n# edited"
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    assert notebooks.drift(tmp_path) == ["20_correctness.ipynb: not what 20_correctness.py says"]
    notebooks.sync(tmp_path)
    assert notebooks.drift(tmp_path) == []


@pytest.mark.parametrize("stage", STAGES)
def test_cells_are_few_and_short(stage):
    sources = _code(stage)
    assert 1 < len(sources) <= MAX_CELLS
    assert max(len(source.splitlines()) for source in sources) <= MAX_LINES
    assert [source for source in sources if not source.strip()] == []


@pytest.mark.parametrize("stage", STAGES)
def test_cells_define_nothing_branch_nowhere_and_catch_nothing(stage):
    banned = (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.TryStar, ast.Assert, ast.If,
        ast.For, ast.While, ast.With, ast.Raise, ast.Global, ast.Delete,
    )  # fmt: skip
    found = [type(node).__name__ for tree in _trees(stage) for node in ast.walk(tree) if isinstance(node, banned)]
    assert found == []


@pytest.mark.parametrize("stage", STAGES)
def test_cells_import_the_facade_alone_and_call_only_it(stage):
    imports, calls = [], []
    for tree in _trees(stage):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(ast.unparse(node))
            elif isinstance(node, ast.Call):
                calls.append(ast.unparse(node.func))
    assert imports == ["from lqw.pipeline import steps"]
    assert [call for call in calls if not call.startswith("steps.")] == []
    assert {call.removeprefix("steps.") for call in calls} <= set(steps.__all__)


@pytest.mark.parametrize("stage", STAGES)
def test_parameters_cell_comes_first_and_defaults_to_none(stage):
    book = json.loads((FOLDER / f"{stage}.ipynb").read_text())
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [i for i, cell in enumerate(cells) if "parameters" in cell["metadata"].get("tags", [])] == [0]
    assigned = ast.parse("".join(cells[0]["source"])).body
    assert {node.targets[0].id: node.value.value for node in assigned} == dict.fromkeys(PARAMETERS)


@pytest.mark.parametrize("stage", STAGES)
def test_the_validate_line_passes_every_parameter_and_names_its_stage(stage):
    (call,) = [
        node
        for tree in _trees(stage)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "steps.begin"
    ]
    assert ast.literal_eval(call.args[0]) == stage
    assert {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords} == {name: name for name in PARAMETERS}


def test_the_receipt_is_written_before_the_verdict_is_spoken_and_nothing_follows_it():
    sources = _code("40_verdict")
    assert sources[-1].strip() == "steps.conclude(judgement)"
    assert "steps.write_receipt(run)" in sources[-2]


@pytest.mark.parametrize("stage", STAGES)
def test_prose_explains_before_code_and_headings_are_in_order(stage):
    cells = json.loads((FOLDER / f"{stage}.ipynb").read_text())["cells"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert cells[0]["cell_type"] == "markdown"
    assert prose[0].startswith("# ")
    heads = [line for text in prose for line in text.splitlines() if line.startswith("#")]
    assert [head for head in heads[1:] if not head.startswith("## ")] == []
    assert len(prose) >= len(_code(stage)) // 2
    assert [text for text in prose if "![" in text or "<img" in text or "<script" in text] == []
