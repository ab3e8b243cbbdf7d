"""The decoder process: a recording on standard input, frames on standard output. The service starts one for each.

It ends when its input ends, when the recording cannot be decoded, or when the service kills it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from streamer.audio.arriving.confinement import confine
from streamer.audio.arriving.frames import LONGEST_FRAME, End, Frame, Opened, Problem, ProblemCode, Samples, encode

MODULE = "streamer.audio.arriving.process"


def main(arguments: Sequence[str] | None = None) -> int:
    """Decode one recording."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu-s", type=int, required=True)
    parser.add_argument("--file-bytes", type=int, required=True)
    parser.add_argument("--separate", action="store_true")
    parser.add_argument("--encoding")
    parser.add_argument("--sample-rate", type=int, default=16_000)
    parser.add_argument("--channels", type=int, default=1)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends this process
    # First of all: the libraries below parse what strangers sent.
    confine(cpu_s=given.cpu_s, file_bytes=given.file_bytes)
    try:
        _decode(given)
    except BrokenPipeError:
        return 1
    except MemoryError:
        _say(Problem(ProblemCode.TOO_COSTLY, "The recording needs more memory to be decoded than it may have."))
    return 0


def _decode(given: argparse.Namespace) -> None:
    from streamer.audio.arriving.arriving_recording import RecordingProblem, open_recording, open_samples
    from streamer.audio.arriving.byte_stream import ByteStream

    stream = ByteStream(sys.stdin.fileno())
    try:
        if given.encoding:
            recording = open_samples(stream, given.encoding, given.sample_rate, given.channels, separate=given.separate)
        else:
            recording = open_recording(stream, separate=given.separate)
        _say(Opened(recording.channels, recording.seconds))
        rows = LONGEST_FRAME // (2 * recording.channels)
        for chunk in recording.chunks():
            for start in range(0, len(chunk), rows):
                _say(Samples(chunk[start : start + rows].tobytes()))
        _say(End())
    except RecordingProblem as problem:
        _say(Problem(problem.code, str(problem)))


def _say(frame: Frame) -> None:
    data = memoryview(encode(frame))
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    status = main()
    os._exit(status)  # without waiting for threads that may be stuck in a pipe
