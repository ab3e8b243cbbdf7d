"""Fetches recordings from an address, or from a pipe with a name.

Each is read once, into a temporary file, within limits of size and time.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError

from streamer.audio.incoming.readable import is_readable
from streamer.audio.incoming.temporary_recording import MOST_BYTES, TemporaryRecording
from streamer.audio.recording_check import AudioError
from streamer.fetching import is_address
from streamer.fetching.web_address import open_address, reason_of

MOST_S: Final = 3600.0
PIPE_STALL_S: Final = 600.0  # a program may work for a long time before it writes
_POLL_S: Final = 0.5
_BYTES: Final = 1 << 16


def fetch(name: str, recording: TemporaryRecording, stop: threading.Event) -> None:
    """Read the whole recording into `recording`. AudioError if that fails, or if `stop` is set meanwhile."""
    began = time.monotonic()
    for piece in _from_address(name) if is_address(name) else _from_pipe(name):
        if stop.is_set():
            raise AudioError(f"{name} was not read to its end.")
        recording.write(piece)
        if time.monotonic() - began > MOST_S:
            raise AudioError(f"{name} took too long: it was not complete after {MOST_S / 60:.0f} minutes.")
    if recording.size == 0:
        raise AudioError(f"{name} is empty (0 bytes).")


def _from_pipe(name: str) -> Iterator[bytes]:
    """Yield the data, with an empty piece while nothing comes."""
    try:
        # Without O_NONBLOCK, this would block until another program writes.
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise AudioError(f"{name} cannot be opened: {error.strerror}.") from error
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise AudioError(f"{name} is neither a file nor a pipe.")
        active = time.monotonic()
        while True:
            if not is_readable(descriptor, _POLL_S):
                if time.monotonic() - active > PIPE_STALL_S:
                    raise AudioError(f"{name} gave no data for {PIPE_STALL_S / 60:.0f} minutes.")
                yield b""
                continue
            try:
                data = os.read(descriptor, _BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise AudioError(f"{name} cannot be read: {error.strerror}.") from error
            if not data:
                return
            active = time.monotonic()
            yield data
    finally:
        os.close(descriptor)


def _from_address(name: str) -> Iterator[bytes]:
    size = length = 0
    try:
        with open_address(name, {"Accept": "audio/*, video/*, */*;q=0.5"}) as answer:
            length = int(answer.headers.get("Content-Length") or 0)
            if length > MOST_BYTES:
                raise AudioError(
                    f"{name} is too large: {length / (1 << 30):.1f} GiB, and the limit is {MOST_BYTES >> 30} GiB."
                )
            while data := answer.read1(_BYTES):
                size += len(data)
                yield data
    except HTTPError as error:
        error.close()
        raise AudioError(f"{name} cannot be fetched: {reason_of(error)}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise AudioError(f"{name} cannot be fetched: {reason_of(error)}.") from error
    if size < length:
        raise AudioError(f"{name} is incomplete: {size} of {length} bytes came.")
