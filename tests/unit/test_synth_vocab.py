"""Tokenizers: the built-in one is a working byte-pair tokenizer; files are read whole or refused by name."""

import io
import lzma
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.errors import ParamsError
from lqw.synth import Recipe, made_up_vocabulary, read_vocabulary, synthesise
from lqw.synth.gguf import BadGguf, read_metadata
from lqw.synth.vocab import CONTROL, UNUSED
from lqw.synth.words import PLAIN


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("synth") / "tiny.gguf"
    synthesise(Recipe("qwen3.5-tiny", "q4_k_m", made_up_vocabulary()), path)
    return path


def _bpe(text, vocabulary):
    """Byte-pair merging by rank, as the published algorithm does it."""
    ranks = {m: i for i, m in enumerate(vocabulary.merges)}
    parts = [c.encode() for c in text]
    while True:
        pairs = [(ranks[a + b" " + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b" " + b in ranks]
        if not pairs:
            return parts
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def test_made_up_words_are_single_tokens_and_other_text_falls_back_to_bytes():
    vocabulary = made_up_vocabulary()
    assert _bpe("Ġbade", vocabulary) == ["Ġbade".encode()]
    assert _bpe("Ġbadexyz", vocabulary) == [b"\xc4\xa0bade", b"x", b"y", b"z"]
    known = set(vocabulary.tokens)
    assert len(known) == len(vocabulary.tokens) == len(vocabulary.types) == 11_494
    assert all(b"".join(m.split(b" ")) in known for m in vocabulary.merges)
    assert sum(1 for t in vocabulary.tokens if PLAIN.fullmatch(t)) == 11_025
    assert sum(1 for t in vocabulary.tokens if len(t.decode()) == 1) == 256


def test_made_up_end_tokens_are_control_tokens():
    vocabulary = made_up_vocabulary()
    assert vocabulary.tokens[vocabulary.ids["eos_token_id"]] == b"<|im_end|>"
    assert {vocabulary.types[i] for i in vocabulary.ids.values()} == {CONTROL}


def test_padding_is_unused_and_unique():
    vocabulary = made_up_vocabulary()
    tokens, types = vocabulary.padded(12_000)
    assert len(tokens) == len(types) == len(set(tokens)) == 12_000
    assert set(types[len(vocabulary.tokens) :]) == {UNUSED}


@pytest.mark.parametrize("packed", [False, True])
def test_a_written_model_gives_its_tokenizer_back(tiny, tmp_path, packed):
    path = tiny
    if packed:
        path = tmp_path / "tiny.gguf.xz"
        path.write_bytes(lzma.compress(tiny.read_bytes()[:600_000], preset=0))
    read, made = read_vocabulary(path), made_up_vocabulary()
    assert (read.tokens, read.types, read.merges, read.ids) == (made.tokens, made.types, made.merges, made.ids)
    assert (read.model, read.pre, read.chat_template) == (made.model, made.pre, made.chat_template)


def _refused(path):
    with pytest.raises(ParamsError) as caught:
        read_vocabulary(path)
    assert caught.value.field == "--vocab"
    assert "ggml-vocab-qwen35.gguf" in caught.value.remedy
    return caught.value.problem


def test_what_is_no_vocabulary_is_refused_by_name(tiny, tmp_path):
    assert _refused(tmp_path / "absent.gguf") == "No such file or directory"
    assert _refused(tmp_path) == "Is a directory"
    bad = tmp_path / "bad.gguf"
    for content, said in (
        (b"", "ends 24 bytes too early"),
        (b"PK\x03\x04" + bytes(40), "not with b'GGUF'"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "version 1"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**40), "metadata fields"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 0), "no byte-pair tokenizer"),
        (tiny.read_bytes()[:5000], "too early"),
    ):
        bad.write_bytes(content)
        assert said in _refused(bad)
    squeezed = tmp_path / "bad.gguf.xz"
    squeezed.write_bytes(lzma.compress(tiny.read_bytes()[:300_000])[:-400])
    assert "not a readable GGUF" in _refused(squeezed)
    squeezed.write_bytes(b"not xz at all")
    assert "not a readable GGUF" in _refused(squeezed)


def test_too_few_words_are_refused(tmp_path):
    made = made_up_vocabulary()
    few = type(made)(**(vars(made) | {"tokens": made.tokens[:900], "types": made.types[:900], "ids": {}}))
    with pytest.raises(ParamsError, match="plain lower-case words"):
        synthesise(Recipe("qwen3.5-tiny", "q4_k_m", few), tmp_path / "x.gguf")
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_larger_than_the_shape_is_refused():
    made = made_up_vocabulary()
    many = type(made)(**(vars(made) | {"tokens": made.tokens * 22, "types": made.types * 22}))
    with pytest.raises(ParamsError, match="the shape has 248320"):
        Recipe("qwen3.5-9b", "q4_k_m", many)


@settings(derandomize=True, max_examples=120, deadline=None)
@given(data=st.data())
def test_damaged_metadata_is_refused_not_crashed_on(data):
    text = struct.pack("<Q", 3) + b"abc"
    fields = [
        struct.pack("<I", 4) + struct.pack("<I", 7),
        struct.pack("<I", 8) + text,
        struct.pack("<IIQ", 9, 8, 2) + text + text,
        struct.pack("<IIQ", 9, 5, 3) + struct.pack("<3i", 1, 2, 3),
    ]
    whole = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(fields)))
    for i, value in enumerate(fields):
        whole += struct.pack("<Q", 2) + b"k%d" % i + value
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        read = read_metadata(io.BytesIO(bytes(cut)), wanted="k")
    except BadGguf:
        return
    assert len(read) <= len(fields)
