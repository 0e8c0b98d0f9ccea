"""A small tokenizer of invented words, for where no vocabulary file is at hand.

It is a real byte-pair tokenizer: 256 bytes, syllables of two letters, and all words of a space and two syllables, each
reached by its merges. So text goes in and comes out unchanged, and answers are words (``" bade kilo"``) that mean
nothing. It is not Qwen's, and the file's metadata says so.
"""

from __future__ import annotations

from itertools import product

from lqw.synth.vocab import CHATML, CONTROL, NORMAL, Vocabulary

__all__ = ["MADE_UP", "made_up_vocabulary"]

MADE_UP = "made-up"
SPACE = "Ġ"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def made_up_vocabulary() -> Vocabulary:
    """Return the built-in vocabulary: 11,494 tokens, 11,025 of them words."""
    syllables = ["".join(pair) for pair in product("bcdfghjklmnpqrstvwxyz", "aeiou")]
    starts = [SPACE + syllable for syllable in syllables]
    words = [start + syllable for start, syllable in product(starts, syllables)]
    merges = [f"{s[0]} {s[1]}" for s in syllables] + [f"{SPACE} {s}" for s in syllables]
    merges += [f"{start} {syllable}" for start, syllable in product(starts, syllables)]
    tokens = [*_byte_alphabet(), *syllables, *starts, *words, *SPECIAL]
    types = [NORMAL] * (len(tokens) - len(SPECIAL)) + [CONTROL] * len(SPECIAL)
    end = len(tokens) - len(SPECIAL)
    return Vocabulary(
        kind=MADE_UP,
        source="built in: invented words, not Qwen's",
        model="gpt2",
        pre="qwen35",
        tokens=tuple(t.encode() for t in tokens),
        types=tuple(types),
        merges=tuple(m.encode() for m in merges),
        ids={"eos_token_id": end + 2, "padding_token_id": end, "bos_token_id": end},
        chat_template=CHATML,
    )


def _byte_alphabet() -> list[str]:
    """Return GPT-2's character for each byte: itself where it prints, else the next one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]
