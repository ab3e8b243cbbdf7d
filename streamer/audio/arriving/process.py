"""The decoder process: reads a recording from standard input, and writes frames to standard output.

The service starts one for each recording. The process ends when its input ends, when the recording cannot be decoded,
or when the service kills it.
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
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends this process
    # Before the imports of the libraries that parse the data of strangers.
    confine(cpu_s=options.cpu_s, file_bytes=options.file_bytes)
    try:
        _decode(options)
    except BrokenPipeError:
        return 1
    except MemoryError:
        _send(Problem(ProblemCode.TOO_COSTLY, "The recording needs more memory to be decoded than it may have."))
    return 0


def _decode(options: argparse.Namespace) -> None:
    from streamer.audio.arriving.arriving_recording import RecordingProblem, open_recording, open_samples
    from streamer.audio.arriving.byte_stream import ByteStream

    stream = ByteStream(sys.stdin.fileno())
    try:
        if options.encoding:
            shape = options.encoding, options.sample_rate, options.channels
            recording = open_samples(stream, *shape, separate=options.separate)
        else:
            recording = open_recording(stream, separate=options.separate)
        _send(Opened(recording.channels, recording.seconds))
        rows = LONGEST_FRAME // (2 * recording.channels)
        for chunk in recording.chunks():
            for start in range(0, len(chunk), rows):
                _send(Samples(chunk[start : start + rows].tobytes()))
        _send(End())
    except RecordingProblem as problem:
        _send(Problem(problem.code, str(problem)))


def _send(frame: Frame) -> None:
    data = memoryview(encode(frame))
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    status = main()
    os._exit(status)  # without waiting for threads that may be stuck in a pipe
