"""The metrics that a service and its model give, and what a query asks for."""

from __future__ import annotations

import re
from collections import defaultdict

import promql_parser
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from streamer.bridge.http.channel import ConnectionCounts
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.pool import LoadState
from streamer.bridge.workers.joined_metrics import joined
from tests.project import ROOT

MODEL = (ROOT / "streamer/engine/adapters/requests.py").read_text(encoding="utf-8")

# Triton's own figures for each model, which the dashboard shows. tests/asr_repo/test_asr_heads.py looks for them.
OF_TRITON = {"nv_inference_queue_duration_us", "nv_inference_request_success"}


def families() -> list[Metric]:
    """The metrics of a service with workers and a store that has just started, without the times of first values."""
    metrics = Metrics()
    metrics.held = lambda: {"default": {"streaming_asr": 0}}
    metrics.instances = lambda: {"default": (1, 1)}
    metrics.model_states = lambda: {state.value: 0 for state in LoadState}
    metrics.usage_of("alice")
    metrics.connections = lambda: ConnectionCounts().numbers
    metrics.worker_starts = 1
    metrics.bridges = lambda: (True, 1, 0)
    told = text_string_to_metric_families(joined({1: metrics.exposition()}, 1, None, by_worker=False).decode())
    return [family for family in told if not family.name.endswith("_created")]


def samples() -> dict[str, dict[str, set[str]]]:
    """Every sample that can be scraped, and the values of its labels; those of the model have no known values."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in families():
        for sample in family.samples:
            labels = found.setdefault(sample.name, defaultdict(set))
            for name, value in sample.labels.items():
                labels[name].add(value)
    for kind, name in re.findall(r'self\._(metric|histogram)\(\s*"(\w+)"', MODEL):
        for ending in ("_bucket", "_count", "_sum") if kind == "histogram" else ("",):
            found[name + ending] = {label: set() for label in ("model", "version", "instance")}
    return found


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """The samples that a query asks for."""
    found = []

    def visit(node: object) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            node = node.vector_selector
        if isinstance(node, promql_parser.VectorSelector) and node not in found:
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    assert found
    return found
