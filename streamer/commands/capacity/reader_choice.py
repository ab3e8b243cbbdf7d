"""Chooses the reader of a service: the best one on this machine that its processors carry beside the recogniser."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from streamer.base.limits import OFF
from streamer.base.machine import processor_time
from streamer.models.readers import find_reader, readers_here

AUTO: Final = "auto"
# From this many processors on, a service of many sessions chooses a reader by itself. A second of speech takes a
# fiftieth of a processor with the small one, and twice as much with the large one (docs/explanation/reader.md).
PROCESSORS: Final = {"moonshine-base": 4.0, "moonshine-tiny": 0.0}


class ChosenReader(NamedTuple):
    """A reader on this machine, and the folder with its files."""

    name: str
    folder: Path


def choose_reader(wanted: str = AUTO, *, alone: bool = False) -> ChosenReader | None:
    """Return this reader; with `auto` the best one that fits this machine, or None. None for `off`.

    `alone`: for a single user, whom any machine carries. LibraryError for a name that is not known. None for a reader
    that is not on this machine.
    """
    if wanted == OFF:
        return None
    if wanted != AUTO:
        folder = find_reader(wanted)
        return None if folder is None else ChosenReader(wanted, folder)
    here, processors = readers_here(), processor_time()
    fitting = (ChosenReader(*each) for each in here.items() if alone or processors >= PROCESSORS.get(each[0], 0.0))
    return next(fitting, None)
