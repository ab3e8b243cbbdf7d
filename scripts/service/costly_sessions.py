"""Measures how much clients with costly requests delay other sessions.

    python scripts/service/costly_sessions.py [--sessions 4] [--attackers 20] [--seconds 10] [--rounds 3]
                                              [--attack hotwords]… [--second-pass]
                                              [--hotwords-per-address N] [--server URL]

The script starts a service. Some live sessions send audio at the pace of speech, by turns alone and beside attackers.
Each attacker has its own address, and opens costly sessions in a loop: new hotwords every time, frames of two minutes
of audio, a flush after every sample, takeovers of a session. It prints how late partials came, and how much later
beside the attackers. Both are measured in the same run, because everything shares the machine. A large
`--hotwords-per-address` disables the budget, and shows what the recogniser does without it. The exit status is 0 only
if partials came at most a step later. A service that already runs must use `serve --behind-proxy`.

Second passes of segments of a minute run only if they are named: "live second passes", or "second passes ahead", which
send as fast as the service takes it. All their attackers have one address. They need `--seconds 90`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from streamer.audio.audio_file import read_audio
from streamer.base.limits import HOTWORDS_PER_ADDRESS
from streamer.base.package import shipped
from workshop.load.costly_sessions import ATTACKS, OF_ONE_CALLER, failures, report, run
from workshop.watched_process import service

AUDIO = shipped("audio_samples/talk.flac")


def main() -> int:
    """Run the sessions and the attackers, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4, help="live sessions (4)")
    parser.add_argument("--attackers", type=int, default=20, help="attackers (20)")
    parser.add_argument("--seconds", type=float, default=10.0, help="the length of each turn (10)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (3)")
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="an attack to run (default: the short ones)")
    parser.add_argument("--second-pass", action="store_true", help="give the live sessions a second pass")
    parser.add_argument(
        "--hotwords-per-address",
        default=str(HOTWORDS_PER_ADDRESS),
        metavar="N",
        help="this setting of the service that is started",
    )
    parser.add_argument("--server", metavar="URL", help="a service that already runs, without other users")
    options = parser.parse_args()
    audio, attacks = (
        read_audio(AUDIO).tobytes(),
        options.attack or [each for each in ATTACKS if each not in OF_ONE_CALLER],
    )
    settings = ("--behind-proxy", "--hotwords-per-address", options.hotwords_per_address)
    try:
        with service(options.server, *settings) as (url, _):
            counts = (options.sessions, options.attackers, options.seconds, options.rounds)
            result = asyncio.run(run(url, audio, *counts, attacks, second_pass=options.second_pass))
    except OSError as error:
        print(f"costly_sessions: {error}", file=sys.stderr)
        return 1
    print(report(result))
    broken = list(failures(result))
    for complaint in broken:
        print(f"costly_sessions: {complaint}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
