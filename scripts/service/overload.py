"""Do the sessions that were let in feel those that are refused?

    python scripts/service/overload.py [--sessions N|auto] [--times 3] [--seconds 10] [--rounds 6] [--server URL]

A service is started that takes so many sessions at a time; N is found by measuring if it is not given. As many live
sessions talk at the pace of speech. In turns they are alone, and there are so many more clients that all together are
three times as many: those try to open a session, are refused, and try again when they were told to. Prints how late
partials came in both, as ratios of one run, because the clients share the machine. The exit status is 0 only if every
bound holds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from streamer.audio.audio_file import read_audio
from streamer.shipped import shipped
from streamer.testing.load.live_sessions import session_limit
from streamer.testing.load.overload import failures, report, run
from streamer.testing.watched_process import service

AUDIO = shipped("audio_samples/talk.flac")


def main() -> int:
    """Hold, offer and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", default="auto", metavar="N|auto", help="that the service takes (auto)")
    parser.add_argument("--times", type=float, default=3.0, help="as many clients as sessions, those included (3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn (10)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of both kinds (6)")
    parser.add_argument("--server", metavar="URL", help="a service that runs already and that nobody else uses")
    options = parser.parse_args()
    audio = read_audio(AUDIO).tobytes()
    try:
        with service(options.server, "--sessions", options.sessions) as (url, _):
            number = session_limit(url)
            print(f"{number} sessions, {round(number * options.times)} clients", file=sys.stderr)
            seen = asyncio.run(run(url, audio, number, options.times, options.seconds, options.rounds))
    except OSError as error:
        print(f"overload: {error}", file=sys.stderr)
        return 1
    print(report(seen))
    broken = list(failures(seen))
    for complaint in broken:
        print(f"overload: {complaint}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
