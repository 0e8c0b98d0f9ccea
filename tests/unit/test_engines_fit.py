"""DOES_NOT_FIT by arithmetic: sizes of a real header, each engine's own rule, and the row's reason before any start."""

from dataclasses import replace
from pathlib import Path

import pytest

from lqw.engines import fit, starting
from lqw.engines.apr import Apr
from lqw.engines.base import StartRequest
from lqw.engines.fit import Sizes, does_not_fit, need_of, sizes_of
from lqw.engines.llama_server import LlamaServer
from lqw.outcomes import Reason
from lqw.params import EngineSpec
from lqw.synth.gguf import F32Value, U32Value, header
from lqw.synth.mixes import Format
from lqw.synth.shapes import Kind, TensorShape
from lqw.testing.fake_adapter import Fake
from tests.support.engines import request

MIB = 2**20
# Qwen3.5-0.8B: 6 attention layers of 2 x 2 x 256, 18 recurrent ones of 2048 x 128 and a window of 3 x 6144
HYBRID = {
    "block_count": 24, "embedding_length": 1024, "attention.head_count": 8, "attention.head_count_kv": 2,
    "attention.key_length": 256, "attention.value_length": 256, "full_attention_interval": 4, "ssm.conv_kernel": 4,
    "ssm.inner_size": 2048, "ssm.state_size": 128, "ssm.group_count": 16,
}  # fmt: skip


@pytest.fixture
def gguf(tmp_path):
    def make(sizes, name="m.gguf"):
        fields = {"general.architecture": "qwen35"} | {f"qwen35.{k}": U32Value(v) for k, v in sizes.items()}
        shapes = [
            TensorShape("token_embd.weight", Kind.EMBEDDING, 1000, 256),
            TensorShape("blk.0.ffn_up.weight", Kind.READ, 512, 256),
            TensorShape("blk.0.attn_norm.weight", Kind.NORM, 0, 256),
        ]
        path = tmp_path / name
        path.write_bytes(header({**fields, "qwen35.x": F32Value(1.0)}, [(one, Format.F32, 0) for one in shapes]))
        return path

    return make


def asked(path, compute="cuda", *, slots=1, context=4_096, engine="apr", env=None, **settings):
    spec = EngineSpec(engine=engine, settings=settings, env=env or {})
    return StartRequest(spec, path, slots, context, compute, "run", Path("/logs/x"), 60.0)


def test_sizes_of_a_hybrid(gguf):
    sizes = sizes_of(gguf(HYBRID))
    assert sizes.kv_per_token == 6 * 2 * (256 + 256) * 2
    assert sizes.state_per_slot == 18 * (2048 * 128 + 3 * (2048 + 2 * 16 * 128)) * 4
    assert (sizes.row, sizes.matrices, sizes.window) == (4_000, 512 * 256, 0)


def test_a_header_that_does_not_tell_refuses_nothing(gguf, tmp_path):
    assert sizes_of(gguf({"block_count": 24})) is None
    (tmp_path / "no").write_bytes(b"GGUF" + bytes(20))
    assert sizes_of(tmp_path / "no") is None
    assert does_not_fit(LlamaServer(), asked(tmp_path / "no", "cpu")) is None


SIZES = Sizes(file=700 * MIB, kv_per_token=12_288, window=0, state_per_slot=20 * MIB, row=993_280, matrices=497_500_000)


def test_llama_server_divides_nothing_and_keeps_a_cache_a_slot():
    need = LlamaServer().need(SIZES, asked(Path("m"), slots=4, context=1_000, engine="llama_server"))
    assert (need.weights, need.kv, need.state) == (700 * MIB, 4 * 1_000 * 12_288, 80 * MIB)
    small = LlamaServer().need(SIZES, asked(Path("m"), engine="llama_server", cache_type_k="q8_0"))
    assert small.kv == 0, "of a smaller cache nothing is certain"
    assert LlamaServer().need(replace(SIZES, window=512), asked(Path("m"), context=9_000)).kv == 512 * 12_288


@pytest.mark.parametrize(("context", "tokens"), [(100, 4_096), (4_096, 4_096), (4_097, 8_192), (32_900, 65_536)])
def test_apr_doubles_its_state_and_keeps_its_layers_in_f16_too(context, tokens):
    need = Apr().need(SIZES, asked(Path("m"), context=context, slots=16))
    assert need.kv == tokens * 12_288
    assert need.weights - SIZES.file == pytest.approx(949 * MIB, rel=0.001)  # what its log said of 0.8B
    assert Apr().need(SIZES, asked(Path("m"), "cpu")).weights == SIZES.file
    slow = Apr().need(SIZES, asked(Path("m"), env={"APR_QWEN35_SESSION_PREFILL": "per-token"}))
    assert slow.weights == SIZES.file


def test_what_does_not_fit_is_named_with_its_arithmetic_and_never_started(gguf, monkeypatch):
    path = gguf(HYBRID)
    start = asked(path, "cpu", slots=16, context=32_900, engine="llama_server")
    need = need_of(LlamaServer(), start)
    monkeypatch.setattr(fit, "available_bytes", lambda: need.total)
    assert does_not_fit(LlamaServer(), start) is None
    monkeypatch.setattr(fit, "available_bytes", lambda: need.total - 1)
    failure = does_not_fit(LlamaServer(), start)
    assert failure.reason is Reason.DOES_NOT_FIT
    assert "llama_server at 16 x 32900 tokens: weights 0.00 + KV 6.02 + state 0.3" in failure.detail
    assert "GiB of memory available" in failure.detail


def test_such_a_start_starts_nothing_and_its_failure_is_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "need_of", lambda engine, request: fit.Need(10**15, 0, 0, 0))
    monkeypatch.setattr(starting, "start", None)  # nothing may be started
    failure = starting.start_engine(Fake(), request(tmp_path))
    assert failure.reason is Reason.DOES_NOT_FIT
    assert failure.detail.startswith("fake at 2 x 300 tokens: weights 931322.57")


def test_the_fake_engine_of_the_tests_is_never_in_the_way(tmp_path):
    assert does_not_fit(Fake(), request(tmp_path)) is None
