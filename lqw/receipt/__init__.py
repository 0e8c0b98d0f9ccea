"""Receipt: schema, building, verification and the store (ARCHITECTURE, stage 40)."""

from lqw.receipt.build import build_receipt, compose_receipt
from lqw.receipt.client import client_voids
from lqw.receipt.inputs import Inputs, Rejudged, epoch_of, params_of, rejudge, standing_for
from lqw.receipt.problems import Problem
from lqw.receipt.verify import Verification, verify_receipt

__all__ = [
    "Inputs",
    "Problem",
    "Rejudged",
    "Verification",
    "build_receipt",
    "client_voids",
    "compose_receipt",
    "epoch_of",
    "params_of",
    "rejudge",
    "standing_for",
    "verify_receipt",
]
