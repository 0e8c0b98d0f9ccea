r"""Text of anybody's on a terminal: one line, nothing in it that a terminal would obey."""

from __future__ import annotations

import unicodedata

__all__ = ["plain"]

WIDTH = 400  # characters of one line


def plain(text: object) -> str:
    r"""Return *text* as one harmless line: control, escape and direction characters shown as ``\xNN``, ``\uNNNN``.

    A receipt may come from anybody; nothing in it may move the cursor, colour the terminal or turn the line around.
    """
    shown = "".join(
        character
        if unicodedata.category(character)[0] != "C" and character not in "\u2028\u2029"
        else _escaped(character)
        for character in str(text)[: WIDTH + 1]
    )
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
