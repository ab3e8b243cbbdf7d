"""Recordings from an address, or from a pipe with a name.

They are read once, into a temporary file, within limits of size and time.
"""

from __future__ import annotations

import os
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from streamer.audio.incoming.readable import is_readable
from streamer.audio.incoming.temporary_recording import MOST_BYTES, TemporaryRecording
from streamer.audio.recording_check import AudioError, is_address

MOST_S: Final = 3600.0
STALL_S: Final = 30.0  # an address that gives no data for so long is given up
PIPE_STALL_S: Final = 600.0  # a program may work for a long time before it writes
MOST_REDIRECTS: Final = 5
_POLL_S: Final = 0.5
_BYTES: Final = 1 << 16


def fetch(name: str, recording: TemporaryRecording, stop: threading.Event) -> None:
    """Read all of it into `recording`. AudioError if that is not possible, or if `stop` is set meanwhile."""
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
    """The data, with an empty piece while nothing comes."""
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
    received = length = 0
    try:
        request = Request(name, headers={"User-Agent": "streamer", "Accept": "audio/*, video/*, */*;q=0.5"})
        with build_opener(_Redirects).open(request, timeout=STALL_S) as answer:
            length = int(answer.headers.get("Content-Length") or 0)
            if length > MOST_BYTES:
                raise AudioError(
                    f"{name} is too large: {length / (1 << 30):.1f} GiB, and the limit is {MOST_BYTES >> 30} GiB."
                )
            while data := answer.read1(_BYTES):
                received += len(data)
                yield data
    except HTTPError as error:
        error.close()
        # For redirects, Python's own reason has several lines.
        reason = f"it redirects more than {MOST_REDIRECTS} times" if "\n" in error.reason else error.reason
        raise AudioError(f"{name} cannot be fetched: HTTP status {error.code} ({reason}).") from error
    except (OSError, HTTPException, ValueError) as error:
        raise AudioError(f"{name} cannot be fetched: {_reason(error)}.") from error
    if received < length:
        raise AudioError(f"{name} is incomplete: {received} of {length} bytes came.")


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); set SSL_CERT_FILE to a file of trusted roots"
    if isinstance(cause, TimeoutError):
        return f"no data came for {STALL_S:g} s"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__).rstrip(".")


class _Redirects(HTTPRedirectHandler):
    """Follows a few redirects, but none to a file or from https to http."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not is_address(newurl) or (req.type == "https" and not newurl.lower().startswith("https:")):
            fp.close()
            raise URLError(f"it redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
