"""Decides how many instances a model should have, from its load over time. Pure: it gets loads and times.

Another instance comes soon after it is needed, because clients wait or are refused. An instance goes only after a long
quiet time, when the others would be half empty. So the number does not change back and forth.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from streamer.limits import InstanceBounds

RAISE_SHARE: Final = 0.75  # another instance is needed if this part of the slots is in use
LOWER_SHARE: Final = 0.5  # an instance is not needed if no more than this part of the slots of the others is in use
# A session that keeps up is behind by an incomplete step and by the step that is being computed.
BEHIND_S: Final = 1.0
RAISE_AFTER_S: Final = 3.0  # the time for which another instance must be needed
LOWER_AFTER_S: Final = 60.0  # the time for which an instance must not be needed
PAUSE_S: Final = 10.0  # the pause after a change, until its effect can be seen
RETRY_S: Final = 300.0  # the pause after a change that failed
# If sessions were behind with some number of instances, that number is not chosen again for STRAIN_S while more than
# STRAIN_SHARE of the sequences of that time are there.
STRAIN_SHARE: Final = 0.75
STRAIN_S: Final = 1800.0


class Reason(Enum):
    """Why another number of instances is wanted."""

    SLOTS = "slots"  # most slots are in use
    LAG = "lag"  # sessions are behind
    QUIET = "quiet"  # fewer instances are enough


@dataclass(frozen=True)
class Load:
    """The load of a model at one moment."""

    in_use: int  # slots in use
    most: int  # all slots
    lag_s: float  # a quarter of the live sessions are behind by at least this time


class Wish(NamedTuple):
    """The number of instances that is wanted now."""

    instances: int
    reason: Reason


class CountRule:
    """Notes how long there has been too much or too little load, and which changes failed."""

    def __init__(self, bounds: InstanceBounds) -> None:
        self._bounds = bounds
        self._busy_since: float | None = None
        self._quiet_since: float | None = None
        self._wait_until = float("-inf")
        # By number of instances: how many sequences were too many for them, and when that was.
        self._strained: dict[int, tuple[int, float]] = {}

    def wish(self, instances: int, load: Load, now: float) -> Wish | None:
        """Return the better number of instances, which is one more or one less; None if this number is right."""
        busy = self._busy(instances, load)
        if busy is Reason.LAG:
            self._strained[instances] = (load.in_use, now)
        self._busy_since = None if busy is None else now if self._busy_since is None else self._busy_since
        quiet = busy is None and self._is_quiet(instances, load, now)
        self._quiet_since = None if not quiet else now if self._quiet_since is None else self._quiet_since
        if now < self._wait_until:
            return None
        if busy is not None and instances < self._bounds.most and _lasts(self._busy_since, RAISE_AFTER_S, now):
            return Wish(instances + 1, busy)
        if instances > self._bounds.fewest and _lasts(self._quiet_since, LOWER_AFTER_S, now):
            return Wish(instances - 1, Reason.QUIET)
        return None

    def note_change(self, now: float) -> None:
        """Note that the number was changed. The next change needs new reasons."""
        self._busy_since = self._quiet_since = None
        self._wait_until = now + PAUSE_S

    def note_failure(self, now: float) -> None:
        """Note that a change failed. No other one is made for a while."""
        self.note_change(now)
        self._wait_until = now + RETRY_S

    def waits(self, now: float) -> bool:
        """Return whether it is too early for another change, because the last one is recent or has failed."""
        return now < self._wait_until

    def _busy(self, instances: int, load: Load) -> Reason | None:
        if load.in_use and load.in_use >= RAISE_SHARE * load.most:
            return Reason.SLOTS
        return Reason.LAG if load.lag_s > BEHIND_S else None

    def _is_quiet(self, instances: int, load: Load, now: float) -> bool:
        fewer = instances - 1
        strain, at = self._strained.get(fewer, (0, float("-inf")))
        if now - at < STRAIN_S and load.in_use > STRAIN_SHARE * strain:
            return False
        return load.in_use <= LOWER_SHARE * load.most * fewer / instances


def _lasts(since: float | None, seconds: float, now: float) -> bool:
    return since is not None and now - since >= seconds
