"""The page: one HTML file without script or request, verdict first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lqw import __version__
from lqw.outcomes import Arm, RowVerdict
from lqw.report import asked, beside, plots, reproduce, roofline, say, tables, words
from lqw.report.fragments import check_cells, style
from lqw.report.notebooks import ReportExporter, notebook_html
from lqw.report.parity import parity_context
from lqw.report.words import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

    from lqw.report.facts import Facts
    from lqw.samples import EngineFacts
    from lqw.verdict.results import RowResult

__all__ = ["page_html"]

MOST_FALLS = 8
MOST_MOVED = 12
TONES = {
    RowVerdict.RED: "bad",
    RowVerdict.SHIFT: "bad",
    RowVerdict.VOID: "void",
    RowVerdict.PASS: "good",
    RowVerdict.IMPROVED: "good",
    RowVerdict.NEW: "good",
}
ENGINE_HEADS = ("engine", "build", "binary sha256", "compute", "command", "environment")


def _tone(verdict: RowVerdict) -> str:
    return TONES.get(verdict, "open")


def _anchor(row_id: str) -> str:
    return "row-" + "".join(ch if ch.isalnum() or ch in "-_" else "-" for ch in row_id)


def _log(row: RowResult, facts: Facts) -> str:
    """Return the last log lines of the start that the row failed by; a void by the identity start keeps none itself."""
    if row.reason is None:
        return ""
    return "\n".join(row.reason.log_tail or facts.logs.get((row.row.model, row.reason.reason), ()))


def _fall(rows: list[RowResult], facts: Facts) -> dict[str, Any]:
    row = rows[0]
    fall = tables.fall_of(row, facts.standing)
    alone = len(rows) == 1 and row.reason is None
    return {
        "row": say.group_name(rows, facts),
        "anchor": _anchor(fall.row),
        "clause": fall.clause if row.reason is None else f"{row.reason.reason}: {row.reason.detail}",
        "log": _log(row, facts),
        "subject": fall.subject if alone else "–",
        "comparator": fall.comparator,
        "words": words.versus(row.ratio, row.family),
        "verdict": str(row.verdict).replace("_", " "),
        "symbol": words.SYMBOLS[row.verdict],
        "tone": _tone(row.verdict),
    }


def _falls(facts: Facts) -> dict[str, Any]:
    if facts.kind is Kind.INCOMPLETE:
        return {"falls": []}
    groups = say.blocking_groups(facts)
    red = any(row.verdict is RowVerdict.RED for row in facts.blocking)
    shown, rest = groups[:MOST_FALLS], groups[MOST_FALLS:]
    return {
        "falls": [_fall(rows, facts) for rows in shown],
        "falls_title": "What fell, and by how much" if red else "What stands in the way",
        "falls_more": f"and {sum(map(len, rest))} more rows, marked in the tables below" if rest else "",
    }


@dataclass(frozen=True, slots=True)
class Fold:
    """How a model's part of a section stands: open where something of it blocks, or where it is the only one."""

    is_open: bool
    tally: str  # "2 red, 11 pass"
    tone: str


def _tally(said: Iterable[object]) -> str:
    return ", ".join(f"{n} {str(word).replace('_', ' ').lower()}" for word, n in Counter(said).items())


def _folds(facts: Facts) -> dict[str, Fold]:
    judged = facts.rows if facts.kind is not Kind.INCOMPLETE else ()
    out = {}
    for model in facts.models:
        rows = [row for row in judged if row.row.model == model]
        blocking = [row for row in facts.blocking if row in rows]
        planned = sum(row.model == model for row in facts.planned)
        said = [row.verdict for row in (*blocking, *(row for row in rows if row not in blocking))]
        tally = _tally(said) if rows else f"{planned} planned, none judged"
        tone = _tone(blocking[0].verdict) if blocking else ""
        out[model] = Fold(bool(blocking) or len(facts.models) == 1, tally, tone)
    return out


def _note(row: RowResult | None, line: tables.Line, shared: set[str]) -> str:
    """Return what the cells of a row do not say: reasons and flags, not the fall itself, and nothing told already."""
    if row is None:
        return ""
    if row.reason is not None and row.reason.detail in shared:
        return str(row.reason.reason)
    if row.verdict is RowVerdict.RED:
        return line.note if row.band is not None and row.band.red_by == "last" else "; ".join(row.flags)
    return line.note if line.blocking else "; ".join(row.flags)


def _tables(facts: Facts) -> list[tuple[str, list[dict[str, Any]]]]:
    out = []
    judged = {row.row: row for row in facts.rows} if facts.kind is not Kind.INCOMPLETE else {}
    reasons = [row.reason.detail for row in judged.values() if row.reason]
    shared = {detail for detail in reasons if reasons.count(detail) > 1}
    for model in facts.models:
        lines = []
        for row_id in (row for row in facts.planned if row.model == model):
            row = judged.get(row_id)
            line = tables.line_of(row) if row else tables.planned_line(row_id)
            tone = _tone(row.verdict) if row else "open"
            note = _note(row, line, shared)
            lines.append({"line": line, "tone": tone, "note": note, "anchor": _anchor(line.id)})
        out.append((model, lines))
    return out


def _beside(facts: Facts) -> dict[str, Any]:
    """Return the engines beside the verdict, or that there are none."""
    found = beside.beside_tables(facts)
    note = beside.NOTE if found else "No further engine (ollama, vLLM) was measured in this run."
    return {"beside": note, "beside_tables": found, "beside_engines": beside.engine_lines(facts)}


def _moved(facts: Facts) -> dict[str, Any]:
    known = [row for row in facts.rows if row.against_last is not None]
    if not known or facts.kind is Kind.INCOMPLETE:
        return {}
    known.sort(key=lambda row: row.against_last or 1.0)
    release = next(
        (refs.last.release for refs in facts.standing.references.values() if refs.last is not None), "the last release"
    )
    items = [
        {"row": str(row.row), "text": f"{words.against(row.against_last, row.family, release)} "
                                      f"({words.change(row.against_last)})"}
        for row in known[:MOST_MOVED]
    ]  # fmt: skip
    return {"moved": items, "last_release": release}


def _correctness(facts: Facts) -> dict[str, Any]:
    result = facts.correctness
    if result is None:
        return {"correctness_lead": "No correctness result is on record for this run."}
    how = {
        "ids": "token by token against the reference of the last release",
        "text": "by exact text against the reference of the last release",
        "self": "with itself (a first release has no reference)",
        "none": "with nothing",
    }
    compared = "; ".join(f"{model}: compared {how.get(str(way), way)}" for model, way in result.compared.items())
    voids = len(result.voids)
    said = f"{voids} row{'' if voids == 1 else 's'} void." if voids else "No row is void."
    cells = check_cells(result)
    checks = [cell for cell, state in cells if state != "ok"]
    agreed = [cell for cell, state in cells if state == "ok"]
    return {"correctness_lead": f"{said} {compared}.".strip(), "checks": checks, "agreed": agreed}


def _targets(facts: Facts) -> list[tuple[str, str, list[tuple[str, ...]]]]:
    """Return, per model that has targets, how many stand where, and a line for each."""
    out: list[tuple[str, str, list[tuple[str, ...]]]] = []
    for model in facts.models if facts.kind is not Kind.INCOMPLETE else ():
        found = [(row.row.short, row.target) for row in facts.rows if row.row.model == model and row.target is not None]
        cells: list[tuple[str, ...]] = [
            (short, words.ratio(target.target), words.ratio(target.ratio), words.ratio(target.bound),
             words.target_words(target.state, target.distance))
            for short, target in found
        ]  # fmt: skip
        if cells:
            out.append((model, _tally(target.state for _, target in found), cells))
    return out


def _engine_rows(engine: EngineFacts | None) -> tuple[str, ...]:
    if engine is None:
        return ("–",) * len(ENGINE_HEADS)
    env = " ".join(f"{name}={said}" for name, said in sorted(engine.env.items()))
    command = " ".join(engine.command)
    version = f"{engine.engine} {engine.version}"
    return version, engine.build, engine.binary_sha256, engine.compute, command, env or "–"


def _engines(facts: Facts) -> list[tuple[str, ...]]:
    both = [facts.engines.get(arm) for arm in (Arm.SUBJECT, Arm.COMPARATOR)]
    return list(zip(ENGINE_HEADS, *map(_engine_rows, both), strict=True)) if any(both) else []


def _settings(facts: Facts) -> dict[str, Any]:
    found = tables.settings_table(facts.engines)
    rows = [(f"≠ {s.name}" if s.differs else s.name, s.subject, s.comparator) for s in found]
    return {"settings": rows, "differ": sum(s.differs for s in found)}


def _started(facts: Facts) -> dict[str, str]:
    text = str(facts.header.get("started_utc", ""))
    try:
        when = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return {"started": "", "started_text": ""}
    return {"started": when.isoformat(), "started_text": when.strftime("%-d %B %Y, %H:%M UTC")}


def _contents(context: dict[str, Any]) -> list[tuple[str, str]]:
    wanted = (
        ("rows", "Rows", True),
        ("forest", "Against floors", context.get("forest")),
        ("moved", "Since last release", context.get("moved")),
        ("pairs", "Pairs", context.get("strips")),
        ("stairs", "Floor and releases", context.get("stairs")),
        ("curves", "Scaling", context.get("curves")),
        ("roofline", "Limit", context["roofline"]),
        ("beside", "Beside", context["beside"]),
        ("asked", "Routes and offload", context["asked"]),
        ("third", "Third arm", context["third_arm"]),
        ("guards", "Guards", context["suites"] or context["guards"] or context["held"]),
        ("tokens", "Tokens", True),
        ("parity", "Parity", True),
        ("targets", "Targets", context["targets"]),
        ("environment", "Environment", True),
        ("again", "Reproduce", True),
        ("explained", "How it was decided", context["books"]),
    )
    return [(anchor, label) for anchor, label, there in wanted if there]


def _books(facts: Facts, exporter: ReportExporter) -> list[tuple[str, Markup]]:
    return [(stage.name, notebook_html(exporter, stage.path)) for stage in facts.stages if stage.path is not None]


def page_html(facts: Facts) -> str:
    """Return the whole page."""
    exporter = ReportExporter()
    word, order = say.headline(facts)
    margin_text, margin = say.margin(facts)
    judged = facts.judgement if facts.kind is not Kind.INCOMPLETE else None
    context: dict[str, Any] = {
        "css": style("tokens", "plots", "page"),
        "kind": str(facts.kind), "word": word, "headline": order, "release": facts.release, "host": facts.host_name,
        "sentence": say.sentence(facts), "counts": say.counts(facts),
        "fault": tables.whose_fault(facts) if judged else "",
        "incomplete": facts.kind is Kind.INCOMPLETE, "problems": facts.problems, "stages": facts.stages,
        "progress": reproduce.progress(facts), "other_reasons": say.other_reasons(facts) if judged else [],
        "rows_lead": ROWS_LEAD, "tables": _tables(facts), "folds": _folds(facts), "margin": margin_text,
        "suites": [tables.suite_line(suite) for suite in judged.suites] if judged else [],
        "third_arm": tables.third_arm_lines(judged) if judged else [], "third_arm_lead": say.third_arm(facts),
        "third_arm_heads": tables.THIRD_ARM_HEADS,
        "guards": [tables.guard_line(guard) for guard in judged.guards if guard.effect != "none"] if judged else [],
        "held": [tables.guard_line(guard) for guard in judged.guards if guard.effect == "none"] if judged else [],
        "asked": asked.asked_lines(facts), "asked_heads": asked.HEADS,
        "unstreamed": asked.unstreamed_lines(facts), "unstreamed_heads": asked.UNSTREAMED_HEADS,
        "roofline": roofline.roofline_lines(facts) if judged else [], "roofline_heads": roofline.HEADS,
        "roofline_lead": roofline.roofline_lead(facts) if judged else "",
        **(_beside(facts) if judged else {"beside": ""}), "targets": _targets(facts),
        "engines": _engines(facts), **_settings(facts),
        "host_facts": reproduce.host_facts(facts), "models": reproduce.models(facts),
        "calibration": reproduce.calibration(facts), "telemetry": reproduce.telemetry(facts),
        "commands": reproduce.commands(facts), "provenance": reproduce.provenance(facts),
        "not_checked": facts.not_checked,
        "books": _books(facts, exporter), "footer": f"Rendered by lqw {__version__} from raw samples.",
        **_started(facts), **_falls(facts), **plots.forest(facts, margin), **plots.series(facts), **_moved(facts),
        **_correctness(facts), **parity_context(facts),
    }  # fmt: skip
    context["contents"] = _contents(context)
    return str(exporter.environment.get_template("page.html.j2").render(context))


ROWS_LEAD = (
    "Every ratio is oriented: above 1× the subject is better than the comparator, whatever the metric. Floor: the "
    "ratio of the release that set it, with this run’s change against it. Band: what noise can explain."
)
