"""Which recordings a command line names: files as they are, folders with all recordings in them and below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from streamer.audio.recording import AUDIO, THROUGH_FFMPEG, AudioError

STDIN: Final = "-"


@dataclass(frozen=True)
class Recording:
    """A recording as it is named, and its place among others: `monday/first.wav`."""

    name: str
    place: PurePath

    @classmethod
    def named(cls, name: str) -> Recording:
        """One that was named by itself."""
        return cls(name, PurePath("stdin" if name == STDIN else Path(name).name))


def recordings_of(name: str) -> tuple[list[Recording], list[AudioError]]:
    """The recording of this name, or those in the folder of this name; and what is wrong with it.

    Places begin below the folder, so that its structure can be kept.
    """
    if name == STDIN or not Path(name).is_dir():
        return [Recording.named(name)], []
    unread: list[OSError] = []
    found = [Recording(path, PurePath(path).relative_to(name)) for path in _files(name, unread)]
    wrong = [AudioError(f"{error.filename} cannot be read: {error.strerror}.") for error in unread]
    if not found and not wrong:
        wrong = [AudioError(f"{name} is a folder without recordings: nothing in it or below has the ending of one.")]
    return found, wrong


def _files(folder: str, unread: list[OSError]) -> Iterator[str]:
    for place, folders, files in os.walk(folder, onerror=unread.append):
        folders[:] = _sorted(folders)
        for file in _sorted(files):
            if PurePath(file).suffix.lower() in AUDIO | THROUGH_FFMPEG:
                yield str(Path(place, file))


def _sorted(names: Iterable[str]) -> list[str]:
    """As people count: track 2 before track 10; without those that are hidden, such as the notes of other systems."""
    return sorted((name for name in names if not name.startswith(".")), key=_order)


def _order(name: str) -> list[tuple[int, int | str]]:
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(piece)) if index % 2 else (1, piece) for index, piece in enumerate(pieces)] + [(2, name)]
