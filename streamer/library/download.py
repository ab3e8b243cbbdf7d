"""Fetches an archive into a part-file. An interrupted download goes on where it ended, unless the archive has changed.

Beside the part-file, a small file describes the archive: its address, its length, and the mark (ETag or date) by which
the server recognises this version of it.
"""

from __future__ import annotations

import json
import shutil
import ssl
import time
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError

from streamer.fetching.web_address import STALL_S, open_address, reason_of
from streamer.library import FULL, LibraryError, NoSpaceError, Observer

MOST_BYTES: Final = 4 << 30
# The size of an unpacked model, in relation to its archive. Compression hardly shrinks weights.
UNPACKED: Final = 1.5
_BYTES: Final = 1 << 16
_ENOUGH: Final = 1 << 20  # bytes; after an attempt that brought this much, the count of attempts begins again
_AGAIN: Final = (408, 425, 429)  # statuses below 500 after which another attempt may succeed
_RANGE_WRONG: Final = 416
_PARTIAL: Final = 206
_LONGEST_WAIT_S: Final = 60.0


@dataclass(frozen=True)
class Patience:
    """How long to wait for data, and how often to try again. Every wait is twice as long as the one before."""

    stall_s: float = STALL_S
    attempts: int = 6
    wait_s: float = 1.0


@dataclass(frozen=True)
class _Part:
    """The archive to which a part-file belongs."""

    address: str
    mark: str
    whole: int | None


class _Interrupted(Exception):
    """The attempt has failed, but another one may succeed. The message is a part of a sentence."""


def fetch(address: str, part: Path, observer: Observer, patience: Patience | None = None) -> None:
    """Download the archive into `part`. LibraryError if that fails; the bytes so far are kept."""
    patience = patience or Patience()
    attempts, wait = patience.attempts, patience.wait_s
    while True:
        before = _size(part)
        try:
            _attempt(address, part, observer, patience.stall_s)
            return
        except _Interrupted as error:
            attempts, wait = (
                (patience.attempts, patience.wait_s) if _size(part) >= before + _ENOUGH else (attempts, wait)
            )
            attempts -= 1
            if not attempts:
                hint = "; the bytes so far are kept, and the same command goes on from there" if _size(part) else ""
                raise LibraryError(f"{address} could not be fetched: {error}{hint}") from error
            observer.say(f"{error}; trying again")
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)


def _attempt(address: str, part: Path, observer: Observer, stall_s: float) -> None:
    former = _read_part(part)
    offset = _size(part) if former is not None and former.address == address and former.mark else 0
    if former is not None and offset and offset == former.whole:
        return
    headers = {"Accept-Encoding": "identity"}
    if offset and former:
        headers |= {"Range": f"bytes={offset}-", "If-Range": former.mark}
    try:
        with open_address(address, headers, stall_s) as answer:
            _receive(answer, address, part, offset, observer)
    except HTTPError as error:
        error.close()
        if error.code == _RANGE_WRONG and offset:
            part.unlink()
            raise _Interrupted("the part that was here does not fit the archive any more") from error
        if error.code in _AGAIN or error.code >= 500:
            raise _Interrupted(reason_of(error)) from error
        raise LibraryError(f"{address} cannot be fetched: {reason_of(error)}") from error
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise NoSpaceError(
                f"no space is left in {part.parent}: free some, and the same command goes on from there"
            ) from error
        if _may_pass(error):
            raise _Interrupted(reason_of(error, stall_s)) from error
        raise LibraryError(f"{address} cannot be fetched: {reason_of(error)}") from error


def _may_pass(error: Exception) -> bool:
    """Return whether another attempt may succeed. If a name or a certificate is wrong, it cannot."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLError):
        return not isinstance(cause, ssl.SSLCertVerificationError)
    return isinstance(cause, (TimeoutError, ConnectionError, HTTPException))


def _receive(answer: HTTPResponse, address: str, part: Path, offset: int, observer: Observer) -> None:
    """Write the answer to `part`. `offset`: how many bytes the request left out; a server may send all the same."""
    if offset and (answer.status != _PARTIAL or not _begins_at(answer, offset)):
        offset = 0
    length = answer.headers.get("Content-Length", "")
    whole = offset + int(length) if length.isdecimal() else None
    if whole is not None:
        _check_room(address, part, offset, whole)
    first = answer.read1(_BYTES)
    if not offset and _is_page(answer, first):
        raise LibraryError(
            f"{address} gave a web page in place of an archive: perhaps a proxy or a login stands in between"
        )
    part.with_suffix(".json").write_text(json.dumps(asdict(_Part(address, _mark(answer), whole))), encoding="utf-8")
    with part.open("ab" if offset else "wb") as file:
        data = first
        while data:
            file.write(data)
            offset += len(data)
            if offset > MOST_BYTES:
                raise LibraryError(f"{address} is too large: the limit is {MOST_BYTES >> 30} GiB")
            observer.progress("fetched", offset, whole)
            data = answer.read1(_BYTES)
    if whole is not None and offset < whole:
        raise _Interrupted(f"the connection ended after {offset} of {whole} bytes")


def _check_room(address: str, part: Path, offset: int, whole: int) -> None:
    if whole > MOST_BYTES:
        raise LibraryError(f"{address} is too large: {whole / 1e9:.1f} GB, and the limit is {MOST_BYTES >> 30} GiB")
    required, free = whole - offset + int(UNPACKED * whole), shutil.disk_usage(part.parent).free
    if required > free:
        raise NoSpaceError(
            f"there is not enough space in {part.parent}: about {required / 1e6:.0f} MB are needed for the archive and "
            f"the model, and {free / 1e6:.0f} MB are free"
        )


def _begins_at(answer: HTTPResponse, offset: int) -> bool:
    return str(answer.headers.get("Content-Range", "")).startswith(f"bytes {offset}-")


def _mark(answer: HTTPResponse) -> str:
    """Return the mark by which the server recognises this version; empty if it gives no exact one."""
    tag = str(answer.headers.get("ETag", ""))
    if tag and not tag.startswith("W/"):
        return tag
    return str(answer.headers.get("Last-Modified", ""))


def _is_page(answer: HTTPResponse, first: bytes) -> bool:
    return answer.headers.get_content_type() == "text/html" or first.lstrip()[:1] == b"<"


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0


def _read_part(part: Path) -> _Part | None:
    try:
        return _Part(**json.loads(part.with_suffix(".json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
