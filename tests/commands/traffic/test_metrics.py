"""The sizes of batches, from the metrics of a real Triton."""

from __future__ import annotations

from streamer.bridge.triton.server import TritonServer
from streamer.commands.traffic.metrics import BatchCounts, batch_counts, batches_between, read_batch_counts
from tests.command_run import AWAY

EXPOSITION = """\
# TYPE streamer_batches_total counter
streamer_batches_total{instance="a_0",model="a",version="1"} 10.000000
streamer_batches_total{instance="a_1",model="a",version="1"} 5.000000
streamer_batched_requests_total{instance="a_0",model="a",version="1"} 30.000000
streamer_batch_size_bucket{instance="a_0",model="a",version="1",le="1.000000"} 4.000000
streamer_batch_size_bucket{instance="a_1",model="a",version="1",le="1"} 1
streamer_batch_size_bucket{instance="a_0",model="a",version="1",le="+Inf"} 15.000000
nv_inference_count{model="a"} 3
"""


def test_an_exposition() -> None:
    """The counts of all instances are added, and other metrics are ignored."""
    assert read_batch_counts(EXPOSITION) == BatchCounts(15.0, 30.0, {1.0: 5.0, float("inf"): 15.0})


def test_between_two_moments() -> None:
    """Only the batches in between count."""
    before = BatchCounts(10.0, 20.0, {1.0: 5.0, 2.0: 10.0})
    after = BatchCounts(30.0, 70.0, {1.0: 10.0, 2.0: 30.0})
    found = batches_between(before, after)
    assert found is not None
    assert (found.number, found.mean, found.p95) == (20.0, 2.5, 2.0)
    assert batches_between(before, before) is None
    assert batches_between(None, after) is None
    large = batches_between(BatchCounts(), read_batch_counts(EXPOSITION))
    assert large is not None
    assert large.p95 is None


def test_a_real_triton(exact_triton: TritonServer) -> None:
    """A Triton tells at its port, and nobody tells at an address where nobody listens."""
    assert batch_counts(exact_triton.metrics_address) is not None
    assert batch_counts(f"http://{exact_triton.metrics_address}/metrics") is not None
    assert batch_counts(AWAY) is None
    assert batch_counts("/nonexistent/socket") is None
