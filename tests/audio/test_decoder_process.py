"""The decoder process: what it may not do, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.audio import decoder_process
from streamer.audio.frames import HEAD_BYTES, End, Frame, Opened, Samples, content_length, decode
from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.uploads.decoding import Decoding
from streamer.wire.upload import BareSamples
from tests.project import ROOT, SAMPLES

LIMITS = ("--cpu-s", "60", "--file-bytes", "1000000")


def confined(program: str, *, cpu_s: int = 60) -> str:
    """What a program prints in a process that is confined."""
    begin = f"from streamer.audio.decoder_process import confine\nprint(confine(cpu_s={cpu_s}, file_bytes=1000))\n"
    command = [sys.executable, "-c", begin + program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return f"{done.stdout} {done.stderr.strip()} {done.returncode}"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can bar the network")
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("import socket; socket.socket()", "PermissionError"),
        ("import subprocess; subprocess.run(['python3', '-c', 'import socket; socket.socket()'])", "PermissionError"),
        ("bytearray(2 << 30)", "MemoryError"),
        ("import tempfile; print('written', tempfile.TemporaryFile(buffering=0).write(bytes(5000)))", "written 1000"),
        ("[open('/dev/null') for _ in range(100)]", "Too many open files"),
        ("import os; os.kill(os.getppid(), 0)", "PermissionError"),
        ("import os; os.killpg(os.getpgrp(), 0)", "PermissionError"),
        ("import os, signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)", "PermissionError"),
        ("import subprocess; subprocess.run(['sh', '-c', 'kill -0 $PPID'])", "ermitted"),
        ("import fcntl, os; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid())", "PermissionError"),
        ("import fcntl, os; fcntl.fcntl(os.pipe()[0], fcntl.F_SETSIG, 9)", "PermissionError"),
        ("import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))", "PermissionError"),
        ("import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)", "PermissionError"),
        ("import os; os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))", "PermissionError"),
        (
            "import fcntl, resource; resource.setrlimit(resource.RLIMIT_CPU, (9, 9)); fcntl.fcntl(0, 3); print('own')",
            "own",
        ),
    ],
)
def test_a_decoder_may_do_little(program: str, outcome: str) -> None:
    """The decoder and its children have no network, no signals for others, and bounds of memory and files."""
    told = confined(program)
    assert told.startswith("True")
    assert outcome in told


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has these numbers")
@pytest.mark.parametrize("call", [41, 62, 512])
def test_calls_with_short_pointers(call: int) -> None:
    """A call has another number for programs with short pointers (x32), and is forbidden under it too, as all are."""
    told = confined(
        "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(libc.syscall({0x40000000 + call}, 1, 0, 0), errno.errorcode[ctypes.get_errno()])"
    )
    assert "-1 EPERM" in told


def session_turns(pid: int | str) -> str:
    """How the kernel gives time to the session of a process."""
    return Path(f"/proc/{pid}/autogroup").read_text()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel gives no time to sessions")
async def test_live_sessions_have_priority() -> None:
    """A decoder yields as a process, does not interrupt others, and its whole session yields to other sessions."""
    decoding = await Decoding.begin(UploadLimits(), BareSamples("pcm_s16le", 16_000, 1), separate=False)
    pid, before = decoding._process.pid, session_turns("self")

    async def read() -> None:
        while isinstance(await decoding.next(), (Opened, Samples)):
            pass

    reading = asyncio.ensure_future(read())
    try:
        while "nice 5" not in session_turns(pid):  # the kernel allows it ten times a second
            await decoding.feed(bytes(32_000))
            await asyncio.sleep(0.01)
        assert (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)) == (5, os.SCHED_BATCH)
        assert session_turns("self") == before
    finally:
        decoding.kill()
        await reading
        await decoding.finish()


def test_a_session_of_others_stays() -> None:
    """Where the process leads no session, that of its user keeps its turns."""
    program = "from streamer.audio.decoder_process import Turns; Turns(); print(open('/proc/self/autogroup').read())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "nice 5" not in done.stdout


def test_processor_time_ends() -> None:
    """The kernel kills a decoder that computes for too long."""
    assert confined("while True: pass", cpu_s=1).endswith("-9")


def test_frames_come_out() -> None:
    """The decoder sends a description of the recording, then its samples, then the end."""
    command = [sys.executable, "-m", decoder_process.MODULE, *LIMITS]
    data = (SAMPLES / "quilter.ogg").read_bytes()
    done = subprocess.run(command, input=data, cwd=ROOT, capture_output=True, timeout=60, check=True)
    frames: list[Frame] = []
    rest = done.stdout
    while rest:
        head, length = rest[:HEAD_BYTES], content_length(rest[:HEAD_BYTES])
        frames.append(decode(head, rest[HEAD_BYTES : HEAD_BYTES + length]))
        rest = rest[HEAD_BYTES + length :]
    assert frames[0] == Opened(1)
    assert sum(len(frame.pcm) for frame in frames if isinstance(frame, Samples)) == 2 * 93_680
    assert frames[-1] == End()
