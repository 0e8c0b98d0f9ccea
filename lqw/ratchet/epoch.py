"""The epoch key: what must be equal for two ratios to be comparable at all (STATISTICS §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.canonical import sha256_json
from lqw.samples import Record

if TYPE_CHECKING:
    from lqw.params import Params
    from lqw.samples import EngineFacts, HostFacts

__all__ = ["ComparatorIdentity", "EpochKey", "HostClass", "epoch_differences", "epoch_key", "protocol_sha256"]


class HostClass(Record):
    """The machine's class: no name, no clock reading, nothing that changes from one boot to the next."""

    gpu: str | None
    vram_mib: int | None
    power_limit_w: int | None
    cpu_model: str
    cores: int
    ram_gib: int
    driver_major: str | None
    cuda_major: str | None


class ComparatorIdentity(Record):
    """The denominator: which binary, started how."""

    engine: str
    version: str
    build: str
    binary_sha256: str
    settings_sha256: str  # of the declared settings and environment


class EpochKey(Record):
    """Host class · comparator · models · protocol."""

    host: HostClass
    comparator: ComparatorIdentity
    models: dict[str, str]  # name -> sha256 of the GGUF
    protocol_sha256: str

    @property
    def sha256(self) -> str:
        """Return the hash that receipts name the epoch by."""
        return sha256_json(self.model_dump(mode="json"))


def protocol_sha256(params: Params) -> str:
    """Return the hash of what the protocol makes the engines do.

    Launches (slots, prompt lengths, output tokens, repeats, order), the shortest aggregate window and the corpus the
    prompts are cut from. Rows, looks, timeouts and the number of floor pairs change no single value, so they are left
    out: adding a row must not cost every other row its floor.
    """
    protocol = params.protocol
    corpus = params.files.get(f"prompts/{protocol.corpus}", "")
    return sha256_json(
        {
            "launches": [launch.model_dump(mode="json") for launch in protocol.launches],
            "min_window_s": protocol.min_window_s,
            "corpus_sha256": corpus,
        }
    )


def epoch_key(params: Params, host: HostFacts, comparator: EngineFacts, models: dict[str, str]) -> EpochKey:
    """Return the epoch of a run.

    Parameters
    ----------
    params : Params
        For the comparator's declared settings and the protocol.
    host : HostFacts
        From the journal's header.
    comparator : EngineFacts
        Of any comparator start: what actually ran.
    models : dict of str to str
        Name to sha256 of the bytes on disk, from the journal's header.
    """
    spec = params.release.comparator
    return EpochKey(
        host=HostClass(
            gpu=host.gpu,
            vram_mib=host.vram_mib,
            power_limit_w=host.power_limit_w,
            cpu_model=host.cpu_model,
            cores=host.cores,
            ram_gib=host.ram_gib,
            driver_major=_major(host.driver),
            cuda_major=_major(host.cuda),
        ),
        comparator=ComparatorIdentity(
            engine=comparator.engine,
            version=comparator.version,
            build=comparator.build,
            binary_sha256=comparator.binary_sha256,
            settings_sha256=sha256_json({"settings": spec.settings, "env": spec.env}),
        ),
        models=dict(models),
        protocol_sha256=protocol_sha256(params),
    )


def _major(version: str | None) -> str | None:
    return version.split(".", 1)[0] if version else None


def epoch_differences(old: EpochKey, new: EpochKey) -> tuple[str, ...]:
    """Name every part in which two keys differ, as ``host.gpu: 'A' became 'B'``; empty means one epoch.

    A model that only one of them has is no difference: its rows simply have no floor yet, or none to be judged.
    """
    out = [
        f"{part}.{name}: {_show(was)} became {_show(now)}"
        for part in ("host", "comparator")
        for name, was in getattr(old, part).model_dump().items()
        if was != (now := getattr(getattr(new, part), name))
    ]
    out += [
        f"models.{name}: {_show(old.models[name])} became {_show(new.models[name])}"
        for name in sorted(old.models.keys() & new.models.keys())
        if old.models[name] != new.models[name]
    ]
    if old.protocol_sha256 != new.protocol_sha256:
        out.append(f"protocol: {_show(old.protocol_sha256)} became {_show(new.protocol_sha256)}")
    return tuple(out)


def _show(value: Any) -> str:
    text = repr(value)
    return repr(value[:12] + "…") if isinstance(value, str) and len(value) == 64 else text  # noqa: PLR2004 - a sha256
