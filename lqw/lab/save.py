"""From a function in a notebook to a registry file with its test: one call writes module, registry line and test."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lqw
from lqw.canonical import write_atomic
from lqw.errors import UsageError
from lqw.lab.methods import calls_on_known, check_name, method_problems
from lqw.noise.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lqw.noise.batch import Bands

__all__ = ["Saved", "save_method"]

IMPORTS = {
    "math": "import math",
    "np": "import numpy as np",
    "replace": "from dataclasses import replace",
    "special": "from scipy import special",
    "gate_v1": "from lqw.noise.methods import gate_v1",
    "fixed_band": "from lqw.noise.methods import fixed_band",
    **dict.fromkeys(("Bands", "effect_floor", "pooled_prior"), "from lqw.noise.batch import {}"),
    **dict.fromkeys(("red_boundaries", "pass_boundaries", "row_alpha"), "from lqw.noise.boundaries import {}"),
    **dict.fromkeys(("critical_t", "norm_isf", "norm_sf", "t_isf"), "from lqw.noise.quantiles import {}"),
    "shrink": "from lqw.noise.shrink import shrink",
}
"""What a saved method may use beside its arguments and Python itself: name and the line that brings it."""

STANDARD = ("import math", "from dataclasses")

MODULE = '''"""{doc}

Written in the noise-band lab; for comparison, the gate does not use it.
"""

from __future__ import annotations

{imports}
if TYPE_CHECKING:
    from lqw.noise.batch import {types}
    from lqw.plan import Policy

__all__ = ["decide"]


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """{doc}"""
{body}
'''

TEST = '''"""Registry method {name}: what any method must do, and what this one said when it was saved."""

from lqw.lab.methods import calls_on_known, method_problems
from lqw.noise.methods import METHODS

SAID = (
{calls}
)


def test_it_behaves_as_a_method_must():
    assert method_problems(METHODS["{name}"]) == []


def test_it_says_of_four_known_releases_what_it_said_when_it_was_saved():
    assert calls_on_known(METHODS["{name}"]) == SAID
'''


@dataclass(frozen=True, slots=True)
class Saved:
    """The files of a saved method, by path relative to the checkout. ``written`` is False for a preview."""

    files: dict[str, str]
    written: bool

    def __str__(self) -> str:
        """Return the files as a person reads them."""
        verb = "written" if self.written else "not written (give checkout=)"
        shown = {path: text for path, text in self.files.items() if not path.endswith("__init__.py")}
        parts = [f"# {path}: {verb}\n{text}" for path, text in shown.items()]
        return "\n".join([*parts, f"# lqw/noise/methods/__init__.py: one line more, {verb}"])


def save_method(name: str, function: Callable[..., Bands], *, checkout: Path | str | None = None) -> Saved:
    """Save a method as a registry file with its test.

    Parameters
    ----------
    name : str
        As it will stand in the registry: lower-case words with dashes.
    function : callable
        ``(batch, policy, look, m) -> Bands`` with a docstring, written in a notebook cell or a file.
    checkout : path, optional
        Root of the checkout to write into. Without one the files are returned and nothing is written.

    Raises
    ------
    UsageError
        The name is taken, the function uses what a module would not have, it does not behave as a method must, or a
        file is in the way. Nothing has been written then.
    """
    module = check_name(name).replace("-", "_")
    if name in METHODS:
        raise UsageError(f"{name!r} is in the registry already", remedy="give the new method another name")
    problems = method_problems(function)
    if problems:
        raise UsageError(f"{name}: {'; '.join(problems)}", remedy="mend the method first")
    root = Path(lqw.__file__).parents[1] if checkout is None else Path(checkout)
    registry = root / "lqw" / "noise" / "methods" / "__init__.py"
    if not registry.is_file() or not (root / "tests" / "unit").is_dir():
        raise UsageError(f"{root}: no checkout of lqw", remedy="name the folder that holds lqw/ and tests/")
    calls = "\n".join(f'    "{line}",' for line in calls_on_known(function))
    files = {
        f"lqw/noise/methods/{module}.py": _module(name, function),
        f"tests/unit/test_method_{module}.py": TEST.format(name=name, calls=calls),
    }
    taken = [path for path in files if (root / path).exists()]
    if taken:
        raise UsageError(f"{root / taken[0]}: is there already", remedy="give the new method another name")
    files["lqw/noise/methods/__init__.py"] = _registered(registry.read_text(encoding="utf-8"), name, module)
    if checkout is not None:
        for path, text in files.items():  # the registry last: it never names a module that is not there
            write_atomic(root / path, text.encode())
    return Saved(files, written=checkout is not None)


def _module(name: str, function: Callable[..., Bands]) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError) as err:
        raise UsageError(f"{name}: its source cannot be read: {err}", remedy="write it with def in a cell") from err
    if not isinstance(tree, ast.FunctionDef):
        raise UsageError(f"{name}: not a plain function", remedy="write it with def in a cell")
    doc = ast.get_docstring(tree)
    if not doc or "\n" in doc or not re.fullmatch(r"[A-Z].*\.", doc) or '"""' in doc or "\\" in doc:
        text = f"{name}: its docstring is {doc!r}"
        raise UsageError(text, remedy='start it with one line, such as """RED below two standard errors."""')
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    body = lines[tree.body[1].lineno - 1 : tree.body[-1].end_lineno] if len(tree.body) > 1 else []
    used = _names(tree)
    unknown = sorted(used - IMPORTS.keys())
    if unknown or not body:
        why = f"uses {', '.join(unknown)}, which a module of the registry would not have" if unknown else "does nothing"
        raise UsageError(f"{name}: {why}", remedy=f"define it inside the method, or use: {', '.join(IMPORTS)}")
    indented = textwrap.indent(textwrap.dedent("\n".join(body)), "    ")
    types = "Batch" if "Bands" in used else "Bands, Batch"
    return MODULE.format(doc=doc, imports=_imports(used), body=indented, types=types)


def _names(tree: ast.FunctionDef) -> set[str]:
    """Return the names a function takes from outside: read somewhere, bound nowhere in it, not Python's own."""
    own = {argument.arg for one in ast.walk(tree) if isinstance(one, ast.arguments) for argument in _all(one)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own |= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - own - set(dir(builtins))


def _all(arguments: ast.arguments) -> Iterable[ast.arg]:
    return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)


def _imports(used: set[str]) -> str:
    """Return the import lines in the order the linter wants: standard library, third party, this project."""
    lines: dict[str, list[str]] = {}
    for name in sorted(used):
        lines.setdefault(IMPORTS[name], []).append(name)
    made = [line.format(", ".join(names)) for line, names in lines.items()]
    made = [line for line in made if not line.startswith("from lqw.noise.methods")]
    siblings = sorted(used & {"gate_v1", "fixed_band"})
    made += [f"from lqw.noise.methods import {', '.join(siblings)}"] if siblings else []
    standard = [*(line for line in made if line.startswith(STANDARD)), "from typing import TYPE_CHECKING"]
    ours = [line for line in made if line.startswith("from lqw")]
    third = [line for line in made if line not in standard and line not in ours]
    blocks = ["\n".join(sorted(block, key=_order)) for block in (standard, third, ours) if block]
    return "\n\n".join(blocks) + "\n"


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def _registered(text: str, name: str, module: str) -> str:
    """Return the registry's text with one more method; UsageError where it has not the shape this knows."""
    imported = re.search(r"^from lqw\.noise\.methods import (\(?)([\w\s,]+?)(\)?)$", text, re.MULTILINE)
    table = re.search(r"^METHODS\b.*?^    \}", text, re.MULTILINE | re.DOTALL)
    if imported is None or table is None:
        raise UsageError("lqw/noise/methods/__init__.py: its shape is not known here", remedy="add the line by hand")
    end = table.end() - len("    }")
    text = text[:end] + f'        "{name}": {module}.decide,\n' + text[end:]
    modules = sorted({*re.findall(r"\w+", imported[2]), module})
    line = f"from lqw.noise.methods import {', '.join(modules)}"
    if len(line) > 120:  # noqa: PLR2004 - the linter's line
        line = "from lqw.noise.methods import (\n" + "".join(f"    {one},\n" for one in modules) + ")"
    return text[: imported.start()] + line + text[imported.end() :]
