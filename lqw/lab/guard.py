"""The lab never gates: it refuses to work inside a run, and nothing here writes a receipt, a floor or a record.

The layers hold the other half: the chain lies below this package and cannot import it (import-linter), and a gate takes
its method from the code, never from the registry an analyst adds to (:func:`lqw.plan.policy_of`).
"""

from __future__ import annotations

import sys

from lqw.errors import UsageError

__all__ = ["CHAIN_KERNEL", "RECEIPTS_VARIABLE", "refuse_in_a_run"]

RECEIPTS_VARIABLE = "LQW_LAB_RECEIPTS"
"""Receipts or folders of them, joined as a PATH is; ``lqw lab RECEIPT…`` sets it for the notebook."""

CHAIN_KERNEL = "lqw.pipeline.kernel"


def refuse_in_a_run() -> None:
    """Raise UsageError in the kernel of a gating chain."""
    if CHAIN_KERNEL in sys.orig_argv:
        raise UsageError(
            "lqw.lab inside a gating run: the lab never gates",
            remedy="take it out of the notebook; open the lab with: lqw lab",
        )
