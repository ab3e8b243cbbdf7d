"""Which models to let go so that another one has room. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryBound:
    """How much memory models may hold together, and about how much each takes, by public name. In bytes."""

    room: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class LoadedModel:
    """A model that is loaded, or is being loaded."""

    name: str
    size: int  # bytes
    busy: bool  # it has sessions, or some wait for it
    used: int  # when it was last used; a later use has a greater number


def models_to_let_go(loaded: Iterable[LoadedModel], needed: int, room: int) -> list[str] | None:
    """Return the names of models to let go, the least recently used ones first, so that `needed` bytes have room.

    `room` is for all models together. None if those that are busy leave too little. A model that needs more than all of
    it gets everything: it was checked before, and has grown since.
    """
    loaded = list(loaded)
    excess = sum(model.size for model in loaded) + min(needed, room) - room
    chosen = []
    for model in sorted(loaded, key=lambda model: model.used):
        if excess > 0 and not model.busy:
            chosen.append(model.name)
            excess -= model.size
    return chosen if excess <= 0 else None
