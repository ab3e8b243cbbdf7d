"""Measures whether clients that are refused delay the sessions that were admitted.

    python scripts/service/overload.py [--sessions N|auto] [--times 3] [--seconds 10] [--rounds 6] [--server URL]

The script starts a service that accepts N sessions at a time; by default N is measured. N live sessions send audio at
the pace of speech, by turns alone and beside further clients, so that there are three times as many clients in all. The
further clients are refused, and try again at the time that the service says. The script prints how late partials came
in both turns, and the ratio of the two, because the clients share the machine. The exit status is 0 only if every bound
holds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from workshop.load.live_sessions import session_limit
from workshop.load.overload import failures, report, run
from workshop.watched_process import service

AUDIO = shipped("audio_samples/talk.flac")


def main() -> int:
    """Run the sessions and the further clients, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", default="auto", metavar="N|auto", help="the most sessions of the service (auto)")
    parser.add_argument("--times", type=float, default=3.0, help="all clients, as a multiple of the sessions (3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="the length of each turn (10)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each kind (6)")
    parser.add_argument("--server", metavar="URL", help="a service that already runs, without other users")
    options = parser.parse_args()
    audio = read_audio(AUDIO).tobytes()
    try:
        with service(options.server, "--sessions", options.sessions) as (url, _):
            number = session_limit(url)
            print(f"{number} sessions, {round(number * options.times)} clients", file=sys.stderr)
            result = asyncio.run(run(url, audio, number, options.times, options.seconds, options.rounds))
    except OSError as error:
        print(f"overload: {error}", file=sys.stderr)
        return 1
    print(report(result))
    broken = list(failures(result))
    for complaint in broken:
        print(f"overload: {complaint}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
