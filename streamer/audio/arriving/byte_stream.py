"""The bytes of a recording as they arrive: looked at first, then passed on, one way or another."""

from __future__ import annotations

import io
import os
import threading
from typing import Final

from streamer.audio.incoming.readable import read_as_it_is

_PIECE: Final = 64 * 1024
_KEPT: Final = 1 << 20  # bytes before the present place that a reader may go back to
# More than any recording has. So nobody waits for the end to learn the length.
_ENDLESS: Final = 1 << 40


class ByteStream:
    """Reads a descriptor once. `head` is what was looked at; it is passed on with the rest."""

    def __init__(self, descriptor: int) -> None:
        read_as_it_is(descriptor)
        self._descriptor = descriptor
        self._ended = False
        self.head = b""

    def look(self, size: int) -> bytes:
        """Return the first bytes, so many of them unless there are fewer."""
        while len(self.head) < size and (data := self._read()):
            self.head += data
        return self.head

    def next(self) -> bytes:
        """Return the next bytes, first those that were looked at; none at the end."""
        if self.head:
            data, self.head = self.head, b""
            return data
        return self._read()

    def pipe(self) -> int:
        """Return a pipe from which all of it can be read. A thread fills it, as the pipe is read."""
        reading, writing = os.pipe()
        threading.Thread(target=self._pour, args=(writing,), daemon=True).start()
        return reading

    def _pour(self, writing: int) -> None:
        try:
            while data := self.next():
                view = memoryview(data)
                while view:
                    view = view[os.write(writing, view) :]
        except OSError:
            pass  # whoever reads has had enough
        finally:
            os.close(writing)

    def _read(self) -> bytes:
        data = b"" if self._ended else os.read(self._descriptor, _PIECE)
        self._ended = not data
        return data


class ForwardFile(io.RawIOBase):
    """A stream as a file whose length is not known yet. Reading waits; going back is possible only a little."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__()
        self._stream = stream
        self._begin = 0  # the place of the first byte that is kept
        self._kept = bytearray()
        self._place = 0

    def readinto(self, buffer: object) -> int:
        """Read at the present place; 0 bytes at the end, or where nothing is kept any more."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        if self._place - self._begin > len(self._kept) + _KEPT:
            return 0  # somebody looks for the end, which is not there yet
        while self._begin + len(self._kept) < self._place + len(view) and (data := self._stream.next()):
            self._kept += data
        start = self._place - self._begin
        if start < 0:
            return 0
        found = bytes(self._kept[start : start + len(view)])
        view[: len(found)] = found
        self._place += len(found)
        if start > 2 * _KEPT:
            del self._kept[: start - _KEPT]
            self._begin += start - _KEPT
        return len(found)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """Within what is kept."""
        return True

    def tell(self) -> int:
        """Return the present place."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: _ENDLESS}
        self._place = max(0, bases[whence] + offset)
        return self._place
