"""Opens 20 000 short sessions, and prints what each leaves behind: memory, descriptors, threads, files, slowness.

    python scripts/measure/growth.py [--sessions 20000] [--together 16] [--every 200]

The slopes have 95 % intervals. The exit status is 1 if a session failed, or if something certainly stays behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from workshop.load.growth import Sessions, Show, Watch, left_behind, run, table
from workshop.watched_process import service

AUDIO = shipped("audio_samples/talk.flac")
RATE = 16_000


def main() -> int:
    """Measure, and print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--together", type=int, default=16, help="sessions at a time (16)")
    parser.add_argument("--every", type=int, default=200, help="look after so many sessions (200)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how much speech each sends (1)")
    parser.add_argument("--json", type=Path, help="a file for the series")
    options = parser.parse_args()
    audio = read_audio(AUDIO)[: int(options.seconds * RATE)].tobytes()

    def show(sessions: Sessions, seconds: float) -> None:
        if sessions.done % (10 * options.every) == 0:
            print(f"{sessions.done} sessions, {sessions.done / seconds:.0f} a second", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # so that all that lies there is of this service
        sessions, watch = measure(audio, options, show, Path(folder))
    if options.json:
        series = {f"{name}: {what}": vars(each) for (name, what), each in watch.growth.items()}
        options.json.write_text(json.dumps(series, indent=1) + "\n")
    print(f"{sessions.done} sessions of {options.seconds} s, {options.together} at a time, {sessions.finals} finals\n")
    print(table(watch.growth))
    for reason, count in sessions.failed.items():
        print(f"growth: {count} sessions failed: {reason}", file=sys.stderr)
    faults = left_behind(watch.growth)
    for fault in faults:
        print(f"growth: {fault}", file=sys.stderr)
    return 1 if faults or sessions.failed else 0


def measure(audio: bytes, options: argparse.Namespace, show: Show, folder: Path) -> tuple[Sessions, Watch]:
    """Start a service, and open the sessions."""
    with service(None) as (url, watched):
        watch = Watch({name: watched.pid(name) for name in watched.names}, folder)
        return asyncio.run(run(url, audio, options.sessions, options.together, options.every, watch, show)), watch


if __name__ == "__main__":
    sys.exit(main())
