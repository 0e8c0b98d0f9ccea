"""Tensor shapes, mixes and sizes, against what is published of the real models."""

from collections import Counter

import pytest

from lqw.errors import ParamsError
from lqw.synth import MIXES, SHAPES, Recipe, made_up_vocabulary, planned_bytes
from lqw.synth.mixes import Format, tensor_bytes
from lqw.synth.shapes import Kind, TensorShape
from lqw.synth.tensors import PART, parts_of

VOCABULARY = made_up_vocabulary()


def _recipe(shape, mix="q4_k_m", **more):
    return Recipe(f"qwen3.5-{shape}", mix, VOCABULARY, **more)


@pytest.mark.parametrize(
    ("shape", "billions"), [("0.8b", 0.752), ("2b", 1.882), ("4b", 4.206), ("9b", 8.954), ("27b", 26.896)]
)
def test_parameters_are_those_of_the_text_model(shape, billions):
    """Published sizes; the real embedding of the three small ones is counted once, for it is tied."""
    recipe = _recipe(shape)
    count = sum(t.elements for t, _ in recipe.tensors() if not (recipe.shape.tied and t.kind is Kind.OUTPUT))
    assert count / 1e9 == pytest.approx(billions, rel=0.001)


def test_tensors_of_both_kinds_of_layer():
    shapes = {t.name: (t.rows, t.cols) for t, _ in _recipe("4b").tensors()}
    assert shapes["blk.0.attn_qkv.weight"] == (8192, 2560)
    assert shapes["blk.0.ssm_conv1d.weight"] == (8192, 4)
    assert shapes["blk.0.ssm_alpha.weight"] == (32, 2560)
    assert shapes["blk.3.attn_q.weight"] == (8192, 2560)
    assert shapes["blk.3.attn_k.weight"] == (1024, 2560)
    assert shapes["blk.3.attn_output.weight"] == (2560, 4096)
    assert shapes["output.weight"] == shapes["token_embd.weight"] == (248_320, 2560)
    assert "blk.3.ssm_a" not in shapes
    assert "blk.0.attn_q.weight" not in shapes


@pytest.mark.parametrize("name", SHAPES)
def test_rope_sections_cover_what_is_rotated(name):
    shape = SHAPES[name]
    assert 2 * sum(shape.rope_sections) == shape.rotated  # one engine reads the sections, the other the count
    assert name == "qwen3.5-tiny" or shape.rope_sections == (11, 11, 10, 0)


def test_q4_k_m_gives_more_bits_where_llama_cpp_does():
    formats = {t.name: f for t, f in _recipe("9b").tensors()}
    more = [i for i in range(32) if formats[f"blk.{i}.ffn_down.weight"] is Format.Q6_K]
    assert more == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    assert formats["blk.6.attn_qkv.weight"] is formats["blk.15.attn_v.weight"] is Format.Q6_K
    assert formats["blk.4.attn_qkv.weight"] is formats["blk.0.ssm_beta.weight"] is Format.Q4_K
    assert (formats["token_embd.weight"], formats["output.weight"]) == (Format.Q4_K, Format.Q6_K)
    assert next(f for _, f in _recipe("4b").tensors()) is Format.Q6_K  # the embedding, tied there


@pytest.mark.parametrize("mix", MIXES)
def test_formats_of_a_mix(mix):
    count = Counter(f for t, f in _recipe("0.8b", mix).tensors() if t.rows and t.kind is not Kind.CONV)
    wanted = {MIXES[mix].base, MIXES[mix].output} | ({MIXES[mix].more} - {None})
    assert set(count) == wanted


@pytest.mark.parametrize(
    ("shape", "mix", "size"),
    [
        ("tiny", "q4_k_m", 6_210_016),
        ("0.8b", "q4_k_m", 732_676_928),
        ("9b", "q4_k_m", 5_623_899_840),
        ("27b", "q4_k_m", 16_542_189_824),
        ("27b", "f16", 53_803_071_744),
    ],
)
def test_sizes_by_arithmetic(shape, mix, size):
    assert planned_bytes(_recipe(shape, mix)) == size


@pytest.mark.parametrize("mix", MIXES)
def test_parts_tile_every_tensor_and_stay_small(mix):
    """What bounds the memory: no part holds more than about a million numbers, whatever the shape."""
    for tensor, fmt in _recipe("27b", mix).tensors():
        if tensor.layer > 3:
            continue
        parts = list(parts_of(tensor, fmt))
        by_row = tensor.kind in (Kind.EMBEDDING, Kind.OUTPUT)
        unit = tensor.cols if by_row else fmt.block
        assert [p.first for p in parts] == [sum(q.count for q in parts[:i]) for i in range(len(parts))]
        assert sum(p.count for p in parts) * unit == tensor.elements
        assert max(p.count for p in parts) * unit <= PART


def test_rows_that_do_not_fill_blocks_are_refused():
    with pytest.raises(ValueError, match="do not fill blocks"):
        tensor_bytes(TensorShape("x", Kind.READ, 2, 100), Format.Q4_K)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"shape_name": "qwen3.5-70b"}, "--shape"),
        ({"mix_name": "iq2_xxs"}, "--mix"),
        ({"seed": -1}, "--seed"),
        ({"seed": 2**63}, "--seed"),
        ({"kappa": 0.0}, "--kappa"),
        ({"kappa": float("nan")}, "--kappa"),
        ({"kappa": float("inf")}, "--kappa"),
    ],
)
def test_bad_recipes_name_the_option(changes, field):
    good = {"shape_name": "qwen3.5-tiny", "mix_name": "q4_k_m", "vocabulary": VOCABULARY}
    with pytest.raises(ParamsError) as caught:
        Recipe(**(good | changes))
    assert caught.value.field == field
    assert caught.value.exit_status == 2
    assert caught.value.remedy
