"""What a host file may say: name, class, lock, margin, and where its engines are."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from lqw.params.strict import Strict

__all__ = ["FileName", "HostClassSpec", "HostEngineSpec", "HostSpec", "MarginSpec", "Name", "Setting"]

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Setting = bool | int | float | str


def _inside(path: str) -> str:
    """Return the path of a folder below the repository's root; ValueError where it is none, or git's own."""
    parts = PurePosixPath(path).parts
    odd = any(ord(character) < ord(" ") or character in "\\:" for character in path)
    if not parts or odd or path.startswith("/") or ".." in parts or ".git" in map(str.casefold, parts):
        raise ValueError("not a folder inside the repository: write it relative to the root, such as receipts")
    return path


Inside = Annotated[str, AfterValidator(_inside)]


def _without_nul(path: str) -> str:
    if "\0" in path:
        raise ValueError("a path holds no NUL character")
    return path


FileName = Annotated[str, AfterValidator(_without_nul)]
"""A path of the machine; one with a NUL can name no file, and the system refuses to look for it."""


class MarginSpec(Strict):
    """The margin class: the largest fall a PASS may still hide. Declared openly and shown in the report."""

    letter: Literal["A", "B", "C", "D"] = "A"
    fraction: float = Field(default=0.10, gt=0, lt=1)
    reason: str = ""

    @model_validator(mode="after")
    def _reason(self) -> MarginSpec:
        if self.fraction > 0.10 and len(self.reason) < 20:  # noqa: PLR2004
            raise ValueError("a margin wider than 10 % needs a reason of at least 20 characters")
        return self


class HostClassSpec(Strict):
    """What the machine must be seen to be before its numbers are its own; what is left out is not looked at.

    ``gpu`` is a part of NVML's name, ``memory`` the best way GPU memory can be read there.
    """

    machine: str | None = None
    gpu: str | None = None
    vram_mib: int | None = None
    power_limit_w: int | None = None
    memory: Literal["nvml_process", "nvml_device_delta", "unified_meminfo"] | None = None


class HostEngineSpec(Strict):
    """Where an engine lies on a host, and the settings that are the host's and not the release's (thread counts)."""

    binary: FileName | None = None
    settings: dict[str, Setting] = Field(default={})


class HostSpec(Strict):
    """A machine the gate runs on, by one name: ``aliases`` are taken for it.

    ``engines`` says where its programs are. ``receipts`` and ``reports`` are folders of the repository.
    """

    schema_: Literal["lqw-host/1"] = Field(alias="schema")
    name: Name
    aliases: list[str] = Field(default=[])
    compute: Literal["cpu", "cuda"]
    lock: FileName | None = None
    class_: HostClassSpec | None = Field(default=None, alias="class")
    engines: dict[Name, HostEngineSpec] = Field(default={})
    margin: MarginSpec = MarginSpec.model_construct()
    one_token_detector: Literal["gate", "report"] = "gate"
    receipts: Inside = "receipts"
    reports: Inside = "reports"
