"""The timed client's own memory: a long stream waits on disk and comes back whole."""

import json

from lqw.collect import transport
from lqw.collect.calibrate import null_server
from lqw.collect.transport import encode_request, exchange
from lqw.collect.wire import read_response


def test_a_long_stream_comes_back_whole_and_in_order(tmp_path, monkeypatch):
    written = []
    take = transport._Spool.take

    def noted(spool, out):
        written.append(len(out.reads))
        take(spool, out)
        assert (out.stamps, out.reads) == ([], [])

    monkeypatch.setattr(transport._Spool, "take", noted)
    monkeypatch.setattr(transport, "SPOOL_BYTES", 1_000)
    with null_server("spool", tmp_path / "log") as target:
        wish = json.dumps({"ttft_ms": 1.0, "gap_ms": 0.2, "n": 300}).encode()
        raw = exchange(target, encode_request(target, "/completion", wish), timeout_s=20.0)
    assert len(written) > 5
    assert len(raw.stamps) == len(raw.reads) >= sum(written)
    assert raw.stamps == sorted(raw.stamps)
    events = read_response(raw.stamps, raw.reads).events
    assert [json.loads(one.data)["tokens_predicted"] for one in events] == [*range(1, 301), 300]
