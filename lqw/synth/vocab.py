"""The tokenizer of a synthetic model, taken from a GGUF (plain or .xz) that has one."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lqw.errors import ParamsError
from lqw.synth.gguf import BadGguf, read_metadata

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CHATML", "NORMAL", "SPECIAL_IDS", "UNUSED", "Vocabulary", "read_vocabulary"]

NORMAL, CONTROL, UNUSED = 1, 3, 5  # ggml's token types
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "padding_token_id")

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """A byte-pair tokenizer, as GGUF stores it.

    ``kind`` says in the file's metadata where it came from; ``source`` says it to people. ``tokens`` and ``merges`` are
    UTF-8 in the byte-to-character alphabet of GPT-2; ``types`` are ggml's token types.
    """

    kind: str
    source: str
    model: str
    pre: str
    tokens: tuple[bytes, ...]
    types: tuple[int, ...]
    merges: tuple[bytes, ...]
    ids: dict[str, int]
    chat_template: str

    def padded(self, size: int) -> tuple[list[bytes], list[int]]:
        """Return tokens and types filled up with unused tokens to *size*."""
        extra = range(len(self.tokens), size)
        return [*self.tokens, *(b"[PAD%d]" % i for i in extra)], [*self.types, *(UNUSED for _ in extra)]


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the tokenizer of a GGUF; a file that ends in ``.xz`` is unpacked on the way.

    Raises
    ------
    ParamsError
        No such file, not a GGUF, damaged, or without a byte-pair tokenizer.
    """
    try:
        with _opened(path) as handle:
            fields = read_metadata(handle, wanted="tokenizer.")
    except OSError as err:
        raise _bad(path, err.strerror or str(err)) from err
    except (BadGguf, lzma.LZMAError, EOFError) as err:
        raise _bad(path, f"not a readable GGUF: {err}") from err
    return _assembled(path, fields)


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", lzma.open(path, "rb")) if path.suffix == ".xz" else path.open("rb")


def _assembled(path: Path, fields: dict[str, Any]) -> Vocabulary:
    name = "tokenizer.ggml."
    tokens, types, merges = _lists(fields, name)
    if not (_all_of(tokens, bytes) and _all_of(types, int) and _all_of(merges, bytes)):
        raise _bad(path, "has no byte-pair tokenizer (tokenizer.ggml.tokens, token_type, merges)")
    if len(tokens) != len(types):
        raise _bad(path, f"{len(tokens)} tokens but {len(types)} token types")
    model, pre = (_text(fields.get(name + part)) for part in ("model", "pre"))
    if model != "gpt2" or not pre:
        raise _bad(path, f"tokenizer model {model!r}, pre {pre!r}: not a byte-level one like Qwen3.5's")
    ids = {key: fields[name + key] for key in SPECIAL_IDS if name + key in fields}
    if any(not isinstance(i, int) or not 0 <= i < len(tokens) for i in ids.values()):
        raise _bad(path, f"special token ids out of range: {ids}")
    template = _text(fields.get("tokenizer.chat_template")) or CHATML
    return Vocabulary(f"gguf:{pre}", str(path), model, pre, tuple(tokens), tuple(types), tuple(merges), ids, template)


def _lists(fields: dict[str, Any], name: str) -> tuple[Any, Any, Any]:
    return fields.get(name + "tokens"), fields.get(name + "token_type"), fields.get(name + "merges")


def _all_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], kind)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _bad(path: Path, problem: str) -> ParamsError:
    return ParamsError(
        file="lqw synth",
        field="--vocab",
        value=str(path),
        problem=problem,
        remedy="give a GGUF with Qwen3.5's tokenizer (llama.cpp's models/ggml-vocab-qwen35.gguf, or any Qwen3.5 GGUF; "
        ".xz is unpacked), or --vocab made-up for a built-in vocabulary of invented words",
    )
