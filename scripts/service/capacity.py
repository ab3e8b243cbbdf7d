"""How many live sessions this machine carries: where the knee is, and what `serve --sessions auto` makes of it.

    python scripts/service/capacity.py [--seconds 10] [--levels 0.25,0.5,1,1.5,2,3] [--slots 256] [--instances 1]

First as `--sessions auto` measures it: more and more sequences, each of which sends a step as soon as its last one is
answered. Then so many times what that found (levels) live sessions through a service, each at the pace of speech: how
late their partials come, and how far the service is behind. The clients run on the same machine and take their part of
it. Prints two tables.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

from streamer.audio.audio_file import read_audio
from streamer.bridge.upstreams.capacity import SHARE, STEP_S, Capacity, measure
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.tritons import Tritons
from streamer.shipped import shipped
from streamer.testing.crowd import HEADS, Lag, Period, gathered, period
from streamer.testing.watched_process import service
from streamer.triton import MODEL
from streamer.triton.link import LinkError
from streamer.triton.repository import asr_repository
from streamer.triton.server import TritonError, TritonServer
from streamer.wire.options import DEFAULT_MODEL

SOUND = shipped("audio_samples/talk.flac")
WARM_UP_S = 3.0
GATHER_S = 3.2


def main() -> int:
    """Measure both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of live sessions (10)")
    parser.add_argument("--levels", type=_levels, default="0.25,0.5,1,1.5,2,3", help="times what was found")
    parser.add_argument("--slots", type=int, default=256, help="places of each instance (256)")
    parser.add_argument("--instances", type=int, help="processes that recognise (as in the model's config.pbtxt)")
    options = parser.parse_args()
    sound = read_audio(SOUND).tobytes()
    try:
        with TritonServer(asr_repository(), slots=options.slots, instances=options.instances) as triton:
            most, found = asyncio.run(_found(triton.grpc_address, sound))
            print(closed(found), flush=True)
            print(f"\n{found.sessions} sessions are carried.\n\n{HEADS}", flush=True)
            with service(None, "--triton", triton.grpc_address) as (url, _):
                for level in options.levels:
                    number = max(1, min(most, round(level * found.sessions)))
                    line, ended = asyncio.run(live(url, sound, number, options.seconds))
                    others = ", ".join(f"{count} {code}" for code, count in ended.items() if code != "done")
                    print(line.line(f"{level:g} times{f' ({others})' if others else ''}"), flush=True)
    except (OSError, TritonError, LinkError) as error:
        print(f"capacity: {error}", file=sys.stderr)
        return 1
    return 0


def closed(found: Capacity) -> str:
    """The table of what was tried without a pace."""
    lines = ["| sessions | a step of each s | of the time | answer p50 s | p99 s |", "| ---: " * 5 + "|"]
    for level in found.levels:
        part = level.step_s / STEP_S
        answers = f"{level.quantile(0.5):.3f} | {level.quantile(0.99):.3f}"
        lines.append(f"| {level.sessions} | {level.step_s:.3f} | {part:.0%} | {answers} |")
    return "\n".join(lines) + f"\n\nA step of {STEP_S:g} s may take {SHARE:.0%} of its time."


async def live(url: str, sound: bytes, number: int, seconds: float) -> tuple[Period, Counter[str]]:
    """So many live sessions for a while, and how they ended."""
    lag = Lag(url)
    talkers = await gathered(url, sound, number, GATHER_S)
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(WARM_UP_S)
        since = time.monotonic()
        await asyncio.sleep(seconds)
        seen = period(talkers, lag, since, time.monotonic())
    finally:
        watching.cancel()
        await asyncio.gather(*(talker.end() for talker in talkers))
    return seen, Counter(talker.ended for talker in talkers)


async def _found(address: str, sound: bytes) -> tuple[int, Capacity]:
    models = Models(Tritons([address]), {DEFAULT_MODEL: MODEL})
    await models.open()
    try:
        return models.default.most, await measure(models.default, sound)
    finally:
        await models.close()


def _levels(text: str) -> list[float]:
    return [float(level) for level in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
