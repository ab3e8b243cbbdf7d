"""A file for a transcript. Until it is complete, it has `partial` in its name, so it never replaces a longer text.

A file that grows while it is read, such as that of a dictation, is written directly if it did not exist before.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Final

_MOST_PARTIAL: Final = 100


class OutputError(Exception):
    """Transcripts cannot be written there. The message is a sentence for the user."""


class OutputFile:
    """The file of one transcript. It is not created before there is some text."""

    def __init__(self, target: Path, *, append: bool = False, growing: bool = False) -> None:
        """`append`: add to an existing file. `growing`: the file may grow while somebody reads it."""
        self._target = Path(os.path.realpath(target))  # if this is a link, its target is replaced, not the link
        self._named_path = target
        self._append = append
        direct = _is_special(self._target) or (growing and (append or not has_content(self._target)))
        self._path = self._target if direct else None  # the file that is written
        self._direct = direct
        self._stream: FileIO | None = None
        self._error: OutputError | None = None

    def write(self, text: str) -> None:
        """Write all of the text or nothing."""
        before = 0
        if self._error is not None:
            raise self._error
        try:
            self._stream = self._stream or self._open()
            before = self._stream.tell() if self._stream.seekable() else 0
            _write_all(self._stream, text.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            self._undo_write(before)
            self._error = self._error_of(error)
            raise self._error from error

    def finish(self) -> None:
        """Close the complete text: replace the old file, and remove the partial files of earlier attempts."""
        if self._stream is None:
            return
        try:
            if not self._direct:
                assert self._path is not None
                if self._append:
                    self._close()
                    self._append_to_old()
                    self._path.unlink()
                else:
                    if self._target.exists():
                        shutil.copymode(self._target, self._path)
                        os.fsync(self._stream.fileno())  # until then, the old file is the only one on the disk
                    self._close()
                    self._path.replace(self._target)
                    _remove_partial(self._target)
            self._close()
        except OSError as error:
            raise self._error_of(error) from error

    def break_off(self) -> Path | None:
        """Close an incomplete text. Return the file with the text so far, which has `partial` in its name."""
        if self._stream is None:
            return None
        with suppress(OSError):
            self._close()
        if self._direct or self._path is None:
            return None
        with suppress(OSError):
            if self._path.stat().st_size:
                beside = self._named_path.with_name(self._path.name)
                return beside if beside.exists() else self._path
            self._path.unlink()
        return None

    def discard(self) -> None:
        """Remove the written text. An existing file stays as it is."""
        with suppress(OSError):
            self._close()
            if not self._direct and self._path is not None:
                self._path.unlink()

    def _open(self) -> FileIO:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        if self._direct:
            stream = FileIO(self._target, "a" if self._append else "w")
            if self._append and _lacks_newline(self._target):
                _write_all(stream, b"\n")
            return stream
        for path in partial_names(self._target):
            with suppress(FileExistsError):
                stream = FileIO(path, "x")
                self._path = path
                return stream
        raise FileExistsError(errno.EEXIST, f"there are {_MOST_PARTIAL} unfinished ones beside it")

    def _append_to_old(self) -> None:
        """Append the partial file to the old one, which keeps its length if that fails."""
        assert self._path is not None
        with FileIO(self._target, "a") as old, FileIO(self._path) as new:
            size = old.seek(0, os.SEEK_END)
            try:
                if _lacks_newline(self._target):
                    _write_all(old, b"\n")
                while data := new.read(1 << 20):
                    _write_all(old, data)
            except OSError:
                os.ftruncate(old.fileno(), size)
                raise

    def _undo_write(self, size: int) -> None:
        """Remove text that could not be written completely."""
        if self._stream is None:
            return
        with suppress(OSError):
            self._stream.truncate(size)
        with suppress(OSError):
            self._close()
        if size == 0 and self._path is not None and not _is_special(self._path):
            with suppress(OSError):
                self._path.unlink()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _error_of(self, error: OSError) -> OutputError:
        return OutputError(f"{self._named_path} cannot be written: {error.strerror}.")


def has_content(path: Path) -> bool:
    """Return whether this is a file with content that could be lost."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def partial_names(target: Path) -> Iterator[Path]:
    """Yield the names for incomplete files: talk.partial.srt, talk.partial-2.srt and so on."""
    for number in count(1):
        if number > _MOST_PARTIAL:
            return
        yield target.with_name(f"{target.stem}.partial{f'-{number}' if number > 1 else ''}{target.suffix}")


def _remove_partial(target: Path) -> None:
    """Remove earlier attempts at a file that is complete now."""
    for path in partial_names(target):
        try:
            path.unlink()
        except OSError:
            return


def _is_special(path: Path) -> bool:
    """Return whether this is a device or a pipe, such as /dev/stdout."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _lacks_newline(path: Path) -> bool:
    """Return whether the last line of a file has no end."""
    try:
        with FileIO(path) as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                return False
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:
        return False


def _write_all(stream: FileIO, data: bytes) -> None:
    """Write all bytes. A full disk may take a part of them before it reports an error."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) or 0 :]
