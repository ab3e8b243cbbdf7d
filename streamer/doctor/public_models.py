"""Checks whether each public model of this machine, and the default, can be used. Needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamer.doctor import packages
from streamer.doctor.finding import FINE, WARNING, WRONG, Finding
from streamer.library import SHIPPED, LibraryError
from streamer.library.catalogue import known_models
from streamer.library.model_library import ModelLibrary

_SUBJECT: Final = "public models"
_GIGABYTE: Final = 1e9


def public_models(library: ModelLibrary | None = None, room: int | None = None) -> Iterator[Finding]:
    """Report each model that cannot be used or has no room, then the others and the default.

    `room`: how many bytes models may hold; by default, what this machine has for them.
    """
    library = library or ModelLibrary()
    here, default = library.models(), library.default
    yield from _unusable(library, default)
    begun = [name for name in library.begun() if name not in here]
    if begun:
        names = ", ".join(begun)
        yield Finding(_SUBJECT, WARNING, f"{names} was not fetched to its end", f"streamer models get {begun[0]}")
    try:
        library.default_folder()
    except LibraryError as error:
        reason = str(error).partition(". It is the default;")[0]
        remedy = f"streamer models default {SHIPPED}, or: streamer models get {default}"
        # The light client cannot load any model, so for it this is not a problem.
        state = WARNING if packages.is_light() else WRONG
        yield Finding(_SUBJECT, state, f"the default does not work: {reason}", remedy)
        return
    usual = "the shipped model is the default" if default == SHIPPED else f"{default} is the default"
    summary = f"{len(here)} in {library.folder}: {', '.join(here)}" if here else "none is here"
    if sys.platform == "linux" and not packages.is_light():  # elsewhere no model is served
        yield from _without_room({name: here[name] for name in here if _is_usable(library, name)}, room)
    yield Finding(_SUBJECT, FINE, f"{summary}; {usual}")


def _unusable(library: ModelLibrary, default: str) -> Iterator[Finding]:
    """Report each model that cannot be used, except the default, which has a finding of its own."""
    for name in library.models():
        try:
            library.read(name)
        except LibraryError as error:
            if name != default:
                what = "get" if name in known_models() else "remove"
                yield Finding(_SUBJECT, WARNING, str(error), f"streamer models {what} {name}")


def _is_usable(library: ModelLibrary, name: str) -> bool:
    try:
        library.read(name)
    except LibraryError:
        return False
    return True


def _without_room(folders: dict[str, Path], room: int | None) -> Iterator[Finding]:
    """Report each model that needs more memory than all may hold, and whether they do not fit together."""
    # Imported here, because it is slow, and the light client has only a part of it.
    from streamer.capacity.loaded_models import expected_memory, memory_for_models

    room = memory_for_models(None) if room is None else room
    sizes = {name: expected_memory(folder, None, None) for name, folder in folders.items()}
    may = f"models may hold {room / _GIGABYTE:.1f} GB here"
    for name, size in sizes.items():
        if size > room:
            message = f"{name} needs about {size / _GIGABYTE:.1f} GB of memory, and {may}"
            yield Finding(_SUBJECT, WARNING, message, "streamer serve --slots 16 needs less, or more memory")
    if max(sizes.values(), default=0) <= room < sum(sizes.values()):
        message = f"all of them together need about {sum(sizes.values()) / _GIGABYTE:.1f} GB of memory, and {may}"
        yield Finding(_SUBJECT, WARNING, message, "streamer serve --model library --load on-demand")
