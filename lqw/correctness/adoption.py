"""Adopting a reference: new models join, equal answers stay, changed answers need a record. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lqw.correctness.reference import first_difference
from lqw.correctness.shapes import is_strict
from lqw.samples import Answer

if TYPE_CHECKING:
    from lqw.correctness.reference import IdentityReference, ModelReference

__all__ = ["Adoption", "adopt_reference", "model_difference"]


@dataclass(frozen=True, slots=True)
class Adoption:
    """What became of each model; ``reference`` is what the host holds now.

    ``refused`` maps a model to where its answers part from the ones held: such a change of numerics is accepted by
    a rebase record only, so the held answers stay.
    """

    reference: IdentityReference
    added: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def model_difference(held: ModelReference, new: ModelReference) -> str | None:
    """Return the first place where two references of the same model bytes part, or None.

    Of parallel streams only answers that were all alike are held; one that is not there now was not alike.
    """
    for shape, prompts in held.shapes.items():
        for prompt, before in prompts.items():
            now = new.shapes.get(shape, {}).get(prompt)
            if now is None and not is_strict(shape):
                continue
            if now is None:
                return f"{prompt} ({shape}): no such answer now"
            answer = Answer(
                prompt=prompt, shape=shape, repeat=0, prompt_tokens=now.prompt_tokens, ids=now.ids, text=now.text
            )
            difference = first_difference(before, answer)
            if difference is not None:
                return f"{prompt} ({shape}): {difference}"
    return None


def adopt_reference(held: IdentityReference | None, new: IdentityReference) -> Adoption:
    """Return the host's reference after an adopt run.

    Answers to other prompts, or of another length, cannot be compared: they replace the whole reference, as a
    changed protocol starts a new epoch. Otherwise models of new bytes join, as do shapes that were not held, models
    that the run did not have stay, and a model whose answers changed is refused.

    Parameters
    ----------
    held : IdentityReference or None
        What the host holds.
    new : IdentityReference
        From :func:`lqw.correctness.reference_from`.
    """
    if held is None or (held.host, held.prompts_sha256, held.output_tokens) != (
        new.host,
        new.prompts_sha256,
        new.output_tokens,
    ):
        return Adoption(new, added=tuple(new.models))
    models, added, kept, refused = dict(held.models), [], [], {}
    for name, model in new.models.items():
        before = held.models.get(name)
        if before is None or before.model_sha256 != model.model_sha256:
            models[name] = model
            added.append(name)
        elif (difference := model_difference(before, model)) is not None:
            refused[name] = difference
        elif model.shapes.keys() - before.shapes.keys():
            models[name] = before.model_copy(update={"shapes": {**model.shapes, **before.shapes}})
            added.append(name)
        else:
            kept.append(name)
    reference = held.model_copy(update={"models": models, "release": new.release if added else held.release})
    return Adoption(reference, tuple(added), tuple(kept), refused)
