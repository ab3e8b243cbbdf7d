"""Changes the number of a model's instances at the embedded Triton with the load, one instance at a time.

A new instance takes sequences as soon as it has answered one. An instance that will go gets no new sequences, and its
present ones move to others at their next cut, so no word is lost.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from streamer.bridge.scaling import count_rule
from streamer.bridge.scaling.count_rule import CountRule, Load, Wish
from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import FAILED, LOWERED, RAISED, REAL_TIME, LiveSession, Metrics
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.limits import InstanceBounds

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
            log.warning(
                "instances not changed", **self._log_fields(change), detail=str(error), again_s=count_rule.RETRY_S
            )
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
