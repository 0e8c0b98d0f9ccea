"""What the identity stage asked, what each check saw, and which rows are void for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import ValidationError

from lqw.canonical import sha256_json
from lqw.correctness.shapes import other_shapes
from lqw.errors import IntegrityError
from lqw.metrics import RowId
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.samples import Header

__all__ = ["Check", "CorrectnessResult", "IdentityTask", "correctness_from_json", "correctness_to_json"]

State = Literal["ok", "flag", "void"]
STATES: tuple[State, ...] = ("ok", "flag", "void")
Compared = Literal["ids", "text", "self", "none"]
COMPARED: tuple[Compared, ...] = ("ids", "text", "self", "none")
MAX_DETAIL = 3_500  # characters; Failure.detail holds 4,000


@dataclass(frozen=True, slots=True)
class IdentityTask:
    """What the identity stage asked: everything a judge must know beside the answers.

    Parameters
    ----------
    models : dict
        Name → sha256 of the GGUF's bytes on disk.
    host, release : str
        Where and of what.
    prompts : dict
        Name → text.
    output_tokens, repeats : int
        Tokens an answer was to have, and how often each prompt was asked (at least two, for self-identity).
    at_shapes : dict
        Shape besides ``single`` → names of the prompts that were asked again there.
    """

    models: Mapping[str, str]
    host: str
    release: str
    prompts: Mapping[str, str]
    output_tokens: int
    repeats: int
    at_shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def asked_at(self, shape: str) -> Sequence[str]:
        """Return the names of the prompts that were asked at *shape*."""
        return self.at_shapes.get(shape, tuple(self.prompts))

    @property
    def prompts_sha256(self) -> str:
        """Return the sha256 of the canonical JSON of the prompts: comments in their file do not count."""
        return sha256_json(dict(self.prompts))

    @classmethod
    def from_header(cls, header: Header) -> IdentityTask:
        """Read the task from a journal's first line; IntegrityError where its params do not hold one."""
        try:
            identity = header.params["protocol"]["identity"]
            task = cls(
                models=dict(header.models),
                host=header.params["host"]["name"],
                release=header.params["release"]["release"],
                prompts=dict(header.params["prompts"]),
                output_tokens=identity["output_tokens"],
                repeats=identity["repeats"],
                at_shapes=_at_shapes(header.params["protocol"], tuple(header.params["prompts"])),
            )
        except (KeyError, TypeError, ValueError) as err:
            raise IntegrityError(f"journal header: params hold no identity task: {err!r}") from err
        if type(task.output_tokens) is not int or type(task.repeats) is not int or not task.prompts:
            raise IntegrityError("journal header: params hold no identity task: counts or prompts missing")
        return task


def _at_shapes(protocol: Mapping[str, Any], prompts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return what was asked at the other shapes; journals from before there were any do not hold the field."""
    if "at_shapes" not in protocol["identity"]:
        return {}
    steps = [(step["kind"], step["streams"]) for launch in protocol["launches"] for step in launch["steps"]]
    names = protocol["identity"]["at_shapes"]
    return dict.fromkeys(other_shapes(steps), prompts if names is None else tuple(names))


class Check(NamedTuple):
    """One thing that was looked at. ``reason`` stands where ``state`` is ``void``; a flag never voids."""

    model: str
    kind: str
    shape: str
    prompt: str
    state: State
    detail: str
    reason: Reason | None = None

    def __str__(self) -> str:
        """Return one line for people."""
        where = " ".join(part for part in (self.model, self.prompt, self.shape and f"({self.shape})") if part)
        return f"{self.state.upper():4} {where} {self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True)
class CorrectnessResult:
    """Which rows are void and why, every check, and per model what its tokens were compared by."""

    voids: dict[RowId, Failure] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    compared: dict[str, Compared] = field(default_factory=dict)

    @property
    def flags(self) -> tuple[Check, ...]:
        """Return the checks that people should see and the verdict does not."""
        return tuple(check for check in self.checks if check.state == "flag")

    @property
    def bad(self) -> tuple[Check, ...]:
        """Return the checks that void."""
        return tuple(check for check in self.checks if check.state == "void")

    def merged(self, later: CorrectnessResult) -> CorrectnessResult:
        """Return both; a row that is void already keeps its first failure."""
        return replace(
            self,
            voids={**later.voids, **self.voids},
            checks=self.checks + later.checks,
            compared={**later.compared, **self.compared},
        )


def voids_of(checks: Sequence[Check], rows: Sequence[RowId]) -> dict[RowId, Failure]:
    """Return the failure of every row whose model has a voiding check; the first such check gives the reason.

    All rows of the model are void, rates, latencies and memory alike. Speed rows, because the speed of another
    computation says nothing of this one. Memory rows too: they were read while that other computation ran, whose
    buffers (a cache never filled, a path not taken) are not those of the right one.
    """
    bad: dict[str, list[Check]] = defaultdict(list)
    for check in checks:
        if check.state == "void":
            bad[check.model].append(check)
    failures: dict[str, Failure] = {}
    for model, (first, *others) in bad.items():
        more = f" (and {len(others)} more)" if others else ""
        what = " ".join(part for part in (first.prompt, first.shape and f"({first.shape})", first.kind) if part)
        detail = f"{what}: {first.detail}"[:MAX_DETAIL] + more
        failures[model] = Failure(reason=first.reason or Reason.VOID_CORRECTNESS, detail=detail)
    return {row: failures[row.model] for row in rows if row.model in failures}


def correctness_to_json(result: CorrectnessResult) -> dict[str, Any]:
    """Return the JSON form that ``correctness.json`` and the receipt carry."""
    return {
        "voids": {str(row): failure.model_dump(mode="json") for row, failure in result.voids.items()},
        "checks": [
            {
                "model": check.model,
                "kind": check.kind,
                "shape": check.shape,
                "prompt": check.prompt,
                "state": check.state,
                "detail": check.detail,
                "reason": None if check.reason is None else str(check.reason),
            }
            for check in result.checks
        ],
        "compared": dict(result.compared),
    }


def correctness_from_json(value: Any) -> CorrectnessResult:
    """Read the JSON form back; IntegrityError where it is not one."""
    try:
        checks = tuple(
            Check(**{**one, "reason": None if one["reason"] is None else Reason(one["reason"])})
            for one in value["checks"]
        )
        voids = {
            RowId.parse(row): Failure.model_validate({**failure, "reason": Reason(failure["reason"])})
            for row, failure in value["voids"].items()
        }
        compared = dict(value["compared"])
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as err:
        raise IntegrityError(f"correctness: malformed: {err!r}") from err
    unknown = {check.state for check in checks} - set(STATES) | set(compared.values()) - set(COMPARED)
    if set(value) != {"voids", "checks", "compared"} or unknown:
        raise IntegrityError(f"correctness: malformed: unknown fields or words {sorted(set(value) | unknown)}")
    return CorrectnessResult(voids, checks, compared)
