"""The metrics of a service as numbers."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from streamer.bridge.telemetry.metrics import Metrics


def figures(metrics: Metrics) -> dict[str, float]:
    """Return every sample by its name and labels, such as `streamer_refusals_total{reason="full"}`."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def until_over(metrics: Metrics) -> dict[str, float]:
    """Return the metrics once no session is left, which is just after a client sees its close."""
    for _ in range(3000):
        if not metrics.live:
            return figures(metrics)
        await asyncio.sleep(0.02)
    raise AssertionError(f"{len(metrics.live)} sessions are still watched")
