"""Measures how many live sessions this machine carries, with clients of the kind that `streamer load` has.

The clients speak to a port of their own: a bridge in this process, beside the one that will serve. So what a session
costs the bridge is measured with it, and what clients on the same machine cost.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from streamer.audio.audio_file import Int16Samples
from streamer.base.limits import READER
from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.server import BridgeServer
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.capacity import guess
from streamer.commands.traffic.clients import BYTES_PER_S, Plan, Recording, pauses
from streamer.commands.traffic.ramp import Measurement, Setup, Source, measure, usual_clients
from streamer.commands.traffic.results import BOUNDS, Delay, End, Level, Limit, limit_of

# Each number of sessions is so many times the one before it.
RATIO: Final = 1.15
MOST_LEVELS: Final = 5  # so many numbers are tried at most
LEVEL_S: Final = 12.0  # how long each number is measured
# A session lasts at least so long. The last words of sessions are what is measured, so there must be many of them.
SESSION_S: Final = 6.0
HOST: Final = "127.0.0.1"


class NotMeasured(Exception):
    """The measurement failed. The message says why."""


@dataclass(frozen=True)
class Capacity:
    """The result of the measurement."""

    sessions: int
    levels: Sequence[Level]  # in the order in which they were tried
    limited: bool = False  # whether the number of slots was the limit, not the machine

    @property
    def reason(self) -> str:
        """The sentence that says why there are so many."""
        best = max(self.levels, key=lambda each: (_holds(each), each.sessions if _holds(each) else -each.sessions))
        found = {kind: best.quantiles(kind) for kind in BOUNDS}
        times = " and ".join(
            f"95 % of {words} within {quantiles.p95:.2f} s ({BOUNDS[kind]:.2f} s would be in time)"
            for kind, words in ((Delay.PARTIAL, "partials"), (Delay.LAST, "last words"))
            if (quantiles := found[kind]) is not None
        )
        return f"{best.sessions} that spoke, all with second passes, had {times or 'no words'}"


async def measure_live(models: Models, audio: Int16Samples, workers: int = 1) -> Capacity:
    """Measure in a minute or two how many sessions are possible. Raise LinkError or NotMeasured if that fails.

    There must be no other sessions. `workers`: how many processes of the bridge there will be.
    """
    most = models.default.free
    first = min(await guess(models.default, audio.tobytes()), most)
    result = Measurement()
    with TemporaryDirectory(prefix="streamer-capacity-") as folder:
        async with _port(models, Path(folder)) as (url, key):
            plan = Plan(url, "native", {"second_pass": READER}, _recordings(audio.tobytes(), Path(folder)))
            numbers = tried(first, most, result.levels)
            setup = Setup(plan, [None] * len(plan.recordings), numbers, LEVEL_S, usual_clients(), key=key)
            await measure(setup, Source(), result, _NoDisplay())
    if result.end is not End.WHOLE:
        raise NotMeasured(result.why or result.end.value)
    best = max((level.sessions for level in result.levels if _holds(level)), default=None)
    if best is None:  # not even the fewest that were tried
        best = round(min(level.sessions for level in result.levels) / RATIO)
    if not any(level.delays[kind] for level in result.levels for kind in BOUNDS):
        best = first  # a model that understands nothing of this audio proves nothing
    elif workers > 1:  # they carry more than the one bridge here
        best = max(best, first)
    # Even a machine that is too slow for one live session gets one.
    return Capacity(max(1, best), result.levels, limited=best == most)


def tried(first: int, most: int, levels: Sequence[Level]) -> Iterator[int]:
    """Yield numbers of sessions around the first one, until one holds and the next does not.

    `levels` must have what was found with a number before the next one is asked for.
    """
    sessions = first
    while True:
        yield sessions
        holds = _holds(levels[-1])
        if holds is not _holds(levels[0]) or len(levels) == MOST_LEVELS:
            return
        following = max(sessions + 1, round(sessions * RATIO)) if holds else min(sessions - 1, round(sessions / RATIO))
        following = max(1, min(most, following))
        if following == sessions:
            return
        sessions = following


def _holds(level: Level) -> bool:
    return limit_of(level) is Limit.NOTHING


@asynccontextmanager
async def _port(models: Models, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Open a port for the measurement alone. Provides its address, and the only key for it."""
    key = make_key("capacity")
    keys = folder / "keys"
    keys.write_text(f"{key.line}\n")
    server = BridgeServer(HOST, 0, models, Metrics(), policy=PortPolicy(AccessRules(KeyFile(keys))))
    log = logging.getLogger("streamer.bridge")
    level = log.level
    log.setLevel(logging.WARNING)  # nobody wants to read of hundreds of sessions that nobody began
    try:
        await server.start()
        server.admission.open(models)
        yield server.url, key.secret
    finally:
        await server.stop()
        log.setLevel(level)


def _recordings(samples: bytes, folder: Path) -> list[Recording]:
    """Write parts of the audio into this folder, which are cut at pauses."""
    cuts = [0]
    for pause in pauses(samples):
        if min(pause - cuts[-1], len(samples) - pause) >= SESSION_S * BYTES_PER_S:
            cuts.append(pause)
    recordings = list[Recording]()
    for begin, end in zip(cuts, [*cuts[1:], len(samples)], strict=True):
        path = folder / f"{len(recordings)}.pcm"
        path.write_bytes(samples[begin:end])
        recordings.append(Recording(path.name, str(path)))
    return recordings


class _NoDisplay:
    def show(self, level: Level, measured_s: float) -> None:
        """Show nothing."""

    def finish(self, level: Level) -> None:
        """Show nothing."""
