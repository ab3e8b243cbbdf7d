"""Chooses the models to unload so that another one has room. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryBound:
    """The memory for all models together, and the approximate size of each by its public name, in bytes."""

    room: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class LoadedModel:
    """A model that is loaded, or is being loaded."""

    name: str
    size: int  # bytes
    busy: bool  # it has sessions, or some wait for it
    last_use: int  # a number that grows with each use of any model


def models_to_let_go(loaded: Iterable[LoadedModel], needed: int, room: int) -> list[str] | None:
    """Return the names of models to let go, the least recently used ones first, so that `needed` bytes have room.

    `room` is for all models together. Return None if the busy ones leave too little. A model that needs more than
    `room` may have all of it: it was smaller when its size was checked.
    """
    loaded = list(loaded)
    excess = sum(model.size for model in loaded) + min(needed, room) - room
    names = []
    for model in sorted(loaded, key=lambda model: model.last_use):
        if excess > 0 and not model.busy:
            names.append(model.name)
            excess -= model.size
    return names if excess <= 0 else None
