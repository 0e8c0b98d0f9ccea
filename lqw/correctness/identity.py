"""Token identity (MEASUREMENT, "Identity"; STATISTICS §6): with itself, then free of garbage, then with the reference.

The order is the order of evaluation: an engine that disagrees with itself cannot be compared with anything, and
garbage that equals last release's garbage is still garbage.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from lqw.correctness.detectors import detect
from lqw.correctness.reference import (
    IdentityReference,
    ModelReference,
    ReferenceAnswer,
    first_difference,
    reference_answer,
)
from lqw.correctness.result import Check, Compared, CorrectnessResult, IdentityTask, voids_of
from lqw.correctness.shapes import SINGLE, is_strict
from lqw.correctness.timed import timed_checks
from lqw.outcomes import Purpose, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.correctness.detectors import Finding
    from lqw.metrics import RowId
    from lqw.samples import Answer, IdentityRecord, StartRecord

__all__ = ["judge_identity", "reference_from"]


def _name(answer: Answer) -> str:
    return f"{answer.prompt}#{answer.repeat}" + (f" stream {answer.stream}" if not is_strict(answer.shape) else "")


def _started(model: str, records: Sequence[IdentityRecord]) -> Iterator[Check]:
    if not records:
        detail = "no identity start is in the journal, so nothing shows that the tokens are right"
        yield Check(model, "start", "", "", "void", detail, Reason.VOID_CORRECTNESS)
    for record in records:
        if record.failure is not None:
            yield Check(model, "start", "", "", "void", record.failure.detail, record.failure.reason)
        else:
            yield Check(model, "start", "", "", "ok", f"{len(record.answers)} answers")


def _complete(model: str, answers: Sequence[Answer], task: IdentityTask) -> Iterator[Check]:
    for answer in answers:
        if answer.failure is not None:
            detail = f"{_name(answer)}: {answer.failure.detail}"
            yield Check(model, "answers", answer.shape, answer.prompt, "void", detail, answer.failure.reason)
        elif answer.prompt not in task.prompts:
            detail = f"{_name(answer)}: no such prompt was planned"
            yield Check(model, "answers", answer.shape, answer.prompt, "void", detail, Reason.VOID_CORRECTNESS)
    given = Counter((answer.shape, answer.prompt) for answer in answers)
    for shape in dict.fromkeys([SINGLE, *task.at_shapes, *(answer.shape for answer in answers)]):
        for prompt in task.asked_at(shape):
            got = given[shape, prompt]
            if got < task.repeats:
                detail = f"{got} of {task.repeats} answers are there: identity is not shown"
                yield Check(model, "answers", shape, prompt, "void", detail, Reason.VOID_CORRECTNESS)


def _grouped(answers: Sequence[Answer]) -> list[tuple[str, str, list[Answer]]]:
    good = sorted((a for a in answers if a.failure is None), key=lambda a: (a.shape, a.prompt))
    return [
        (shape, prompt, sorted(group, key=lambda a: a.repeat))
        for (shape, prompt), group in groupby(good, key=lambda a: (a.shape, a.prompt))
    ]


def _alike(first: Answer, others: Sequence[Answer]) -> bool:
    """Return whether all answers to a prompt at a shape are one: then no chance of a batch explains a difference."""
    return all(first_difference(first, other) is None for other in others)


def _self(model: str, answers: Sequence[Answer]) -> Iterator[Check]:
    for shape, prompt, (first, *others) in _grouped(answers):
        differences = [(other, first_difference(first, other)) for other in others]
        bad = [f"{_name(other)} against {_name(first)}: {diff}" for other, diff in differences if diff is not None]
        if not bad:
            yield Check(model, "self", shape, prompt, "ok", f"{len(others) + 1} answers identical")
        elif is_strict(shape):
            yield Check(model, "self", shape, prompt, "void", bad[0], Reason.VOID_NONDETERMINISTIC)
        else:
            yield Check(model, "self", shape, prompt, "flag", bad[0])


_Said = dict[tuple[object, ...], tuple["Finding", ...]]  # most prompts are asked several times and answered alike


def _garbage(model: str, answers: Sequence[Answer], task: IdentityTask, said: _Said) -> Iterator[Check]:
    for answer in answers:
        if answer.failure is not None or answer.prompt not in task.prompts:
            continue
        alike = (answer.prompt, answer.text, answer.finish, None if answer.ids is None else tuple(answer.ids))
        if alike not in said:
            said[alike] = detect(answer, want=task.output_tokens, prompt=task.prompts[answer.prompt])
        name = _name(answer)
        for found in said[alike]:
            reason = Reason.VOID_GARBAGE if found.state == "void" else None
            detail = f"{name}: {found.detail}"
            yield Check(model, found.kind, answer.shape, answer.prompt, found.state, detail, reason)


def _unusable(model: str, reference: IdentityReference | None, task: IdentityTask) -> str | None:
    """Return why there is nothing to compare this model's tokens with, or None."""
    if reference is None:
        return "this host has no token reference"
    of = f"the reference (release {reference.release})"
    if model not in reference.models:
        return f"{of} has no answers of {model}"
    asked = (
        ("is of host", reference.host, task.host),
        ("answered the prompts", reference.prompts_sha256[:12], task.prompts_sha256[:12]),
        ("has tokens per answer:", reference.output_tokens, task.output_tokens),
        ("is of model bytes", reference.models[model].model_sha256[:12], task.models.get(model, "unknown")[:12]),
    )
    return next((f"{of} {what} {then}, this run {now}" for what, then, now in asked if then != now), None)


def _deviation(model: str, shape: str, prompt: str, text: str, reason: Reason, *, voids: bool) -> Check:
    if voids:
        return Check(model, "reference", shape, prompt, "void", text, reason)
    return Check(model, "reference", shape, prompt, "flag", text)


def _against(model: str, answers: Sequence[Answer], known: ModelReference) -> Iterator[tuple[Check, Compared]]:
    release = known.release
    shapes = {answer.shape for answer in answers}
    for shape in sorted(set(known.shapes) - shapes):
        detail = f"release {release} answered at this shape, this run did not"
        yield Check(model, "reference", shape, "", "void", detail, Reason.VOID_CORRECTNESS), "none"
    for shape, prompt, (first, *others) in _grouped(answers):
        before = known.shapes.get(shape, {}).get(prompt)
        if before is None:
            text = f"release {release} has no such answer"
            check = _deviation(model, shape, prompt, text, Reason.NO_REFERENCE, voids=is_strict(shape))
            yield check, "none"
            continue
        by: Compared = "ids" if before.ids is not None and first.ids is not None else "text"
        difference = first_difference(before, first)
        if difference is None:
            yield Check(model, "reference", shape, prompt, "ok", f"identical to release {release} by {by}"), by
        else:
            text = f"not the tokens of release {release}: {difference}"
            voids = is_strict(shape) or _alike(first, others)
            yield _deviation(model, shape, prompt, text, Reason.VOID_CORRECTNESS, voids=voids), by


def _own(
    model: str, records: Sequence[IdentityRecord], task: IdentityTask, said: _Said
) -> tuple[list[Check], list[Answer]]:
    """Return the checks that need no reference, and the model's answers."""
    mine = [record for record in records if record.model == model]
    answers = [answer for record in mine for answer in record.answers]
    checks = [*_started(model, mine)]
    if not any(check.state == "void" for check in checks):
        checks += [*_complete(model, answers, task), *_self(model, answers), *_garbage(model, answers, task, said)]
    return checks, answers


def judge_identity(
    records: Sequence[IdentityRecord],
    reference: IdentityReference | None,
    rows: Sequence[RowId],
    purpose: Purpose,
    *,
    task: IdentityTask,
) -> CorrectnessResult:
    """Judge the untimed answers of the subject.

    Parameters
    ----------
    records : sequence of IdentityRecord
        All of the journal; several of one model must agree with each other.
    reference : IdentityReference or None
        Of this host. None voids every row of a gate run with NO_REFERENCE; an adopt run needs none, since it is
        what the reference is made from.
    rows : sequence of RowId
        The plan's; a model's rows are void together (see :func:`lqw.correctness.result.voids_of` for why memory
        rows are among them). Numbers are kept: a void is a mark on a row, not its removal.
    purpose : Purpose
        Gate or adopt.
    task : IdentityTask
        What was asked.
    """
    checks: list[Check] = []
    compared: dict[str, Compared] = {}
    said: _Said = {}
    for model in dict.fromkeys(row.model for row in rows):
        own, answers = _own(model, records, task, said)
        checks += own
        compared[model] = "self" if purpose is Purpose.ADOPT else "none"
        if purpose is Purpose.ADOPT:
            continue
        missing = _unusable(model, reference, task)
        if missing is not None or reference is None:
            text = missing or "this host has no token reference"
            checks.append(Check(model, "reference", "", "", "void", text, Reason.NO_REFERENCE))
            continue
        pairs = list(_against(model, answers, reference.models[model]))
        checks += [check for check, _ in pairs]
        used = {by for check, by in pairs if by != "none"}
        compared[model] = "text" if "text" in used else "ids" if used else "none"
    return CorrectnessResult(voids_of(checks, rows), tuple(checks), compared)


def reference_from(
    records: Sequence[IdentityRecord], starts: Sequence[StartRecord], *, task: IdentityTask
) -> IdentityReference:
    """Return the reference that an adopt run leaves behind.

    A model whose start failed, whose answers are missing or disagree with themselves, or are garbage, is left
    out, and so is one whose timed answers (*starts*) are other than the untimed ones or garbage: such answers never
    become what later releases are held to, and the gate then names NO_REFERENCE. So is an answer of parallel streams
    that differs between them; the others are held.
    """
    models: dict[str, ModelReference] = {}
    for model in dict.fromkeys(record.model for record in records):
        checks, answers = _own(model, records, task, {})
        engine = next((r.engine for r in records if r.model == model and r.engine is not None), None)
        checks += timed_checks(model, starts, records)
        if model not in task.models or any(check.state == "void" for check in checks):
            continue
        shapes: dict[str, dict[str, ReferenceAnswer]] = {}
        for shape, prompt, (first, *others) in _grouped(answers):
            if is_strict(shape) or _alike(first, others):
                shapes.setdefault(shape, {})[prompt] = reference_answer(first)
        models[model] = ModelReference(
            model_sha256=task.models[model],
            release=task.release,
            engine="unknown" if engine is None else f"{engine.engine} {engine.version}",
            binary_sha256="" if engine is None else engine.binary_sha256,
            shapes=shapes,
        )
    return IdentityReference(
        host=task.host,
        release=task.release,
        prompts_sha256=task.prompts_sha256,
        output_tokens=task.output_tokens,
        models=models,
    )
