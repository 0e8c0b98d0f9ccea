"""Reading a run folder or a receipt into :class:`Facts`. Bad content is a fact to show, never an exception."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lqw.canonical import loads_strict, read_json, sha256_bytes
from lqw.correctness import correctness_from_json
from lqw.errors import IntegrityError
from lqw.metrics import RowId
from lqw.report.facts import Facts, kind_of
from lqw.samples import EngineFacts, HostFacts
from lqw.verdict.evidence import Standing, standing_from_json
from lqw.verdict.results import Judgement, judgement_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from lqw.outcomes import Arm
    from lqw.report.facts import Stage

__all__ = ["gather_receipt", "gather_run"]


class _Problems(list[str]):
    """Collects what could not be read, so that reading goes on."""

    def try_(self, read: Callable[[Any], Any], value: Any, default: Any = None) -> Any:
        """Return ``read(value)``, or *default* after noting why not."""
        try:
            return read(value)
        except (IntegrityError, ValidationError, ValueError, TypeError, KeyError, AttributeError, OSError) as err:
            text = err.message if isinstance(err, IntegrityError) else f"{type(err).__name__}: {err}"
            self.append(text.splitlines()[0][:500])
            return default


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the journal's complete lines; a torn last line, left by a kill, ends it."""
    with path.open("rb") as journal:
        for line in journal:
            try:
                record = json.loads(line)
            except ValueError:
                return
            if isinstance(record, dict):
                yield record


def _planned(plan: Mapping[str, Any], judgement: Judgement | None) -> tuple[RowId, ...]:
    if judgement is not None:
        return tuple(row.row for row in judgement.rows)
    out = []
    for text in plan.get("rows") or []:
        try:
            out.append(RowId.parse(str(text)))
        except ValueError:
            continue
    return tuple(out)


def _engines(starts: Sequence[Mapping[str, Any]], problems: _Problems) -> dict[Arm, EngineFacts]:
    out: dict[Any, EngineFacts] = {}
    for start in starts:
        arm, engine = start.get("arm"), start.get("engine")
        if engine and arm not in out:
            found = problems.try_(lambda raw: EngineFacts.model_validate_json(json.dumps(raw)), engine)
            if found is not None:
                out[arm] = found
    return out


def _start_name(start: Mapping[str, Any]) -> str:
    return f"{start.get('model')} pair {start.get('pair')} {start.get('arm')}"


def _host(raw: Any) -> HostFacts:
    return HostFacts.model_validate(raw)


def _facts(
    body: Mapping[str, Any],
    starts: Sequence[Mapping[str, Any]],
    problems: _Problems,
    *,
    stages: tuple[Stage, ...] = (),
    broken: bool = False,
    receipt: tuple[str, str] = ("", ""),
) -> Facts:
    header = body.get("header") if isinstance(body.get("header"), dict) else {}
    judgement = problems.try_(judgement_from_json, body["judgement"]) if body.get("judgement") else None
    standing = problems.try_(standing_from_json, body["standing"], Standing()) if body.get("standing") else Standing()
    correctness = problems.try_(correctness_from_json, body["correctness"]) if body.get("correctness") else None
    host = problems.try_(_host, header["host"]) if header and header.get("host") else None
    plan = header.get("plan") if header and isinstance(header.get("plan"), dict) else {}
    calibration = body.get("calibration")
    return Facts(
        kind=kind_of(judgement, broken=broken),
        judgement=judgement,
        planned=_planned(plan or {}, judgement),
        standing=standing,
        header=header or {},
        host=host,
        engines=_engines(starts, problems),
        correctness=correctness,
        calibration=calibration if isinstance(calibration, dict) else {},
        telemetry=tuple((_start_name(start), start["telemetry"]) for start in starts if start.get("telemetry")),
        stages=stages,
        starts_done=len(starts),
        starts_failed=tuple(_start_name(start) for start in starts if start.get("failure")),
        wall_s=sum(float(start.get("wall_s") or 0.0) for start in starts),
        receipt_sha256=receipt[1],
        receipt_name=receipt[0],
        problems=tuple(problems),
    )


def _receipt_body(path: Path, problems: _Problems) -> tuple[dict[str, Any] | None, str]:
    """Return a receipt's content and sha256; None, with the reason noted, if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as err:
        problems.append(f"{path.name}: {err.strerror or err}")
        return None, ""
    body = problems.try_(lambda raw: loads_strict(raw, name=path.name), data)
    if body is not None and not isinstance(body, dict):
        problems.append(f"{path.name}: not an object")
    return (body if isinstance(body, dict) else None), sha256_bytes(data)


def _shown_path(path: Path) -> str:
    """Return the path as a reader of the repository would type it; no more of this machine than that."""
    parts = path.resolve().parts
    for root in ("receipts", "runs"):
        if root in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(root) :])
    return path.name


def gather_receipt(path: Path, *, stages: tuple[Stage, ...] = (), broken: Sequence[str] = ()) -> Facts:
    """Return the facts of one receipt file; INCOMPLETE with the reason if it is none."""
    problems = _Problems(broken)
    body, sha = _receipt_body(path, problems)
    if body is None:
        return _facts({}, (), problems, stages=stages, broken=True)
    raw = body.get("starts")
    starts = [start for start in raw if isinstance(start, dict)] if isinstance(raw, list) else []
    return _facts(body, starts, problems, stages=stages, broken=bool(broken), receipt=(_shown_path(path), sha))


def gather_run(run_dir: Path, *, broken: Sequence[str] = ()) -> Facts:
    """Return the facts of a run folder: its receipt's, or what its journal and artefacts hold without one."""
    from lqw.report.notebooks import stages_of  # noqa: PLC0415 - nbconvert is slow to load; `lqw show` does without

    stages = stages_of(run_dir / "notebooks")
    receipt = run_dir / "receipt.json"
    if receipt.is_file():
        facts = gather_receipt(receipt, stages=stages, broken=broken)
        if facts.planned:
            return facts
    problems = _Problems(broken)
    if not receipt.is_file() and not broken and not any(stage.state == "broke" for stage in stages):
        problems.append("there is no receipt.json")
    return _from_parts(run_dir, stages, problems)


def _from_parts(run_dir: Path, stages: tuple[Stage, ...], problems: _Problems) -> Facts:
    journal = run_dir / "samples.jsonl"
    records = list(_lines(journal)) if journal.is_file() else []
    body: dict[str, Any] = {"header": next((r for r in records if r.get("kind") == "header"), {})}
    for name, key in (("correctness.json", "correctness"), ("collect.json", "calibration")):
        part = problems.try_(read_json, run_dir / name) if (run_dir / name).is_file() else None
        if isinstance(part, dict):
            body[key] = part.get(key)
    starts = [record for record in records if record.get("kind") == "start"]
    return _facts(body, starts, problems, stages=stages, broken=True)
