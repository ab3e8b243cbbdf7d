"""The decoder process: reads a recording from standard input, and writes frames to standard output.

The service starts one for each recording. The process ends when its input ends, when the recording cannot be decoded,
or when the service kills it. Its data comes from strangers, so it first gives up the network, signals to any process,
and all but some memory, processor time and files. Its children, such as ffmpeg, cannot get these back.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.audio.frames import LONGEST_FRAME, End, Frame, Opened, Problem, ProblemCode, Samples, encode

MODULE: Final = "streamer.audio.decoder_process"

MEMORY_BYTES: Final = 1 << 30  # of address space; a decoder with ffmpeg needs about 300 MB
MOST_DESCRIPTORS: Final = 64
# Live sessions have priority: a decoder gets a third of the time of a process beside it that wants as much.
NICENESS: Final = 5
# Linux may give processor time to whole sessions of processes (autogroup), and then this counts instead.
_AUTOGROUP: Final = Path("/proc/self/autogroup")

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
# Operations of the kernel's filter: load a word, jump if equal or if not less, return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_FROM: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_FORBID: Final = 0x00050000 | 1  # the call fails with EPERM
_NUMBER_AT, _MACHINE_AT = 0, 4  # offsets of the call's number and the machine in the filter's input
_FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 16, 24  # the lower half, which is all that the kernel reads of these
# From here on, x86-64 has all calls once more, for programs with short pointers (x32).
_FIRST_X32_CALL: Final = 0x40000000
# Commands of fcntl: with these, a file that becomes readable sends a signal to any process of the same user.
_SIGNAL_COMMANDS: Final = (8, 10, 15)


@dataclass(frozen=True)
class _Calls:
    """The system calls of a machine that a decoder may not use, or only for itself."""

    machine: int  # its number in the filter
    # Without sockets there is no network: socket, connect; io_uring_setup, ptrace, process_vm_readv, process_vm_writev,
    # bpf, unshare, setns, pidfd_getfd would be ways around that.
    network: tuple[int, ...]
    # Signals: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
    signals: tuple[int, ...]
    # The turns of others: setpriority, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr and
    # ioprio_set.
    turns: tuple[int, ...]
    prlimit: int
    fcntl: int


_CALLS: Final = {
    "x86_64": _Calls(
        machine=0xC000003E,
        network=(41, 42, 425, 101, 310, 311, 321, 272, 308, 438),
        signals=(62, 200, 234, 129, 297, 424),
        turns=(141, 142, 144, 203, 314, 251),
        prlimit=302,
        fcntl=72,
    ),
    "aarch64": _Calls(
        machine=0xC00000B7,
        network=(198, 203, 425, 117, 270, 271, 280, 97, 268, 438),
        signals=(129, 130, 131, 138, 240, 424),
        turns=(140, 118, 119, 122, 274, 30),
        prlimit=261,
        fcntl=25,
    ),
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
    turns = Turns()
    # Before the imports of the libraries that parse the data of strangers.
    confine(cpu_s=options.cpu_s, file_bytes=options.file_bytes)
    try:
        _decode(options, turns)
    except BrokenPipeError:
        return 1
    except MemoryError:
        _send(Problem(ProblemCode.TOO_COSTLY, "The recording needs more memory to be decoded than it may have."))
    return 0


def _decode(options: argparse.Namespace, turns: Turns) -> None:
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
            turns.lower()
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
    """Limit this process. Return whether network and signals are barred too, which needs Linux on a known machine."""
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
    return sys.platform == "linux" and _bar_calls()


class Turns:
    """How this process yields to live sessions: whoever gives out processor time asks for it in another way."""

    def __init__(self) -> None:
        """Yield to other processes and control groups. To other sessions, once the kernel allows it: see `lower`."""
        os.nice(NICENESS)
        linux = sys.platform == "linux"
        if linux:
            # With something to do, it does not interrupt a process that runs.
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        # If this process leads no session, the session belongs to others, too.
        self._waits = linux and os.getsid(0) == os.getpid()
        self.lower()

    def lower(self) -> None:
        """Yield to other sessions, unless that has been done. Call this again: the kernel allows ten times a second."""
        if self._waits:
            try:
                _AUTOGROUP.write_text(str(NICENESS))
            except BlockingIOError:  # another process of this machine has just done it
                return
            except OSError:  # this kernel does not give time to sessions
                pass
            self._waits = False


def _bar_calls() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the kernel kills this process when the service dies
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return False
    program = _filter(calls)
    code = ctypes.create_string_buffer(b"".join(program))
    filter_program = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(filter_program), 0, 0) == 0)


def _filter(calls: _Calls) -> list[bytes]:
    """Write the program that the kernel runs before each system call."""
    own = [
        # prlimit: only for this process, which is 0.
        _instruction(_LOAD, _FIRST_ARGUMENT_AT),
        _instruction(_JUMP_IF_EQUAL, 0, 0, 1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _FORBID),
    ]
    commands = [_instruction(_LOAD, _SECOND_ARGUMENT_AT)]
    for place, command in enumerate(_SIGNAL_COMMANDS):
        commands.append(_instruction(_JUMP_IF_EQUAL, command, len(_SIGNAL_COMMANDS) - place, 0))
    commands += [_instruction(_RETURN, _ALLOW), _instruction(_RETURN, _FORBID)]
    forbidden = (*calls.network, *calls.signals, *calls.turns)
    program = [
        _instruction(_LOAD, _MACHINE_AT),
        _instruction(_JUMP_IF_EQUAL, calls.machine, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_JUMP_FROM, _FIRST_X32_CALL, len(forbidden) + 3, 0),
    ]
    for place, call in enumerate(forbidden):
        program.append(_instruction(_JUMP_IF_EQUAL, call, len(forbidden) - place + 2, 0))
    return [
        *program,
        _instruction(_JUMP_IF_EQUAL, calls.prlimit, 3, 0),
        _instruction(_JUMP_IF_EQUAL, calls.fcntl, 2 + len(own), 0),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _FORBID),
        *own,
        *commands,
    ]


def _instruction(operation: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", operation, if_so, if_not, value)


if __name__ == "__main__":
    status = main()
    os._exit(status)  # without waiting for threads that may be stuck in a pipe
