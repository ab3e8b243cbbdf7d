"""Decides how many instances a model should have, and changes their number at the embedded Triton one at a time.

A new instance takes sequences as soon as it has answered one. An instance that will go gets no new sequences, and its
present ones move to others at their next cut, so no word is lost.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from streamer.base.limits import InstanceBounds
from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import FAILED, LOWERED, RAISED, REAL_TIME, LiveSession, Metrics
from streamer.bridge.upstreams.pool import UpstreamPool

log = Log("streamer.bridge")

LOOK_S: Final = 1.0  # the interval between two looks at the load
LAGGING_SHARE: Final = 0.25  # the part of the sessions that must be behind


class CountState(Enum):
    """The state of the number of instances."""

    STEADY = "steady"  # it can be changed if the load requires it
    RAISING = "raising"  # another instance is being loaded and tested
    LOWERING = "lowering"  # the sequences of an instance that goes are moving to others
    HELD = "held"  # the last change failed, so no other one is made for a while


TRANSITIONS: Mapping[CountState, tuple[CountState, ...]] = {
    CountState.STEADY: (CountState.RAISING, CountState.LOWERING),
    CountState.RAISING: (CountState.STEADY, CountState.HELD),
    CountState.LOWERING: (CountState.STEADY, CountState.HELD),
    CountState.HELD: (CountState.STEADY,),
}


class Numbers(NamedTuple):
    """The present number of instances, and the number that there should be."""

    loaded: int
    wanted: int


class _Change(NamedTuple):
    """A change of the number, and the load that requires it."""

    before: int
    wish: Wish
    load: Load

    @property
    def raises(self) -> bool:
        return self.wish.instances > self.before


class InstanceCount:
    """The number of one public model's instances."""

    def __init__(
        self, pool: UpstreamPool, bounds: InstanceBounds, metrics: Metrics, sessions: int | None = None
    ) -> None:
        """`sessions`: the most sessions of the service, which the greatest number of instances can serve together."""
        self._pool = pool
        self._share = None if sessions is None else sessions / bounds.most
        self._rule = CountRule(bounds)
        self._metrics = metrics
        self._states = States("instances", CountState.STEADY, TRANSITIONS, name=pool.name)
        self._change: _Change | None = None  # the change under way

    @property
    def name(self) -> str:
        """The public name of the model."""
        return self._pool.name

    @property
    def state(self) -> CountState:
        """The present state."""
        return self._states.now

    @property
    def numbers(self) -> Numbers:
        """The present numbers. An instance that will go still counts as loaded."""
        if self._change is not None:
            return Numbers(self._change.before, self._change.wish.instances)
        instances = self._pool.instances or 0
        return Numbers(instances, instances)

    async def follow(self) -> None:
        """Follow the load until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look(self.load())

    async def look(self, load: Load) -> None:
        """Make the change that this load requires, if any."""
        now, instances = time.monotonic(), self._pool.instances
        if instances is None or not self._pool.whole:  # mending a failure comes first
            return
        if self._states.now is CountState.HELD and not self._rule.waits(now):
            self._states.become(CountState.STEADY)
        wish = self._rule.wish(instances, load, now)
        if wish is not None and self._states.now is CountState.STEADY:
            await self._make(_Change(instances, wish, load))

    async def _make(self, change: _Change) -> None:
        self._states.become(CountState.RAISING if change.raises else CountState.LOWERING)
        self._change = change
        try:
            await self._pool.resize(change.wish.instances)
        except Exception as error:  # after any error, the service goes on with the instances that it has
            self._rule.note_failure(time.monotonic())
            self._states.become(CountState.HELD)
            self._metrics.instance_changes.labels(FAILED).inc()
            log.warning("instances not changed", **self._log_fields(change), detail=str(error), again_s=RETRY_S)
        else:
            self._rule.note_change(time.monotonic())
            self._states.become(CountState.STEADY)
            self._metrics.instance_changes.labels(RAISED if change.raises else LOWERED).inc()
            log.info("instances raised" if change.raises else "instances lowered", **self._log_fields(change))
        finally:
            self._change = None

    def _log_fields(self, change: _Change) -> dict[str, Any]:
        """Return the fields of a log line about a change, with the load that required it."""
        load, wish = change.load, change.wish
        model = {"name": self.name, "model": self._pool.model, "instances": wish.instances}
        return {**model, "because": wish.reason.value, "taken": load.in_use, "slots": load.most, "lag_s": load.lag_s}

    def load(self) -> Load:
        """Return the present load."""
        most, in_use = self._pool.room, sum(self._pool.held.values())
        if self._share is not None:  # an instance may have many more slots than it can serve in time
            most = min(most, math.ceil(self._share * (self._pool.instances or 0)))
        return Load(in_use, most, lag_of(self._metrics.live, self.name))


def lag_of(sessions: Iterable[LiveSession], name: str) -> float:
    """Return how far at least a quarter of the model's live sessions are behind. Return 0 if there are no sessions."""
    lags = sorted(each.lag_s for each in sessions if each.model == name and each.pace == REAL_TIME)
    return round(lags[int((1 - LAGGING_SHARE) * len(lags))], 3) if lags else 0.0


# Decides how many instances a model should have, from its load over time. Pure: it gets loads and times.

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
