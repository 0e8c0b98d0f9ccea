"""The formulas of MEASUREMENT on numbers worked out by hand."""

import math

import pytest

from lqw.metrics import RowId
from lqw.metrics.values import common_window, decode_tok_s, start_values
from lqw.outcomes import Arm, Reason
from lqw.samples import Failure, MemoryPeaks, RequestSample, ServerTimings, StartRecord

MS = 1_000_000


def _request(step, *, ttft_ms, gaps_ms=(), tokens=None, sent_ms=0, role="timed", repeat=0, stream=0, n=512, **more):
    gaps = [int(gap * MS) for gap in gaps_ms]
    return RequestSample(
        step=step,
        role=role,
        repeat=repeat,
        stream=stream,
        prompt_tokens=n,
        prompt_sha256="0" * 64,
        want_tokens=len(gaps) + 1,
        due_ns=0,
        sent_ns=int(sent_ms * MS),
        connect_ns=1,
        ttft_ns=int(ttft_ms * MS),
        gaps_ns=gaps,
        chunk_tokens=list(tokens or [1] * (len(gaps) + 1)),
        **more,
    )


def _values(requests, rows, *, min_window_s=0.01, **more):
    record = StartRecord(
        model="m", pair=1, arm=Arm.SUBJECT, launch=0, position=0, started_utc="", origin_ns=0, wall_s=1.0,
        requests=requests, **more,
    )  # fmt: skip
    found = start_values(record, [RowId.parse(f"m/{row}") for row in rows], min_window_s=min_window_s)
    return {row.short: value for row, value in found.items()}


def test_ttft_is_the_median_and_prefill_the_geometric_mean():
    timings = ServerTimings(prompt_ms=190.0)
    requests = [_request("cold@512", ttft_ms=t, repeat=i, timings=timings) for i, t in enumerate((100, 200, 1600))]
    warm = _request("cold@512", ttft_ms=9000, role="warmup")
    got = _values([warm, *requests], ["ttft@512", "prefill@512"])
    assert got["ttft@512"].value == 200
    assert got["prefill@512"].value == pytest.approx(512 / (0.1 * 0.2 * 1.6) ** (1 / 3))
    assert got["ttft@512"].extras["server_prompt_ms"] == 190.0


def test_decode_leaves_out_the_first_chunk_whatever_its_size():
    request = _request("decode", ttft_ms=50, gaps_ms=(10, 10, 20), tokens=(3, 1, 2, 1))
    assert decode_tok_s(request) == pytest.approx(4 / 0.040)
    assert math.isnan(decode_tok_s(_request("decode", ttft_ms=50)))


def test_common_window_interpolates_at_its_edges():
    early = _request("agg@2", ttft_ms=10, gaps_ms=(10, 10, 10))  # tokens at 10 20 30 40 ms
    late = _request("agg@2", ttft_ms=15, gaps_ms=(10, 10, 10), stream=1)  # at 15 25 35 45 ms
    window = common_window([early, late])
    assert window.seconds == pytest.approx(0.025)  # 15 to 40 ms
    assert window.tokens == pytest.approx(2.5 + 2.5)
    got = _values([early, late], ["agg@2"])["agg@2"]
    assert got.value == pytest.approx(200)
    assert got.extras["whole_batch_tok_s"] == pytest.approx(8 / 0.045)


def test_streams_that_never_ran_together_are_not_concurrent():
    first = _request("agg@2", ttft_ms=10, gaps_ms=(10, 10))
    second = _request("agg@2", ttft_ms=50, gaps_ms=(10, 10), stream=1)
    failure = _values([first, second], ["agg@2"])["agg@2"].failure
    assert failure.reason is Reason.NOT_CONCURRENT
    assert failure.detail == "at most 1 of 2 streams ran at once, all for no time; 0.01 s are needed"
    overlapping = _request("agg@2", ttft_ms=10, gaps_ms=(10, 10), stream=1)
    short = _values([first, overlapping], ["agg@2"], min_window_s=0.5)["agg@2"].failure
    assert "at most 2 of 2 streams ran at once, all for 0.020 s; 0.5 s are needed" in short.detail
    alone = _values([first], ["agg@2"])["agg@2"].failure
    assert "at most 1 of 2 streams" in alone.detail


def test_a_server_that_serves_one_stream_first_has_a_rate_over_the_whole_batch():
    first = _request("agg@3", ttft_ms=10, gaps_ms=(10, 10))  # alone until 30 ms
    later = [_request("agg@3", ttft_ms=35, gaps_ms=(10, 10), stream=stream) for stream in (1, 2)]
    got = _values([first, *later], ["agg@3", "agg_whole@3"])
    assert got["agg@3"].failure.reason is Reason.NOT_CONCURRENT
    assert got["agg_whole@3"].value == pytest.approx(9 / 0.055)
    assert got["agg_whole@3"].extras == {"streams_at_once": 2}
    missing = _values([first, later[0]], ["agg_whole@3"])["agg_whole@3"].failure
    assert (missing.reason, missing.detail) == (Reason.NOT_CONCURRENT, "a batch has 2 streams, the row 3")


def test_memory_is_anonymous_memory_and_absent_is_not_zero():
    got = _values([], ["rss_peak", "vram_peak"], memory=MemoryPeaks(rss_anon_bytes=7, rss_file_bytes=100))
    assert got["rss_peak"].value == 7
    assert got["vram_peak"].failure.reason is Reason.NO_MEMORY_READING


def test_one_failed_request_fails_its_row_and_no_other():
    failure = Failure(reason=Reason.TIMEOUT, detail="slow")
    cold, bad = _request("cold@512", ttft_ms=5), _request("decode", ttft_ms=5, failure=failure)
    got = _values([cold, bad], ["ttft@512", "decode", "ttft@128"])
    assert got["ttft@512"].value == 5
    assert got["decode"].failure.reason is Reason.TIMEOUT
    assert "decode timed request 0" in got["decode"].failure.detail
    assert "ttft@128" not in got
    primed = _request("cached@512", ttft_ms=5, role="prime", failure=failure)
    assert _values([primed], ["ttft_cached@512"])["ttft_cached@512"].failure.reason is Reason.TIMEOUT


def test_a_failed_start_fails_every_row_of_its_model():
    got = _values([], ["decode", "rss_peak"], failure=Failure(reason=Reason.FAILED_START, detail="exit 4"))
    assert {value.failure.reason for value in got.values()} == {Reason.FAILED_START}


def test_only_warm_ups_is_missing():
    warm = _request("decode", ttft_ms=5, gaps_ms=(5,), role="warmup")
    assert _values([warm], ["decode"])["decode"].failure.reason is Reason.MISSING_REQUESTS
