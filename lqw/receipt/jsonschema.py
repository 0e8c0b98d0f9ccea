"""The JSON Schema of a receipt: ``python -m lqw.receipt.jsonschema > docs/receipt/lqw-receipt-1.schema.json``.

A schema can say which fields there are and of what type; that a number follows from others only ``lqw verify`` can say.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import Field, create_model

from lqw.correctness import IdentityReference
from lqw.outcomes import Reason
from lqw.params import Params
from lqw.receipt.schema import Receipt
from lqw.samples import Failure, Header, Record
from lqw.verdict import Judgement, Standing

__all__ = ["receipt_schema", "schema_text", "typed_receipt"]


class _Check(Record):
    """One thing the correctness stage looked at."""

    model: str
    kind: str
    shape: str
    prompt: str
    state: str = Field(pattern="^(ok|flag|void)$")
    detail: str
    reason: Reason | None


class _Correctness(Record):
    """What stage 20 found."""

    voids: dict[str, Failure]
    checks: list[_Check]
    compared: dict[str, str]


def typed_receipt() -> type[Record]:
    """Return the model in which every part that ``Receipt`` keeps as it stands has the type of the module it is of."""
    judgement = create_model("Judgement", __base__=Judgement, exit_status_=(int, Field(alias="exit_status")))
    header = create_model("Header", __base__=Header, params=(Params, ...))
    return create_model(
        "Receipt",
        __base__=Receipt,
        header=(header, ...),
        standing=(Standing, ...),
        reference=(IdentityReference | None, ...),
        correctness=(_Correctness, ...),
        judgement=(judgement, ...),
    )


def receipt_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``lqw-receipt/1``."""
    schema = typed_receipt().model_json_schema(by_alias=True, mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "lqw-receipt-1.schema.json",
        **schema,
        "title": "lqw-receipt/1",
    }


def schema_text() -> str:
    """Return the schema as the file in docs/receipt holds it."""
    return json.dumps(receipt_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
