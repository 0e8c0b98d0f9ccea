"""Receipt: schema, building, verification and the store (ARCHITECTURE, stage 40)."""

from typing import TYPE_CHECKING

from lqw.imports import exports

if TYPE_CHECKING:
    from lqw.receipt.build import build_receipt as build_receipt
    from lqw.receipt.build import compose_receipt as compose_receipt
    from lqw.receipt.client import client_voids as client_voids
    from lqw.receipt.inputs import Inputs as Inputs
    from lqw.receipt.inputs import Rejudged as Rejudged
    from lqw.receipt.inputs import epoch_of as epoch_of
    from lqw.receipt.inputs import params_of as params_of
    from lqw.receipt.inputs import rejudge as rejudge
    from lqw.receipt.inputs import standing_for as standing_for
    from lqw.receipt.problems import Problem as Problem
    from lqw.receipt.verify import Verification as Verification
    from lqw.receipt.verify import verify_receipt as verify_receipt
else:
    __getattr__, __all__ = exports(
        __name__,
        {
            "build": ("build_receipt", "compose_receipt"),
            "client": ("client_voids",),
            "inputs": ("Inputs", "Rejudged", "epoch_of", "params_of", "rejudge", "standing_for"),
            "problems": ("Problem",),
            "verify": ("Verification", "verify_receipt"),
        },
    )
