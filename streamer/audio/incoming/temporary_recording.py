"""A temporary file for a recording from a pipe or an address. It exists while the recording is read."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from streamer.audio.recording_check import AudioError
from streamer.fetching import is_address
from streamer.machine.temporary_folder import no_space_error, temporary_folder

MOST_BYTES: Final = 4 << 30


class TemporaryRecording:
    """Takes bytes up to a limit. AudioError if there is no space for them. `close` deletes the file."""

    def __init__(self, name: str) -> None:
        """`name`: the recording as the user named it. The file keeps its ending, which may show the format."""
        self._name = name
        self.size = 0
        suffix = "" if is_address(name) else Path(name).suffix[:8]
        try:
            descriptor, self.path = tempfile.mkstemp(suffix, "streamer-", temporary_folder())
        except OSError as error:
            raise AudioError(f"{name} cannot be stored: {error.strerror}.") from error
        self._file = FileIO(descriptor, "w")

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise AudioError(f"{self._name} is too large: the limit is {MOST_BYTES >> 30} GiB.")
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            trouble = no_space_error(Path(self.path).parent)
            raise AudioError(f"{self._name} cannot be stored: {trouble.strerror}.") from error

    def close(self) -> None:
        """Delete it. May be called more than once."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            Path(self.path).unlink()
