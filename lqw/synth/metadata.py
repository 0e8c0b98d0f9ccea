"""The metadata of a synthetic model: architecture ``qwen35``, tokenizer, and the recipe itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.synth.gguf import F32Value, Field, U32Value
from lqw.synth.shapes import ATTENTION_INTERVAL, CONV_KERNEL

if TYPE_CHECKING:
    from lqw.synth.recipe import Recipe

__all__ = ["fields_of"]

ARCHITECTURE = "qwen35"
CONTEXT_TOKENS = 262_144
ROPE_BASE = 1e7
NORM_EPSILON = 1e-6


def fields_of(recipe: Recipe) -> dict[str, Field]:
    """Return the metadata in the order of the file."""
    return _general(recipe) | _architecture(recipe) | _tokenizer(recipe)


def _general(recipe: Recipe) -> dict[str, Field]:
    return {
        "general.architecture": ARCHITECTURE,
        "general.name": f"synthetic-{recipe.shape_name}",
        "general.description": "Random weights in the shapes of Qwen3.5, made by lqw synth. Answers mean nothing.",
        "general.file_type": U32Value(recipe.mix.file_type),
        "general.quantization_version": U32Value(2),
        "lqw.synth.recipe": recipe.described(),
    }


def _architecture(recipe: Recipe) -> dict[str, Field]:
    shape = recipe.shape
    sizes = {
        "block_count": shape.layers,
        "context_length": CONTEXT_TOKENS,
        "embedding_length": shape.embedding,
        "feed_forward_length": shape.ffn,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "rope.dimension_count": shape.rotated,
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.inner_size": shape.value_heads * shape.state,
        "ssm.state_size": shape.state,
        "ssm.time_step_rank": shape.value_heads,
        "ssm.group_count": shape.key_heads,
        "full_attention_interval": ATTENTION_INTERVAL,
        "vocab_size": recipe.rows,
    }
    fields: dict[str, Field] = {f"{ARCHITECTURE}.{key}": U32Value(value) for key, value in sizes.items()}
    fields[f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon"] = F32Value(NORM_EPSILON)
    fields[f"{ARCHITECTURE}.rope.freq_base"] = F32Value(ROPE_BASE)
    fields[f"{ARCHITECTURE}.rope.dimension_sections"] = shape.rope_sections
    return fields


def _tokenizer(recipe: Recipe) -> dict[str, Field]:
    vocabulary = recipe.vocabulary
    tokens, types = vocabulary.padded(recipe.rows)
    fields: dict[str, Field] = {
        "tokenizer.ggml.model": vocabulary.model,
        "tokenizer.ggml.pre": vocabulary.pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": vocabulary.merges,
    }
    fields |= {f"tokenizer.ggml.{key}": U32Value(value) for key, value in vocabulary.ids.items()}
    return fields | {"tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": vocabulary.chat_template}
