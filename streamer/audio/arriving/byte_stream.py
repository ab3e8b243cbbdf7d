"""The bytes of a recording as they arrive. The first are examined, then all are passed on, as a pipe or as a file."""

from __future__ import annotations

import io
import os
import threading
from typing import Final

from streamer.audio.incoming.readable import read_as_it_is

_PIECE: Final = 64 * 1024
_KEPT: Final = 1 << 20  # bytes before the present place that a reader may go back to
# The pretended length: longer than any recording, so that no library waits for the end to learn the real one.
_ENDLESS: Final = 1 << 40


class ByteStream:
    """Reads a descriptor once. `head` has the bytes that were examined; they are passed on with the rest."""

    def __init__(self, descriptor: int) -> None:
        read_as_it_is(descriptor)
        self._descriptor = descriptor
        self._at_end = False
        self.head = b""

    def look(self, size: int) -> bytes:
        """Return at least `size` bytes of the beginning, or all if there are fewer. They stay in the stream."""
        while len(self.head) < size and (data := self._read()):
            self.head += data
        return self.head

    def next(self) -> bytes:
        """Return the next bytes, first those that were examined; none at the end."""
        if self.head:
            data, self.head = self.head, b""
            return data
        return self._read()

    def pipe(self) -> int:
        """Return a pipe from which the whole stream can be read. A thread fills it as fast as it is read."""
        reading, writing = os.pipe()
        threading.Thread(target=self._fill, args=(writing,), daemon=True).start()
        return reading

    def _fill(self, writing: int) -> None:
        try:
            while data := self.next():
                view = memoryview(data)
                while view:
                    view = view[os.write(writing, view) :]
        except OSError:
            pass  # the reader has closed the pipe
        finally:
            os.close(writing)

    def _read(self) -> bytes:
        data = b"" if self._at_end else os.read(self._descriptor, _PIECE)
        self._at_end = not data
        return data


class ForwardFile(io.RawIOBase):
    """A stream as a file whose length is not known yet. Reading waits; a reader can go back only a little."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__()
        self._stream = stream
        self._begin = 0  # the place of the first byte that is kept
        self._buffer = bytearray()
        self._place = 0

    def readinto(self, buffer: object) -> int:
        """Read at the present place; 0 bytes at the end, or before the first byte that is kept."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        if self._place - self._begin > len(self._buffer) + _KEPT:
            return 0  # the reader looks for the end, which has not arrived yet
        while self._begin + len(self._buffer) < self._place + len(view) and (data := self._stream.next()):
            self._buffer += data
        start = self._place - self._begin
        if start < 0:
            return 0
        data = bytes(self._buffer[start : start + len(view)])
        view[: len(data)] = data
        self._place += len(data)
        if start > 2 * _KEPT:
            del self._buffer[: start - _KEPT]
            self._begin += start - _KEPT
        return len(data)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: a reader can go back to the bytes that are kept."""
        return True

    def tell(self) -> int:
        """Return the present position."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position, and return it."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: _ENDLESS}
        self._place = max(0, bases[whence] + offset)
        return self._place
