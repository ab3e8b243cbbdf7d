"""One Triton as the bridge sees it: probes it, closes its link when it fails, and connects again.

The link is closed as soon as a failure is certain: the link has ended, the model's process has died, or the Triton has
answered nothing at all for too long. If one request is overdue while others are answered, that is only a doubt, and a
probe of every instance decides. The reservations of the streams move to other upstreams, while this module mends the
upstream and tries it until it is well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum

from streamer.base.codes import FailureCode
from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.link import ConnectionLost, Link, LinkError
from streamer.bridge.triton.repository import group_name
from streamer.bridge.upstreams import probe
from streamer.bridge.upstreams.instances import (
    OpeningFailures,
    Openings,
    Places,
    model_size,
    reports_dead_instance,
    wait_for_endings,
)
from streamer.bridge.upstreams.probe import Doubts, OpenModel, Patience, Probe
from streamer.bridge.upstreams.supervision import Supervisor

log = Log("streamer.bridge")

CLOSE_LIMIT_S = 3.0
# The link to a Triton that does not answer is cancelled only after this, because requests may still be computed.
LEAVE_LIMIT_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
# Sessions wait for a lost upstream, but only for a while. So at first it is tried more often.
EAGER_S, EAGER_PAUSE_S = 30.0, 2.0
# If an instance is dead while others have sessions, mending waits for this time, because it ends their sequences.
DEAD_LIMIT_S = 300.0
# The time for the model to end sequences whose last answer nobody awaits.
ENDING_S = 0.5


class Health(Enum):
    """The health of an upstream, from good to bad, and then its two last states."""

    WELL = "well"  # it has a link, and no failure is known
    AWAY = "away"  # there is no link; connecting may be enough
    ILL = "ill"  # it does not answer, so its supervisor must act
    BROKEN = "broken"  # its model's process has died or hangs, so the model must be loaded again
    RETIRING = "retiring"  # its sequences move to other upstreams as soon as they can
    LEFT = "left"  # it is not used any more


_SEVERITY = list(Health)
TRANSITIONS: Mapping[Health, tuple[Health, ...]] = {
    Health.WELL: (Health.AWAY, Health.ILL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    Health.AWAY: (Health.WELL, Health.ILL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    Health.ILL: (Health.WELL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    # Once its supervisor has acted, it counts as ill until it answers.
    Health.BROKEN: (Health.ILL, Health.RETIRING, Health.LEFT),
    Health.RETIRING: (Health.LEFT,),
    Health.LEFT: (),
}


class Upstream:
    """One Triton and its model, as long as the service uses them."""

    def __init__(self, name: str, supervisor: Supervisor, model: str = MODEL, *, loads: bool = False) -> None:
        """`loads`: load the model if the Triton does not have it."""
        self.name = name
        self.supervisor = supervisor
        self.model = model
        self.loaded = False  # whether this upstream has loaded the model
        self._loads = loads
        self._health = States("health", Health.AWAY, TRANSITIONS, triton=name, model=model)
        self._link: Link | None = None
        self._open_model: OpenModel | None = None  # since the last opening
        self._opening_failures = OpeningFailures()
        self._holders = Places()
        self.openings = Openings()  # of sequences
        self._doubts = Doubts()
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def health(self) -> Health:
        """The present health."""
        return self._health.now

    @property
    def well(self) -> bool:
        """Whether it takes sequences."""
        return self._health.now is Health.WELL and self._link is not None and self._link.alive

    @property
    def link(self) -> Link | None:
        """The present link; None if its Triton is away."""
        return self._link

    @property
    def retiring(self) -> bool:
        """Whether its sequences must move to other upstreams as soon as they can."""
        return self._health.now in (Health.RETIRING, Health.LEFT)

    @property
    def most(self) -> int:
        """The number of slots for sessions; 0 before it was first opened."""
        return 0 if self._open_model is None else self._open_model.most

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages from which sequences may choose; None before it was first opened."""
        return None if self._open_model is None else self._open_model.probe.languages

    @property
    def ready(self) -> bool:
        """Whether it is well, and its living instances passed a probe a moment ago."""
        return self.well and self._open_model is not None and self._open_model.probe.ready

    @property
    def has_dead_instances(self) -> bool:
        """Whether some instances of its model are dead, so that it has only the slots of the others."""
        return self._open_model is not None and bool(self._open_model.instances.dead)

    @property
    def must_choose(self) -> bool:
        """Whether a new sequence must avoid some instances, because they are dead or will be removed."""
        return self.has_dead_instances or (self._open_model is not None and self._open_model.instances.any_leaving)

    def avoids(self, instance: str) -> bool:
        """Return whether new sequences should avoid an instance, because it will be removed."""
        return self._open_model is not None and self._open_model.instances.leaves_at(instance) is not None

    @property
    def in_use(self) -> int:
        """The number of slots in use."""
        return len(self._holders)

    @property
    def patience(self) -> Patience:
        """The limits for its answers."""
        return Patience() if self._open_model is None else self._open_model.patience

    def limit_s(self, holder: object) -> float:
        """The time after which an answer for this holder is overdue. A busy instance gets the longest time."""
        lately = time.monotonic() - probe.SHORTEST_S
        return max(self.patience.limit_s, probe.LONGEST_S if self.answers_since(holder, lately) else 0.0)

    def answers_since(self, holder: object, at: float) -> bool:
        """Return whether the instance of this holder has answered any request since this time, so that it works."""
        place = self._holders.instances.get(holder)
        return (
            place is not None and self._open_model is not None and self._open_model.instances.answer_since([place], at)
        )

    def note_answer(self, holder: object) -> None:
        """Note that the instance of this holder has answered a request."""
        place = self._holders.instances.get(holder)
        if place is not None and self._open_model is not None:
            self._open_model.instances.note_answer(place, time.monotonic())

    def hold(self, holder: object) -> Link:
        """Hold a slot for one sequence, and return the link for it. The upstream must be well."""
        self._health.expect(Health.WELL)
        assert self._link is not None
        self._holders.add(holder)
        return self._link

    def give_back(self, holder: object) -> None:
        """Free a slot. This may be called again."""
        self._holders.discard(holder)

    def note_instance(self, holder: object, instance: str) -> None:
        """Note the instance of the sequence in a slot."""
        self._holders.note_instance(holder, instance)

    def must_move(self, holder: object) -> bool:
        """Return whether the holder's sequence must move, because its instance goes and others here have room."""
        return self.well and self._leaves_at(holder) is not None and self.in_use <= self.most

    def is_overdue(self, holder: object) -> bool:
        """Return whether the holder's sequence is still at an instance that it should have left."""
        until = self._leaves_at(holder)
        return until is not None and time.monotonic() > until

    @property
    def leaving(self) -> int:
        """The number of sequences that are still at instances that are being removed."""
        return sum(self._leaves_at(holder) is not None for holder in self._holders.instances)

    async def resize(self, instances: int, limit_s: float) -> None:
        """Change the number of the model's instances. Raise TritonError if that fails; then the number is as before.

        The sequences of an instance that goes move first: at their next cut, or after the limit as if the Triton had
        failed.
        """
        open_model, before = self._open_model, self.supervisor.instances(self.model)
        if not self.well or open_model is None or before is None:
            raise TritonError(f"the instances of {self.model} cannot be changed while its Triton is away")
        if instances > before:
            await self._raise(open_model, before, instances)
            return
        groups = [group_name(self.model, number) for number in range(instances, before)]
        open_model.instances.remove(groups, time.monotonic() + limit_s)
        open_model.scale(before, instances)
        try:
            await self._remove(open_model, instances, time.monotonic() + limit_s + LEAVE_LIMIT_S)
        except TritonError:
            open_model.scale(instances, before)
            raise
        finally:
            open_model.instances.forget(groups)

    async def _raise(self, open_model: OpenModel, before: int, instances: int) -> None:
        assert self._link is not None
        trial = Probe(self._link, open_model.probe.instances * instances // before)
        try:
            await self.supervisor.resize(self.model, instances)
            async with self.openings.one():
                if not await trial.probe(probe.FIRST_ANSWER_LIMIT_S):
                    raise TritonError(f"with {instances} instances, {self.model} does not answer: {trial.failure}")
        except TritonError:
            with suppress(TritonError):  # the new instance may have been loaded too late
                await self.supervisor.resize(self.model, before)
            raise
        open_model.scale(before, instances)

    async def _remove(self, open_model: OpenModel, instances: int, deadline: float) -> None:
        """Remove instances when they have no sequences. Triton 2.51 may crash when it removes one that has some."""
        while True:
            if self._open_model is not open_model or not self.well:
                raise TritonError(f"the Triton failed before {self.model} had fewer instances")
            if time.monotonic() > deadline:
                raise TritonError(f"sequences at an instance of {self.model} have not ended")
            if not self.leaving:
                async with self.openings.none():
                    await wait_for_endings()
                    await asyncio.sleep(ENDING_S)
                    if not self.leaving and self._link is not None and not self._link.ending:
                        await self.supervisor.resize(self.model, instances)
                        return
            await asyncio.sleep(ENDING_S)

    async def wait_until_empty(self, limit_s: float) -> None:
        """Wait until no slot is held, the link is lost, or the limit has passed."""
        if not self._holders or self._link is None:
            return
        ends = [asyncio.create_task(self._holders.wait_until_empty()), asyncio.create_task(self._link.lost())]
        try:
            await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    def retire(self) -> None:
        """Take no new sequences, and make the present ones move to other upstreams."""
        self._health.become(Health.RETIRING)

    def doubt(self, link: Link, error: LinkError, *, certain: bool) -> None:
        """Note that a request failed on this link. `certain`: no other request was answered meanwhile.

        An overdue answer of an instance that works is no reason for this: the instance is busy.
        """
        open_model = self._open_model
        if (
            open_model is None
            or link is not self._link
            or error.code not in (FailureCode.UNAVAILABLE, FailureCode.OVERDUE)
        ):
            return
        self._doubts.raised.set()
        if open_model.instances.note_failure(error.message):
            return  # other instances live
        # Change the health at once, so that a stream that looks for another upstream does not get this one.
        if error.code == FailureCode.UNAVAILABLE and not isinstance(error, ConnectionLost):
            self._worsen(Health.BROKEN)
        elif certain:
            self._worsen(Health.ILL)
        elif not link.alive:
            self._worsen(Health.AWAY)

    async def open(self) -> None:
        """Connect, and test that the model answers. Raise LinkError or TritonError if it does not."""
        address = await self.supervisor.address()
        if self._loads:
            self.loaded = await self.supervisor.load(self.model) or self.loaded
        link = await Link.connect(address, self.model, dial=self.supervisor.dial)
        try:
            size = await model_size(address, self.model, self.supervisor.dial)
            trial, started = Probe(link, size.probes), time.monotonic()
            if not await trial.probe(probe.FIRST_ANSWER_LIMIT_S):
                assert trial.failure is not None
                if self._opening_failures.need_reload(trial.failure, started, time.monotonic()):
                    self._worsen(Health.BROKEN)
                raise TritonError(f"the model {self.model} does not answer: {trial.failure}")
            slots = size.slots - (self.supervisor.probers - 1)
            if self.retiring:
                raise TritonError(f"{self.model} is not used any more")
            self._health.become(Health.WELL)
        except BaseException:
            await link.close(CLOSE_LIMIT_S)
            raise
        self._link, self._open_model = link, OpenModel(address, trial, size.instances, slots)
        self._opening_failures = OpeningFailures()
        audio_s = probe.AUDIO_S * size.probes
        with self.patience.work(audio_s, started):
            self.patience.note(time.monotonic() - started, time.monotonic(), audio_s)
        self._doubts.raised.clear()

    async def keep(self) -> None:
        """Keep the upstream well until cancelled, after open()."""
        pause, lost_at = FIRST_PAUSE_S, time.monotonic()
        while True:
            if self.well:
                await self._watch()
                pause, lost_at = FIRST_PAUSE_S, time.monotonic()
                log.warning("recogniser lost", triton=self.name, broken=self._health.now is Health.BROKEN)
            self._leave()
            try:
                await self._mend()
                await self.open()
                log.info("recogniser back", triton=self.name, model=self.model)
            except Exception as error:  # try again after any error
                log.warning("recogniser away", triton=self.name, detail=str(error), again_s=pause)
                await asyncio.sleep(pause)
                eager = time.monotonic() - lost_at < EAGER_S
                pause = min(2 * pause, EAGER_PAUSE_S if eager else LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Leave the upstream for good. This ends its sequences within a limit, and leaves the Triton as it is."""
        if self._health.now is not Health.LEFT:
            self._health.become(Health.LEFT)
        self._leave()
        await self._end_leaving()
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _leaves_at(self, holder: object) -> float | None:
        place = self._holders.instances.get(holder, "")
        return None if self._open_model is None else self._open_model.instances.leaves_at(place)

    def _worsen(self, health: Health) -> None:
        """Change to this health if it is worse than the present one."""
        if _SEVERITY.index(health) > _SEVERITY.index(self._health.now):
            self._health.become(health)

    async def _watch(self) -> None:
        """Wait until the upstream is not well any more."""
        assert self._link is not None
        lost = asyncio.create_task(self._link.lost())
        lost.add_done_callback(lambda _: self._doubts.raised.set())
        try:
            while self.well:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._doubts.raised.wait(), probe.EVERY_S)
                if not self.well:
                    break
                if self._doubts.raised.is_set() and not self.has_dead_instances and self._doubts.again():
                    self._worsen(Health.ILL)
                    break
                if not await self._probe_passes() or self._should_mend_instances():
                    break
                self._doubts.raised.clear()  # the probe has answered the doubts before it
        finally:
            self._worsen(Health.AWAY)
            lost.cancel()

    async def _mend(self) -> None:
        """Make the supervisor do what the health requires. After that the upstream counts as ill until it is opened."""
        broken = self._health.now is Health.BROKEN
        if broken:
            await self._end_leaving()  # reload the model only when no request is under way any more
        if broken or self._health.now is Health.ILL:
            address = "" if self._open_model is None else self._open_model.address
            await self.supervisor.mend(self.model, address, broken=broken)
        if self._health.now is not Health.ILL and not self.retiring:
            self._health.become(Health.ILL)

    async def _end_leaving(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_LIMIT_S)

    async def _probe_passes(self) -> bool:
        """Probe the upstream. Return whether it may stay."""
        assert self._link is not None
        assert self._open_model is not None
        open_model, started = self._open_model, time.monotonic()
        instances = open_model.instances
        async with self.openings.one():
            success = await open_model.probe.probe(lambda: open_model.probe_limit_s)
        if success:
            instances.note_living(open_model.probe.reached)
            return True
        failure = open_model.probe.failure
        assert failure is not None
        if instances.note_failure(failure.message) and await open_model.probe.probe_living(
            self.in_use, open_model.probe_limit_s
        ):
            instances.note_living(open_model.probe.reached)
            return True
        failure = open_model.probe.failure or failure
        if failure.code == FailureCode.FULL:  # other clients hold all slots, so it lives
            return True
        if failure.code == FailureCode.OVERDUE and self._link.answered_at > started:
            places = set(self._holders.instances.values())
            if places and instances.answer_since(places, started):
                return True  # every instance with sessions works, so they are busy
            if not self._doubts.again():
                return True  # it answers other requests
        self._worsen(Health.BROKEN if reports_dead_instance(failure) else Health.ILL)
        return False

    def _should_mend_instances(self) -> bool:
        """Return whether to mend dead instances now: if there are no sessions, or after DEAD_LIMIT_S."""
        open_model, now = self._open_model, time.monotonic()
        if open_model is None or not self.has_dead_instances:
            return False
        if open_model.instances.dead_since is None:
            open_model.instances.dead_since = now
            log.warning("instance dead", triton=self.name, model=self.model, instance=min(open_model.instances.dead))
        if self._holders and now - open_model.instances.dead_since <= DEAD_LIMIT_S:
            return False
        self._worsen(Health.BROKEN)
        return True

    def _leave(self) -> None:
        """Close the link in the background, because requests under way may still be computed."""
        link, self._link = self._link, None
        if link is not None:
            task = asyncio.create_task(link.close(LEAVE_LIMIT_S))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
