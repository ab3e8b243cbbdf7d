"""Measures how late partials are with many live sessions, and shows what `serve --sessions auto` measures."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from streamer.bridge.upstreams.capacity import SHARE, STEP_S, WHOLE_SHARE, Capacity, measure
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.tritons import Tritons
from streamer.limits import DEFAULT_MODEL
from streamer.testing.load.live_sessions import LagWatch, Period, open_sessions, period
from streamer.triton import MODEL

WARM_UP_S = 3.0
GATHER_S = 3.2


async def steps(address: str, audio: bytes) -> tuple[int, Capacity]:
    """Return how many sequences this Triton accepts, and the capacity that `serve --sessions auto` measures."""
    models = Models(Tritons([address]), {DEFAULT_MODEL: MODEL})
    await models.open()
    try:
        return models.default.most, await measure(models.default, audio)
    finally:
        await models.close()


def step_table(capacity: Capacity) -> str:
    """Return the measurements of `serve --sessions auto` as a table."""
    lines = [
        "| sessions | time of one step of each, s | share of the step length | answer p50 s | p99 s |",
        "| ---: " * 5 + "|",
    ]
    for level in capacity.levels:
        part = level.step_s / STEP_S
        answers = f"{level.quantile(0.5):.3f} | {level.quantile(0.99):.3f}"
        lines.append(f"| {level.sessions} | {level.step_s:.3f} | {part:.0%} | {answers} |")
    again = f"Second passes take {capacity.second_pass_s:.4f} s more for a step of each session."
    shares = f"A step of {STEP_S:g} s may take {SHARE:.0%} of its time, and {WHOLE_SHARE:.0%} with second passes."
    return "\n".join([*lines, "", again, shares])


async def live(
    url: str, audio: bytes, number: int, seconds: float, *, second_pass: bool = False
) -> tuple[Period, Counter[str]]:
    """Run live sessions for this many seconds. Returns their delays, and how they ended."""
    lag = LagWatch(url)
    sessions = await open_sessions(url, audio, number, GATHER_S, second_pass=second_pass)
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(WARM_UP_S)
        since = time.monotonic()
        await asyncio.sleep(seconds)
        result = period(sessions, lag, since, time.monotonic())
    finally:
        watching.cancel()
        await asyncio.gather(*(session.end() for session in sessions))
    return result, Counter(session.ended for session in sessions)
