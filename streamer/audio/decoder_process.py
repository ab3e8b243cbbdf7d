"""The decoder process: reads a recording from standard input, and writes frames to standard output.

The service starts one for each recording. The process ends when its input ends, when the recording cannot be decoded,
or when the service kills it. Its data comes from strangers, so it first gives up the network, and all but some memory,
processor time and files. Its children, such as ffmpeg, cannot get these back.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Final

from streamer.audio.frames import LONGEST_FRAME, End, Frame, Opened, Problem, ProblemCode, Samples, encode

MODULE: Final = "streamer.audio.decoder_process"

MEMORY_BYTES: Final = 1 << 30  # of address space; a decoder with ffmpeg needs about 300 MB
MOST_DESCRIPTORS: Final = 64
# Live sessions have priority.
NICENESS: Final = 5

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
# Operations of the kernel's filter: load a word, jump if equal, return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_FORBID: Final = 0x00050000 | 1  # the call fails with EPERM
_NUMBER_AT, _MACHINE_AT = 0, 4  # offsets of the call's number and the machine in the filter's input
# By machine: its number in the filter, then the numbers of socket, connect, io_uring_setup, ptrace, process_vm_readv,
# process_vm_writev, bpf, unshare, setns. Without sockets there is no network; the others would be ways around that.
_CALLS: Final = {
    "x86_64": (0xC000003E, (41, 42, 425, 101, 310, 311, 321, 272, 308)),
    "aarch64": (0xC00000B7, (198, 203, 425, 117, 270, 271, 280, 97, 268)),
}


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
    from streamer.audio.arriving import ByteStream, RecordingProblem, open_recording, open_samples

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


def confine(*, cpu_s: int, file_bytes: int) -> bool:
    """Limit this process. Return whether the network is barred too, which needs Linux on a known machine."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, MOST_DESCRIPTORS),
    ):
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails instead
    os.nice(NICENESS)
    return sys.platform == "linux" and _bar_network()


def _bar_network() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the kernel kills this process when the service dies
    machine, forbidden = _CALLS.get(platform.machine(), (0, ()))
    if not forbidden:
        return False
    program = [
        _instruction(_LOAD, _MACHINE_AT),
        _instruction(_JUMP_IF_EQUAL, machine, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    for place, call in enumerate(forbidden):
        program.append(_instruction(_JUMP_IF_EQUAL, call, len(forbidden) - place, 0))
    program += [_instruction(_RETURN, _ALLOW), _instruction(_RETURN, _FORBID)]
    code = ctypes.create_string_buffer(b"".join(program))
    filter_program = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(filter_program), 0, 0) == 0)


def _instruction(operation: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", operation, if_so, if_not, value)


if __name__ == "__main__":
    status = main()
    os._exit(status)  # without waiting for threads that may be stuck in a pipe
