"""Limits the number of decoder processes, for uploads and for websockets together."""

from __future__ import annotations

from streamer.text.counts import counted
from streamer.wire.upload import Problem


class DecoderPlaces:
    """Places for decoders, each with its owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: set[object] = set()

    @property
    def full(self) -> Problem:
        """The problem for a client for whom there is no place."""
        why = f"At most {counted(self._most, 'recording')} can be decoded at a time; try again later."
        return Problem("busy", why)

    def take(self, owner: object) -> bool:
        """Take a place for this owner. Return False if there is none."""
        if len(self._owners) >= self._most:
            return False
        self._owners.add(owner)
        return True

    def give_back(self, owner: object) -> None:
        """Give the place of this owner back, if it has one."""
        self._owners.discard(owner)
