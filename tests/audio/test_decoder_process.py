"""The decoder process: what it may not do, and what becomes of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamer.audio import decoder_process
from streamer.audio.frames import HEAD_BYTES, End, Frame, Opened, Samples, content_length, decode
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
    ],
)
def test_a_decoder_may_do_little(program: str, outcome: str) -> None:
    """The decoder and its children have no network, and bounds of memory, files and descriptors."""
    told = confined(program)
    assert told.startswith("True")
    assert outcome in told


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
