"""How many digits a share is told with, everywhere: verdict, receipt, report and lab say the same."""

__all__ = ["percent"]


def percent(fraction: float, *, signed: bool = False) -> str:
    """Return ``21 %`` or, below ten, ``2.1 %``: two digits are what a measured share is worth.

    Parameters
    ----------
    fraction : float
        A share of one; its sign is dropped unless *signed*, which writes ``+`` or ``−`` where any is left to see.
    """
    scaled = abs(fraction) * 100
    digits = f"{scaled:.0f} %" if scaled >= 9.95 else f"{scaled:.1f} %"  # noqa: PLR2004 - two digits are enough
    sign = "" if not signed or scaled < 0.05 else "−" if fraction < 0 else "+"  # noqa: PLR2004 - shown as 0.0 %
    return sign + digits
