"""The command `streamer FILE…`: which recordings there are, and which service transcribes them.

Only light modules are imported at the top. The files are looked at first, then a server is spawned if one is
needed, and the rest is imported while that one starts.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

from streamer.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.audio.recording import AudioError, check_readable
from streamer.output import Output, OutputError
from streamer.timing import Timing
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.embedded import Embedded

EMBEDDED: Final = "embedded"
STDIN: Final = "-"


def transcribe_files(options: argparse.Namespace) -> int:
    """Transcribes all files that were named; the exit status."""
    timing = Timing()
    timing.mark("command line read")
    try:
        output = Output(options.format, options.output, options.files)
    except OutputError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return 2
    with closing(output):
        names = [name for name in options.files if _is_there(name, output)]
        if not names:
            return 1
        try:
            status = _with_service(names, options, output, timing)
        except TritonError as error:
            output.say(f"streamer: {error}")
            status = 1
        if options.timing:
            timing.mark("everything stopped")
            output.say(timing.report())
    return status or int(len(names) < len(options.files))


def _is_there(name: str, output: Output) -> bool:
    try:
        if name != STDIN:
            check_readable(name)
        elif sys.stdin is None or sys.stdin.isatty():
            raise AudioError("standard input is a terminal: pipe raw PCM into it, or name a file.")
    except AudioError as error:
        output.say(f"streamer: {error}")
        return False
    return True


def _with_service(names: list[str], options: argparse.Namespace, output: Output, timing: Timing) -> int:
    server = options.server
    if server is None and is_ready(DEFAULT_HOST, DEFAULT_PORT):
        server = websocket_url(f"{DEFAULT_HOST}:{DEFAULT_PORT}")
    with ExitStack() as stack:
        embedded: Embedded | None = None
        if server in (None, EMBEDDED):
            from streamer.embedded import Embedded

            embedded = stack.enter_context(Embedded(timing))
        from streamer.batch import Batch
        from streamer.interrupt import run_until_signal

        timing.mark("client imported")
        batch = Batch(options, output, timing, embedded or server)
        return run_until_signal(batch.run(names))
