"""Measures how many live sessions this machine can serve, and compares that with `serve --sessions auto`.

    python scripts/service/capacity.py [--seconds 10] [--levels 0.25,0.5,1,1.5,2,3] [--slots 256] [--instances 1]

The first table is measured as with `--sessions auto`: more and more sequences send a step as soon as the last one was
answered. For the other tables, live sessions send audio to a service at the pace of speech. Their numbers are the first
result times each level. The tables show how late partials come and how far the service is behind, for sessions without
and with a second pass. The clients run on the same machine, and use a part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import LinkError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonError, TritonServer
from workshop.load.live_sessions import HEADS, live, step_table, steps
from workshop.watched_process import service

AUDIO = shipped("audio_samples/talk.flac")


def main() -> int:
    """Measure in both ways, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to run each number of live sessions (10)")
    parser.add_argument("--levels", type=_levels, default="0.25,0.5,1,1.5,2,3", help="multiples of the first result")
    parser.add_argument("--slots", type=int, default=256, help="slots of each instance (256)")
    parser.add_argument("--instances", type=int, help="instances of the model (default: as in its config.pbtxt)")
    options = parser.parse_args()
    audio = read_audio(AUDIO).tobytes()
    try:
        with TritonServer(asr_repository(), models=[MODEL], slots=options.slots, instances=options.instances) as triton:
            most, capacity = asyncio.run(steps(triton.grpc_address, audio))
            print(step_table(capacity), flush=True)
            print(f"\nThis machine can serve {capacity.sessions} sessions.", flush=True)
            with service(None, "--triton", triton.grpc_address) as (url, _):
                for second_pass in (False, True):
                    print(f"\n{'With' if second_pass else 'Without'} a second pass:\n\n{HEADS}", flush=True)
                    for level in options.levels:
                        number = max(1, min(most, round(level * capacity.sessions)))
                        line, ended = asyncio.run(live(url, audio, number, options.seconds, second_pass=second_pass))
                        others = ", ".join(f"{count} {code}" for code, count in ended.items() if code != "done")
                        print(line.line(f"{level:g} times{f' ({others})' if others else ''}"), flush=True)
    except (OSError, TritonError, LinkError) as error:
        print(f"capacity: {error}", file=sys.stderr)
        return 1
    return 0


def _levels(text: str) -> list[float]:
    return [float(level) for level in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
