"""JUnit XML for CI: one case per planned row, per suite and per guard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lqw.report import say, tables
from lqw.report.words import Kind

if TYPE_CHECKING:
    from lqw.report.facts import Facts
    from lqw.report.tables import Line

__all__ = ["case", "document", "junit_xml"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(text: str) -> str:
    """Replace what XML 1.0 cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def case(suite: ET.Element, name: str, *, trouble: str = "", kind: str = "failure", message: str = "") -> None:
    """Add a test case to a suite: passed without *trouble*, else a failure or an error of that type."""
    one = ET.SubElement(suite, "testcase", classname=_clean(suite.get("name", "")), name=_clean(name))
    if trouble:
        problem = ET.SubElement(one, kind, type=_clean(trouble), message=_clean(message[:1_000]))
        problem.text = _clean(message)
    elif message:
        ET.SubElement(one, "system-out").text = _clean(message)


def _row(suite: ET.Element, line: Line, *, incomplete: bool) -> None:
    said = (
        f"{line.verdict}: ratio {line.ratio} ({line.words}), floor {line.floor} ({line.fall}), band {line.band}, "
        f"pairs {line.pairs}, subject {line.subject}, comparator {line.comparator}. {line.note}"
    ).strip()
    if incomplete:
        case(suite, line.short, trouble="INCOMPLETE", kind="error", message="INCOMPLETE, NOT A VERDICT")
    elif line.verdict in ("FAILED", "MISSING"):
        case(suite, line.short, trouble=line.verdict, kind="error", message=said)
    else:
        case(suite, line.short, trouble=line.verdict if line.blocking else "", message=said)


def junit_xml(facts: Facts) -> str:
    """Return the document. Blocking rows are failures; failed or missing ones, and all of a broken run, are errors."""
    root = ET.Element("testsuites", name=_clean(f"lqw {facts.release} on {facts.host_name}: {facts.kind}"))
    incomplete = facts.kind is Kind.INCOMPLETE
    rows = say.lines(facts)
    for model in facts.models:
        suite = ET.SubElement(root, "testsuite", name=_clean(model))
        for line in (line for line in rows if line.model == model):
            _row(suite, line, incomplete=incomplete)
    if facts.judgement is not None and not incomplete:
        _whole(root, facts)
    if incomplete or not rows:
        suite = ET.SubElement(root, "testsuite", name="run")
        case(suite, "chain", trouble=str(facts.kind), kind="error", message=say.sentence(facts))
    return document(root)


def document(root: ET.Element) -> str:
    """Return the whole as XML, each suite with its numbers of tests, failures and errors."""
    root.set("name", _clean(root.get("name", "")))
    for suite in root:
        suite.set("name", _clean(suite.get("name", "")))
        suite.set("tests", str(len(suite)))
        for kind in ("failure", "error"):
            suite.set(f"{kind}s", str(sum(one.find(kind) is not None for one in suite)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _whole(root: ET.Element, facts: Facts) -> None:
    judged = facts.judgement
    if judged is None or not (judged.suites or judged.guards):
        return
    suite = ET.SubElement(root, "testsuite", name="suites and guards")
    for found in judged.suites:
        family, mean, limit, _ = tables.suite_line(found)
        case(
            suite,
            family,
            trouble=("SHIFT" if found.is_shift else "RED") if found.red else "",
            message=f"mean change {mean}, red below {limit}",
        )
    for guard in judged.guards:
        blocks = guard.effect in ("undecided", "red", "invalid")
        name, subject, _, text = tables.guard_line(guard)
        case(suite, f"{name} of {subject}", trouble=guard.effect if blocks else "", message=text)
