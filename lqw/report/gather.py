"""Reading a run folder or a receipt into :class:`Facts`. Bad content is a fact to show, never an exception."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lqw.canonical import loads_strict, read_json
from lqw.correctness import correctness_from_json
from lqw.errors import IntegrityError, LqwError
from lqw.metrics import RowId
from lqw.outcomes import Arm, Purpose
from lqw.params import load_params
from lqw.plan import build_plan
from lqw.receipt import params_of, verify_receipt
from lqw.receipt.store import BASELINE
from lqw.report.facts import AskedStep, Facts, kind_of
from lqw.report.words import Kind
from lqw.samples import BesideRecord, EngineFacts, Header, HostFacts, StepFacts
from lqw.verdict.evidence import Standing, standing_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lqw.report.facts import Stage
    from lqw.verdict.results import Judgement

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


def _header(raw: Any, problems: _Problems) -> dict[str, Any]:
    """Return a journal's first line with its plan rebuilt from typed params; what is not typed is left out."""
    if not isinstance(raw, dict) or not raw:
        return {}
    header = problems.try_(lambda value: Header.model_validate_json(json.dumps(value)), raw)
    params = problems.try_(params_of, header) if header is not None else None
    if header is None or params is None:
        return {"run_id": str(raw.get("run_id", "")), "plan": _bare_plan(raw.get("plan"))}
    typed: dict[str, Any] = header.model_dump(mode="json", by_alias=True)
    return {**typed, "plan": build_plan(params, header.purpose).to_json(), "params": params.resolved()}


def _bare_plan(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        return {}
    rows = raw.get("rows")
    named = [row for row in rows if isinstance(row, str)] if isinstance(rows, list) else []
    return {"rows": named, **{key: str(raw[key]) for key in ("release", "host", "purpose") if key in raw}}


def _planned(plan: Mapping[str, Any], judgement: Judgement | None) -> tuple[RowId, ...]:
    if judgement is not None:
        return tuple(row.row for row in judgement.rows)
    out = []
    for text in plan.get("rows") or []:
        try:
            out.append(RowId.parse(text))
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


def _besides(raw: Any, problems: _Problems) -> tuple[BesideRecord, ...]:
    found = (problems.try_(lambda r: BesideRecord.model_validate_json(json.dumps(r)), one) for one in _records(raw))
    return tuple(one for one in found if one is not None)


def _steps(starts: Sequence[Mapping[str, Any]], problems: _Problems) -> tuple[AskedStep, ...]:
    out = []
    for start in starts:
        for one in _records(start.get("steps")):
            found = problems.try_(lambda raw: StepFacts.model_validate_json(json.dumps(raw)), one)
            if found is not None and start.get("arm") in set(Arm):
                out.append(AskedStep(str(start.get("model")), int(start.get("pair", 0)), Arm(start["arm"]), found))
    return tuple(out)


def _logs(starts: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the last log lines of the first start of each model that failed for each reason."""
    out: dict[tuple[str, str], tuple[str, ...]] = {}
    for start in starts:
        failure = start.get("failure")
        tail = failure.get("log_tail") if isinstance(failure, dict) else None
        if isinstance(failure, dict) and isinstance(tail, list) and tail:
            out.setdefault((str(start.get("model")), str(failure.get("reason"))), tuple(map(str, tail)))
    return out


def _start_name(start: Mapping[str, Any]) -> str:
    return f"{start.get('model')} pair {start.get('pair')} {start.get('arm')}"


def _records(raw: Any) -> list[dict[str, Any]]:
    return [one for one in raw if isinstance(one, dict)] if isinstance(raw, list | tuple) else []


def _facts(body: Mapping[str, Any], kind: Kind, judgement: Judgement | None, problems: _Problems, **more: Any) -> Facts:
    """Read every part of a receipt's (or a run folder's) content that can be read."""
    header = _header(body.get("header"), problems)
    starts = _records(body.get("starts"))
    standing = problems.try_(standing_from_json, body["standing"], Standing()) if body.get("standing") else Standing()
    correctness = problems.try_(correctness_from_json, body["correctness"]) if body.get("correctness") else None
    calibration, telemetry = body.get("calibration"), [(_start_name(s), s.get("telemetry")) for s in starts]
    return Facts(
        kind=kind,
        judgement=judgement,
        planned=_planned(header.get("plan", {}), judgement),
        standing=standing,
        header=header,
        host=HostFacts.model_validate(header["host"]) if "host" in header else None,
        engines=_engines(starts, problems),
        besides=_besides(body.get("beside"), problems),
        steps=_steps(starts, problems),
        correctness=correctness,
        parity=parity if isinstance(parity := body.get("parity"), dict) else {},
        roofline=roofline if isinstance(roofline := body.get("roofline"), dict) else {},
        calibration=calibration if isinstance(calibration, dict) else {},
        telemetry=tuple((name, readings) for name, readings in telemetry if isinstance(readings, dict)),
        starts_done=len(starts),
        starts_failed=tuple(_start_name(start) for start in starts if start.get("failure")),
        logs=_logs([*_records(body.get("identities")), *starts]),
        wall_s=sum(wall for s in starts if isinstance(wall := s.get("wall_s"), int | float)),
        problems=tuple(dict.fromkeys(problems)),
        **more,
    )


def _shown_path(path: Path) -> str:
    """Return the path as a reader of the repository would type it; no more of this machine than that."""
    parts = path.resolve().parts
    for root in ("runs", "receipts", "params"):
        if root in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(root) :])
    return path.name


def gather_receipt(path: Path, *, stages: tuple[Stage, ...] = (), broken: Sequence[str] = ()) -> Facts:
    """Return the facts of one receipt file, re-judged from its samples; INVALID, with each problem, if it is none.

    Raises
    ------
    UsageError
        The path is not a readable file.
    """
    checked = verify_receipt(path)
    problems = _Problems([*broken, *map(str, checked.problems)])
    try:
        body = loads_strict(path.read_bytes(), name=path.name)
    except IntegrityError:
        body = {}  # named by the verifier
    body = body if isinstance(body, dict) else {}
    kind = Kind.INCOMPLETE if broken else Kind.INVALID if checked.problems else kind_of(checked.judgement)
    return _facts(
        body,
        kind,
        checked.judgement,
        problems,
        stages=stages,
        receipt_sha256=checked.receipt_sha256,
        receipt_name=_shown_path(path),
        not_checked=checked.not_checked,
        store=path.parent if (path.parent / BASELINE).is_file() else None,
        run=body["run"] if isinstance(body.get("run"), dict) else {},
    )


def gather_run(run_dir: Path, *, broken: Sequence[str] = ()) -> Facts:
    """Return the facts of a run folder: its receipt's, or what its journal and artefacts hold without one."""
    from lqw.report.notebooks import stages_of  # noqa: PLC0415 - nbconvert is slow to load; `lqw show` does without

    stages = stages_of(run_dir / "notebooks")
    receipt = run_dir / "receipt.json"
    if receipt.is_file():
        facts = gather_receipt(receipt, stages=stages, broken=broken)
        if facts.judgement is not None:
            info = _run_info(run_dir)
            store = Path(info["store_path"], facts.host_name) if info.get("store_path") else None
            return replace(facts, folder=_shown_path(run_dir), info=info, store=store)
        broken = facts.problems
    problems = _Problems(broken)
    info = _run_info(run_dir)
    if not receipt.is_file() and not broken and not any(stage.state == "broke" for stage in stages):
        problems.append("there is no receipt.json")
    return _from_parts(run_dir, info, stages, problems)


def _run_info(run_dir: Path) -> dict[str, str]:
    """Return what ``run.json`` says of the run, its paths as a reader of the repository would type them."""
    try:
        raw = read_json(run_dir / "run.json")
    except IntegrityError:
        return {}
    if not isinstance(raw, dict):
        return {}
    out = {key: str(raw[key]) for key in ("run_id", "purpose", "host", "params_file", "store") if key in raw}
    return {k: _shown_path(Path(v)) if k in ("params_file", "store") else v for k, v in out.items()} | {
        "params_path": out.get("params_file", ""),
        "store_path": out.get("store", ""),
    }


def _planned_header(info: Mapping[str, str]) -> dict[str, Any]:
    """Return what a run that left no journal was going to do, from its params; empty if they cannot be read."""
    try:
        params = load_params(info["params_path"], host=info["host"])
        plan = build_plan(params, Purpose(info["purpose"]))
    except (LqwError, KeyError, ValueError):
        return {}
    return {"run_id": info.get("run_id", ""), "plan": plan.to_json(), "params": params.resolved()}


def _from_parts(run_dir: Path, info: Mapping[str, str], stages: tuple[Stage, ...], problems: _Problems) -> Facts:
    journal = run_dir / "samples.jsonl"
    records = list(_lines(journal)) if journal.is_file() else []
    body: dict[str, Any] = {"header": next((r for r in records if r.get("kind") == "header"), {})}
    for name, key in (("correctness.json", "correctness"), ("collect.json", "calibration")):
        part = problems.try_(read_json, run_dir / name) if (run_dir / name).is_file() else None
        if isinstance(part, dict):
            body[key] = part.get(key)
    for kind, key in (("start", "starts"), ("beside", "beside")):
        body[key] = [record for record in records if record.get("kind") == kind]
    more = {"stages": stages, "folder": _shown_path(run_dir), "info": dict(info)}
    facts = _facts(body, Kind.INCOMPLETE, None, problems, **more)
    if facts.planned:
        return facts
    planned = _planned_header(info)
    return replace(facts, header={**planned, **facts.header}, planned=_planned(planned.get("plan", {}), None))
