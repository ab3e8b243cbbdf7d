"""Decoder processes as the service sees them: their number is limited, each takes bytes and gives frames."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import signal
import stat
import struct
import sys
import termios
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from streamer.audio.decoder_process import MODULE
from streamer.audio.frames import (
    HEAD_BYTES,
    End,
    Frame,
    FrameError,
    Opened,
    ProblemCode,
    Samples,
    content_length,
    decode,
)
from streamer.audio.frames import Problem as DecoderProblem
from streamer.base.codes import ErrorCode
from streamer.base.machine import processes
from streamer.base.package import PACKAGE
from streamer.base.text import counted
from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.workers.others import Alone, Counted, Others
from streamer.wire.upload import BareSamples, Problem

# A decoder that has a whole recording and gives nothing for this time has failed.
STALL_LIMIT_S: Final = 60.0
# The most bytes of frames that wait here. At this limit the decoder waits, and so does the sender of the recording.
_READ_AHEAD: Final = 32 * 1024
_END_LIMIT_S: Final = 5.0
# The environment variables that a decoder gets. None of them may be a secret.
_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")


class NotTaken(Exception):
    """The decoder takes no more bytes."""


class Decoding:
    """A decoder while it runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._fed_at = asyncio.get_running_loop().time()
        self._feeding = False  # bytes wait for the decoder
        self._whole = False  # the decoder has got the whole recording
        self._killed = False
        self._frames = 0  # the number of frames so far
        self._look: tuple[int, Look] | None = None

    @classmethod
    async def begin(cls, limits: UploadLimits, samples: BareSamples | None, *, separate: bool) -> Decoding:
        """Start a decoder. Raise OSError if that is not possible."""
        options = ["--cpu-s", str(limits.cpu_s), "--file-bytes", str(limits.largest)]
        if separate:
            options.append("--separate")
        if samples is not None:
            options += ["--encoding", samples.encoding, "--sample-rate", str(samples.sample_rate)]
            options += ["--channels", str(samples.channels)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            MODULE,
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # libraries quote the recordings of strangers
            start_new_session=True,  # so that its child ffmpeg is killed with it
            env=_environment(os.environ),
            cwd="/",
            limit=_READ_AHEAD,
        )
        return cls(process)

    async def feed(self, data: bytes) -> None:
        """Pass bytes to the decoder, no faster than it decodes them. Raise NotTaken if it takes no more."""
        assert self._process.stdin is not None
        self._feeding = True
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):
            raise NotTaken from None
        finally:
            self._feeding = False
            self._fed_at = asyncio.get_running_loop().time()

    def end(self) -> None:
        """Tell the decoder that the recording is complete."""
        assert self._process.stdin is not None
        self._whole = True
        self._fed_at = asyncio.get_running_loop().time()
        self._process.stdin.close()

    async def next(self) -> Frame:
        """Wait for the next frame. A problem and the end are the last frame."""
        assert self._process.stdout is not None
        reading = asyncio.ensure_future(self._read(self._process.stdout))
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=STALL_LIMIT_S)
                stalled = loop.time() - max(began, self._fed_at) >= STALL_LIMIT_S
                if not reading.done() and stalled and (self._whole or self._feeding):
                    self.kill()
                    return DecoderProblem(ProblemCode.TOO_COSTLY, "The recording takes too long to be decoded.")
            self._frames += 1
            return reading.result()
        finally:
            reading.cancel()

    def at_rest(self) -> bool:
        """Return whether the decoder has decoded all that it can of the bytes that it got.

        This is true if it was idle at the previous call as well, and did nothing in between. So call this again after a
        short while, and take its frames with next() meanwhile.
        """
        before, self._look = self._look, self._look_now()
        return self._look is not None and self._look == before

    def _look_now(self) -> tuple[int, Look] | None:
        """Return the number of frames, and what the processes of the decoder have done; None if they are not idle."""
        assert self._process.stdin is not None
        transport = self._process.stdin.transport
        waits = transport.get_write_buffer_size() > 0
        if waits or (not transport.is_closing() and unread(transport.get_extra_info("pipe").fileno())):
            return None
        look = look_at_session(self._process.pid)
        return None if look is None else (self._frames, look)

    def kill(self) -> None:
        """Kill the decoder, and everything that it started. This may be called again."""
        if not self._killed:
            self._killed = True
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def finish(self) -> None:
        """Kill it, and wait until it has ended."""
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wait_for_end(), _END_LIMIT_S)

    async def _wait_for_end(self) -> None:
        # The process counts as ended only when its output has been read to the end.
        with suppress(ConnectionError):
            while self._process.stdout is not None and await self._process.stdout.read(_READ_AHEAD):
                pass
        await self._process.wait()
        # If it has not read all of its input, Python 3.10 logs a failure unless somebody waits for this.
        with suppress(ConnectionError):
            if self._process.stdin is not None:
                await self._process.stdin.wait_closed()

    async def _read(self, stdout: asyncio.StreamReader) -> Frame:
        try:
            head = await stdout.readexactly(HEAD_BYTES)
            return decode(head, await stdout.readexactly(content_length(head)))
        except (asyncio.IncompleteReadError, ConnectionError):
            why = "The recording needs more time or memory to be decoded than it may have, or its decoder failed."
            return DecoderProblem(ProblemCode.TOO_COSTLY, why)
        except FrameError:
            self.kill()
            return DecoderProblem(ProblemCode.TOO_COSTLY, "The decoder of the recording failed.")


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    variables = {name: own[name] for name in _VARIABLES if name in own}
    path = ":".join(filter(None, (str(PACKAGE.parent), own.get("PYTHONPATH", ""))))
    # One thread each: several decoders run at a time, beside the recogniser.
    return {**variables, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


__all__ = ["DecoderProblem", "Decoding", "End", "NotTaken", "Opened", "Samples"]


# Detects processes that rest: all of their threads wait, and have done nothing since the last look. Only on Linux.

_WAITS: Final = "S"
_STATE: Final = re.compile(r"^State:\s+(\S)", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)

# The numbers of context switches of each thread.
Look = dict[int, tuple[int, ...]]


def look_at_session(leader: int) -> Look | None:
    """Return what all processes of this leader's session have done; None if one of their threads does not wait.

    None as well if nothing can be seen, because this process has no descriptor left.
    """
    look: Look = {}
    try:
        for process in processes():
            if process.session == leader:
                look_at_process(process.pid, look)
    except (_BusyError, OSError):
        return None
    return look or None


def look_at_process(pid: int, look: Look) -> None:
    """Note what each thread of a process has done. Raise _BusyError if one of them does not wait."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            status = (thread / "status").read_text()
            if (state := _STATE.search(status)) is None or state[1] != _WAITS:
                raise _BusyError
            look[int(thread.name)] = tuple(map(int, _SWITCHES.findall(status)))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        # Else the process or thread has ended.


class _BusyError(Exception):
    """A thread does not wait."""


def unread(descriptor: int) -> int:
    """Return how many bytes the other end of a pipe or local socket has not read yet."""
    request = termios.FIONREAD if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else termios.TIOCOUTQ
    return int(struct.unpack("i", fcntl.ioctl(descriptor, request, bytes(4)))[0])


# An upload whose client lets its decoder wait may lose its place after this time, if there is none for another one.
SLOW_AFTER_S: Final = 5.0
# A client that sends less is slow. Speech has more, however it is encoded.
SLOW_BYTES_PER_S: Final = 1024.0
GIVEN_AWAY: Final = Problem(
    ErrorCode.BUSY,
    "The recording came slowly, and others waited for a decoder; try again later, and send it faster.",
)


class SlowGuest(Protocol):
    """An upload that may lose its place because its client is slow."""

    def pace(self) -> float | None:
        """Return how many bytes came in a second; None if it does not wait for its client, or not for long enough."""

    def give_way(self) -> None:
        """End, because another one gets the place."""


@dataclass
class _Place:
    caller: str
    guest: SlowGuest | None


class DecoderPlaces:
    """Places for decoders, for uploads and for websockets together, each with its owner.

    If all are taken, an upload gives way that waits for its client, and that is slow or whose caller has more places.
    """

    def __init__(self, most: int, others: Others | None = None) -> None:
        """`others`: the other workers, whose decoders count as well, but do not give way."""
        self._most = most
        self._others = others or Alone()
        self._places: dict[object, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def full(self) -> Problem:
        """The problem for a client for whom there is no place."""
        why = f"At most {counted(self._most, 'recording')} can be decoded at a time; try again later."
        return Problem(ErrorCode.BUSY, why)

    def take(self, owner: object, caller: str, guest: SlowGuest | None = None) -> bool:
        """Take a place for this owner. Return False if there is none. `guest`: the owner, if it may give way later."""
        if len(self._places) + self._others.count(Counted.UPLOADS, "", self._most) >= self._most:
            slowest = self._slowest(caller)
            if slowest is None:
                return False
            place = self._places.pop(slowest)
            assert place.guest is not None
            place.guest.give_way()
        self._places[owner] = _Place(caller, guest)
        self._note()
        return True

    def give_back(self, owner: object) -> None:
        """Give the place of this owner back, if it has one."""
        if self._places.pop(owner, None) is not None:
            self._note()

    def _note(self) -> None:
        self._others.note(Counted.UPLOADS, "", len(self._places))

    def _slowest(self, caller: str) -> object | None:
        """Return who gives way for this caller: the slowest one of the caller that has the most places."""
        places = Counter(place.caller for place in self._places.values())
        slow: list[tuple[int, float, object]] = []
        for owner, place in self._places.items():
            pace = None if place.guest is None else place.guest.pace()
            # Otherwise the caller would get what it takes from another one that has no more than itself.
            unfair = places[place.caller] >= places[caller] + 2
            if pace is not None and (unfair or pace < SLOW_BYTES_PER_S):
                slow.append((-places[place.caller], pace, owner))
        return min(slow, key=lambda each: each[:2])[2] if slow else None
