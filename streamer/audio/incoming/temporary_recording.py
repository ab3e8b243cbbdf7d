"""A recording that comes from a pipe or an address, in a temporary file for as long as it is read."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from streamer.audio.recording_check import AudioError, is_address
from streamer.temporary_folder import full, temporary_folder

MOST_BYTES: Final = 4 << 30


class TemporaryRecording:
    """Takes bytes up to a limit; AudioError if they do not fit. The file is gone when it is closed."""

    def __init__(self, name: str) -> None:
        """`name` is how people call the recording; its ending is kept, as it may tell the format."""
        self._name = name
        self.size = 0
        suffix = "" if is_address(name) else Path(name).suffix[:8]
        try:
            descriptor, self.path = tempfile.mkstemp(suffix, "streamer-", temporary_folder())
        except OSError as error:
            raise AudioError(f"{name} cannot be kept: {error.strerror}.") from error
        self._file = FileIO(descriptor, "w")

    def write(self, data: bytes) -> None:
        """Takes more of it."""
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise AudioError(f"{self._name} is too large: the limit is {MOST_BYTES >> 30} GiB.")
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            trouble = full(Path(self.path).parent)
            raise AudioError(f"{self._name} does not fit: {trouble.strerror}.") from error

    def close(self) -> None:
        """Removes it. May be called more than once."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            Path(self.path).unlink()
