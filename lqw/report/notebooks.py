"""The executed notebooks as explanation: nbconvert's HTMLExporter with this project's own template.

Prose is shown, code and outputs are folded away. Everything in a notebook is treated as hostile: Markdown loses its
raw HTML and remote images, HTML outputs pass an allow-list, the rest is escaped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from lqw.report.nb import nbformat  # before nbconvert loads it the slow way

# isort: split
import bleach
from jinja2 import Environment, pass_context
from markupsafe import Markup, escape
from nbconvert.exporters.html import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from traitlets.config import Config

from lqw.report.facts import Stage

__all__ = ["STAGES", "ReportExporter", "notebook_html", "stages_of"]

TEMPLATES = Path(__file__).parent / "template"
STAGES = ("10_collect", "20_correctness", "30_noise_band", "40_verdict")
LAST_LINES = 15
MAX_OUTPUT_CHARS = 60_000

_TAGS = {
    "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "ul", "ol", "li", "strong", "em", "code", "pre",
    "span", "div", "br", "figure", "figcaption", "svg", "line", "rect", "path", "text", "h3", "h4", "h5",
}  # fmt: skip
_SVG = ["x", "y", "x1", "x2", "y1", "y2", "width", "height", "d", "text-anchor", "focusable"]
_ATTRIBUTES = {"*": ["class", "role", "aria-label", "aria-hidden", "scope", "colspan", "rowspan", "data-label", *_SVG]}
_CONTENT_TOO = re.compile(
    r"<(script|style|iframe|object|template|noscript)\b.*?(</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_SHARE = re.compile(r"(\d) %")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class _Prose(IPythonRenderer):
    """Markdown below a section of the page: headings three levels down, no raw HTML, no remote picture."""

    def __init__(self) -> None:
        super().__init__(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)

    def heading(self, text: str, level: int, **_: Any) -> str:
        """Shift a heading so that the page keeps one h1 and no level is left out."""
        shifted = 3 if level == 1 else 4
        return f"<h{shifted}>{text}</h{shifted}>\n"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Replace a picture by its words: the page makes no request."""
        del url, title
        return f"<em>{text}</em>"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Keep links that work from anywhere; a relative one would point into nothing."""
        return str(super().link(text, url, title)) if url.startswith(("https://", "#")) else text

    def block_code(self, code: str, info: str | None = None) -> str:
        """Return code as it is, without a highlighter's colours."""
        del info
        return f'<pre tabindex="0"><code>{escape(code)}</code></pre>\n'


def clean(html: str) -> Markup:
    """Return *html* with nothing but harmless tags and attributes."""
    without = _CONTENT_TOO.sub("", html[:MAX_OUTPUT_CHARS])
    return Markup(bleach.clean(without, tags=_TAGS, attributes=_ATTRIBUTES, strip=True))  # noqa: S704 - cleaned here


def shown(output: nbformat.NotebookNode) -> Markup:
    """Return one output: cleaned HTML, a described picture, or text."""
    data = output.get("data", {})
    if "text/html" in data:
        return Markup('<div class="out">{}</div>').format(clean(str(data["text/html"])))
    alt = str(output.get("metadata", {}).get("alt", ""))
    if "image/png" in data and alt and _BASE64.fullmatch(str(data["image/png"])):
        return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(alt, data["image/png"])
    return Markup('<pre tabindex="0">{}</pre>').format(plain(str(data.get("text/plain", ""))))


def plain(text: str) -> str:
    """Return text without terminal colours, cut to a length a page can hold."""
    text = _ANSI.sub("", text)
    return text if len(text) <= MAX_OUTPUT_CHARS else text[:MAX_OUTPUT_CHARS] + "\n… (cut)"


def _unbroken(value: object) -> object:
    """Keep a share and its sign on one line of a phone; ready-made markup (code, prose, plots) stays as it is."""
    return _SHARE.sub("\\1\N{NO-BREAK SPACE}%", value) if type(value) is str else value


class ReportExporter(HTMLExporter):
    """nbconvert's HTML exporter with this project's template, autoescaping, and no address of any network."""

    def __init__(self) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            config=Config({"HTMLExporter": {"preprocessors": []}, "HighlightMagicsPreprocessor": {"enabled": False}}),
            template_name="lqw",
            extra_template_basedirs=[str(TEMPLATES)],
        )

    @pass_context
    def markdown2html(self, context: Any, source: str) -> Markup:
        """Render Markdown with the page's own rules."""
        del context
        return Markup(MarkdownWithMath(renderer=_Prose()).render(source))  # noqa: S704 - the renderer escapes

    def _create_environment(self) -> Environment:
        environment: Environment = super()._create_environment()  # type: ignore[no-untyped-call]
        environment.autoescape = True
        environment.trim_blocks = environment.lstrip_blocks = True
        environment.filters["plain"] = plain
        environment.filters["shown"] = shown
        environment.finalize = _unbroken
        return environment


def notebook_html(exporter: ReportExporter, path: Path) -> Markup:
    """Return an executed notebook as a fragment of the page; a note where it cannot be read."""
    try:
        book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        fragment, _ = exporter.from_notebook_node(book)
    except Exception as err:  # noqa: BLE001 - whatever a damaged notebook makes of nbformat, the report is rendered
        return Markup("<p>This notebook cannot be shown: {}</p>").format(f"{type(err).__name__}: {err}"[:300])
    return Markup(fragment)  # noqa: S704 - autoescaped by the template


def _error_lines(cell: nbformat.NotebookNode) -> tuple[str, ...]:
    for output in cell.get("outputs", []):
        if output.get("output_type") == "error":
            text = plain("\n".join(map(str, output.get("traceback", []))))
            tail = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
            return (*tail,) if tail else (f"{output.get('ename', '')}: {output.get('evalue', '')}",)
    return ()


def _read_stage(name: str, path: Path) -> Stage:
    try:
        book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        cells = [cell for cell in book.cells if cell.cell_type == "code"]
        executed = sum(cell.get("execution_count") is not None for cell in cells)
        broke = next((found for cell in cells if (found := _error_lines(cell))), ())
        record = book.metadata.get("papermill", {})
        seconds = record.get("duration")
    except Exception as err:  # noqa: BLE001 - a truncated notebook is a fact to report, not a reason to stop
        return Stage(
            name, "broke", broke=(f"{path.name} cannot be read: {type(err).__name__}: {err}"[:300],), path=path
        )
    # papermill's own metadata says "completed" after a dead kernel: only counts and outputs are believed.
    done = executed == len(cells) and record.get("end_time") is not None
    state = "broke" if broke else "ran" if done else "stopped"
    return Stage(name, state, len(cells), executed, float(seconds) if seconds else None, broke, path)


def stages_of(folder: Path) -> tuple[Stage, ...]:
    """Return how far each notebook of the chain came."""
    found = {path.stem: path for path in sorted(folder.glob("*.ipynb"))} if folder.is_dir() else {}
    names = [*STAGES, *(name for name in found if name not in STAGES)]
    out = [_read_stage(name, found[name]) if name in found else Stage(name, "not started") for name in names]
    return tuple(_verdict_is_no_accident(stage) for stage in out)


_VERDICTS = re.compile(r"\b(RatchetRed|Undecided|NothingMeasured)\b")


def _verdict_is_no_accident(stage: Stage) -> Stage:
    """Return 40_verdict as ran where its last cell raised a verdict: that is its purpose."""
    said = any(_VERDICTS.search(line) for line in stage.broke)
    if stage.name == "40_verdict" and said:
        return replace(stage, state="ran")
    return stage
