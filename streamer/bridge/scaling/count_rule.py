"""Decides how many instances a model should have, from its load over time. Pure: loads and times in, a wish out.

Another instance comes soon after it is needed, because clients wait or are refused. One goes only after a long quiet
time, when the others would be half empty. So the number does not change back and forth.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from streamer.limits import InstanceBounds

RAISE_SHARE: Final = 0.75  # of the slots in use: then another instance is wanted
LOWER_SHARE: Final = 0.5  # of the slots of the others: if no more are in use, an instance is not needed
# A session that keeps up is behind by an incomplete step and by the step that is being computed.
BEHIND_S: Final = 1.0
RAISE_AFTER_S: Final = 3.0  # so long it must be needed
LOWER_AFTER_S: Final = 60.0  # so long it must not be needed
PAUSE_S: Final = 10.0  # after a change, until its effect can be seen
RETRY_S: Final = 300.0  # after a change that failed
# A number that was too small for so many sequences is not chosen for nearly as many, for so long.
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

    taken: int  # slots in use
    most: int  # slots that there are
    lag_s: float  # a quarter of the live sessions are at least so far behind


class Wish(NamedTuple):
    """The number of instances that is wanted now."""

    instances: int
    reason: Reason


class CountRule:
    """Remembers since when there is too much or too little load, and what failed."""

    def __init__(self, bounds: InstanceBounds) -> None:
        self._bounds = bounds
        self._busy_since: float | None = None
        self._quiet_since: float | None = None
        self._wait_until = float("-inf")
        self._strained: dict[int, tuple[int, float]] = {}  # by number of instances: sequences that were too many, when

    def wish(self, instances: int, load: Load, now: float) -> Wish | None:
        """Return the number that is wanted instead of this one, which is one more or one less; None if it is right."""
        busy = self._busy(instances, load)
        if busy is Reason.LAG:
            self._strained[instances] = (load.taken, now)
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

    def changed(self, now: float) -> None:
        """Note that the number was changed. Another change needs reasons of its own."""
        self._busy_since = self._quiet_since = None
        self._wait_until = now + PAUSE_S

    def failed(self, now: float) -> None:
        """Note that a change failed. None is wanted for a while."""
        self.changed(now)
        self._wait_until = now + RETRY_S

    def waits(self, now: float) -> bool:
        """Return whether no change is wanted yet, because the last one was a moment ago or has failed."""
        return now < self._wait_until

    def _busy(self, instances: int, load: Load) -> Reason | None:
        if load.taken and load.taken >= RAISE_SHARE * load.most:
            return Reason.SLOTS
        return Reason.LAG if load.lag_s > BEHIND_S else None

    def _is_quiet(self, instances: int, load: Load, now: float) -> bool:
        fewer = instances - 1
        strain, at = self._strained.get(fewer, (0, float("-inf")))
        if now - at < STRAIN_S and load.taken > STRAIN_SHARE * strain:
            return False
        return load.taken <= LOWER_SHARE * load.most * fewer / instances


def _lasts(since: float | None, seconds: float, now: float) -> bool:
    return since is not None and now - since >= seconds
