"""One Triton as the bridge sees it: a link that is made again when it is lost, probed, and left while it fails.

It is left as soon as something is known against it: the link has ended, the model's process has died, or nothing at all
is answered for longer than it should be. One request that is overdue while others are answered is a doubt: a probe of
every instance decides. Streams go on elsewhere through their reservations; here the upstream is mended and tried until
it is well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum

from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams import probe
from streamer.bridge.upstreams.instances import Instances, OpeningFailures, has_died
from streamer.bridge.upstreams.patience import Patience
from streamer.bridge.upstreams.probe import Probe
from streamer.bridge.upstreams.supervision import Supervisor
from streamer.triton import MODEL, TritonError
from streamer.triton.dialer import Dialer
from streamer.triton.link import ConnectionLost, Link, LinkError
from streamer.wire.failures import FailureCode

log = Log("streamer.bridge")

CONFIG_LIMIT_S = 5.0
CLOSE_LIMIT_S = 3.0
# A Triton that does not answer is cancelled only after this; requests in flight may still be computed.
LEAVE_LIMIT_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
# Sessions wait for one that was lost, but not for ever: at first it is looked for more often.
EAGER_S, EAGER_PAUSE_S = 30.0, 2.0
# With an instance dead and sessions at the others, nothing is mended for so long: that ends all sequences there.
LIMP_LIMIT_S = 300.0
# Two doubts within this are as good as a proof, whatever a probe says: it may have missed the instance.
DOUBT_S = 60.0


class Health(Enum):
    """What is known of an upstream, from good to bad, and then how it ends."""

    WELL = "well"  # it has a link, and nothing is known against it
    AWAY = "away"  # there is no link: connecting may be enough
    ILL = "ill"  # it does not answer: its supervisor has to do something
    BROKEN = "broken"  # it says that its model's process has died, or that never wakes: the model must be loaded again
    RETIRING = "retiring"  # its sequences go on elsewhere as soon as they can
    LEFT = "left"  # for good


_SEVERITY = list(Health)
TRANSITIONS: Mapping[Health, tuple[Health, ...]] = {
    Health.WELL: (Health.AWAY, Health.ILL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    Health.AWAY: (Health.WELL, Health.ILL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    Health.ILL: (Health.WELL, Health.BROKEN, Health.RETIRING, Health.LEFT),
    # Once something was done about it, it is only ill.
    Health.BROKEN: (Health.ILL, Health.RETIRING, Health.LEFT),
    Health.RETIRING: (Health.LEFT,),
    Health.LEFT: (),
}


class Upstream:
    """One Triton and its model, for as long as the service wants them."""

    def __init__(self, name: str, supervisor: Supervisor, model: str = MODEL, *, loads: bool = False) -> None:
        """`loads`: the Triton is given the model if it does not have it."""
        self.name = name
        self.supervisor = supervisor
        self.model = model
        self.loaded = False  # the model was not there before us
        self._loads = loads
        self._health = States("health", Health.AWAY, TRANSITIONS, triton=name, model=model)
        self._link: Link | None = None
        self._opened: _Opened | None = None  # what is known since the last opening
        self._opening = OpeningFailures()
        self._holders = _Holders()
        self._doubts = _Doubts()
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def health(self) -> Health:
        """What is known of it."""
        return self._health.now

    @property
    def well(self) -> bool:
        """Whether sequences can be had."""
        return self._health.now is Health.WELL and self._link is not None and self._link.alive

    @property
    def retiring(self) -> bool:
        """Whether its sequences go on elsewhere as soon as they can."""
        return self._health.now in (Health.RETIRING, Health.LEFT)

    @property
    def most(self) -> int:
        """Sequences for sessions, as far as is known."""
        return 0 if self._opened is None else self._opened.most

    @property
    def ready(self) -> bool:
        """Whether it is well and a sequence went through every instance that lives a moment ago."""
        return self.well and self._opened is not None and self._opened.probe.ready

    @property
    def limps(self) -> bool:
        """Whether it goes on although some of its model's instances have died: with others, and fewer slots."""
        return self._opened is not None and bool(self._opened.instances.dead)

    @property
    def taken(self) -> int:
        """How many slots are held."""
        return len(self._holders)

    @property
    def answer_limit_s(self) -> float:
        """How long to wait for an answer."""
        return Patience().limit_s if self._opened is None else self._opened.patience.limit_s

    def answered(self, seconds: float, now: float) -> None:
        """An answer took so long."""
        if self._opened is not None:
            self._opened.patience.note(seconds, now)

    def hold(self, holder: object) -> Link:
        """A slot for one sequence, and the link over which it goes; only while it is well."""
        self._health.expect(Health.WELL)
        assert self._link is not None
        self._holders.add(holder)
        return self._link

    def give_back(self, holder: object) -> None:
        """The slot is free again; once is enough."""
        self._holders.discard(holder)

    async def emptied(self, limit_s: float) -> None:
        """Returns when no slot is held any more, or those who hold one get no answers, or after the limit."""
        if not self._holders or self._link is None:
            return
        ends = [asyncio.create_task(self._holders.gone()), asyncio.create_task(self._link.lost())]
        try:
            await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    def retire(self) -> None:
        """It gets no new sequences, and those that it has are to go on elsewhere."""
        self._health.become(Health.RETIRING)

    def doubt(self, link: Link, error: LinkError, *, certain: bool) -> None:
        """A request failed on this link; `certain`: nothing else was answered either."""
        opened = self._opened
        if opened is None or link is not self._link or error.code not in (FailureCode.UNAVAILABLE, FailureCode.OVERDUE):
            return
        self._doubts.raised.set()
        if opened.instances.failed(error.message):
            return  # there are others
        # At once: nobody who looks for another upstream should come back here.
        if error.code == FailureCode.UNAVAILABLE and not isinstance(error, ConnectionLost):
            self._worsen(Health.BROKEN)
        elif certain:
            self._worsen(Health.ILL)
        elif not link.alive:
            self._worsen(Health.AWAY)

    async def open(self) -> None:
        """Connect and make sure that it works; LinkError or TritonError if not."""
        address = await self.supervisor.address()
        if self._loads:
            self.loaded = await self.supervisor.load(self.model) or self.loaded
        link = await Link.connect(address, self.model, dial=self.supervisor.dial)
        try:
            instances, slots = await _size(address, self.model, self.supervisor.dial)
            probing, started = Probe(link, instances), time.monotonic()
            if not await probing.probe(probe.ANSWER_LIMIT_S):
                assert probing.failure is not None
                if self._opening.need_reload(probing.failure, started, time.monotonic()):
                    self._worsen(Health.BROKEN)
                raise TritonError(f"the model {self.model} does not answer: {probing.failure}")
            if self.retiring:
                raise TritonError(f"{self.model} is not wanted any more")
            self._health.become(Health.WELL)
        except BaseException:
            await link.close(CLOSE_LIMIT_S)
            raise
        self._link, self._opened = link, _Opened(address, probing, instances, slots)
        self._opening = OpeningFailures()
        self.answered(time.monotonic() - started, time.monotonic())
        self._doubts.raised.clear()

    async def keep(self) -> None:
        """Keep it well, from open() on, until cancelled."""
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
            except Exception as error:  # whatever it was: it is tried again
                log.warning("recogniser away", triton=self.name, detail=str(error), again_s=pause)
                await asyncio.sleep(pause)
                eager = time.monotonic() - lost_at < EAGER_S
                pause = min(2 * pause, EAGER_PAUSE_S if eager else LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Leave it for good: sequences are ended, within a limit. The Triton itself is left as it is."""
        if self._health.now is not Health.LEFT:
            self._health.become(Health.LEFT)
        self._leave()
        await self._end_leaving()
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _worsen(self, health: Health) -> None:
        """This too is known of it; what is worse stays."""
        if _SEVERITY.index(health) > _SEVERITY.index(self._health.now):
            self._health.become(health)

    async def _watch(self) -> None:
        """Returns when it is not well any more."""
        assert self._link is not None
        lost = asyncio.create_task(self._link.lost())
        lost.add_done_callback(lambda _: self._doubts.raised.set())
        try:
            while self.well:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._doubts.raised.wait(), probe.EVERY_S)
                if not self.well:
                    break
                if self._doubts.raised.is_set() and not self.limps and self._doubts.again():
                    self._worsen(Health.ILL)
                    break
                if not await self._probe_passes() or self._has_limped():
                    break
                self._doubts.raised.clear()  # what was overdue before that has its answer
        finally:
            self._worsen(Health.AWAY)
            lost.cancel()

    async def _mend(self) -> None:
        """Have done what its state asks for. If it cannot be opened afterwards, more than connecting is needed."""
        broken = self._health.now is Health.BROKEN
        if broken:
            await self._end_leaving()  # it answers, and a model is better reloaded when nothing is in flight
        if broken or self._health.now is Health.ILL:
            address = "" if self._opened is None else self._opened.address
            await self.supervisor.mend(self.model, address, broken=broken)
        if self._health.now is not Health.ILL and not self.retiring:
            self._health.become(Health.ILL)

    async def _end_leaving(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_LIMIT_S)

    async def _probe_passes(self) -> bool:
        """Whether it may stay."""
        assert self._link is not None
        assert self._opened is not None
        probing, instances = self._opened.probe, self._opened.instances
        started = time.monotonic()
        limit_s = min(self.answer_limit_s, probe.ANSWER_LIMIT_S)
        if await probing.probe(limit_s):
            instances.answered(probing.reached)
            return True
        failure = probing.failure
        assert failure is not None
        if instances.failed(failure.message) and await probing.probe_living(self.taken, limit_s):
            instances.answered(probing.reached)
            return True
        failure = probing.failure or failure
        if failure.code == FailureCode.FULL:  # of others' sequences: it lives
            return True
        if failure.code == FailureCode.OVERDUE and self._link.answered_at > started and not self._doubts.again():
            return True  # it answers somebody
        self._worsen(Health.BROKEN if has_died(failure) else Health.ILL)
        return False

    def _has_limped(self) -> bool:
        """Whether it is time to mend what has died: when that disturbs nobody, or at last."""
        opened, now = self._opened, time.monotonic()
        if opened is None or not self.limps:
            return False
        if opened.instances.dead_since is None:
            opened.instances.dead_since = now
            log.warning("instance dead", triton=self.name, model=self.model, instance=min(opened.instances.dead))
        if self._holders and now - opened.instances.dead_since <= LIMP_LIMIT_S:
            return False
        self._worsen(Health.BROKEN)
        return True

    def _leave(self) -> None:
        """Let the link go, in the background: what is in flight there may still be computed."""
        link, self._link = self._link, None
        if link is not None:
            task = asyncio.create_task(link.close(LEAVE_LIMIT_S))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


class _Opened:
    """What is known of an upstream since it was opened."""

    def __init__(self, address: str, probing: Probe, number: int, slots: int) -> None:
        """So many instances of the model have so many slots each."""
        self.address = address  # of the process that the link goes to
        self.probe = probing
        self.instances = Instances()
        self.instances.answered(probing.reached)
        self.patience = Patience()
        self._number = number
        self._slots = slots

    @property
    def most(self) -> int:
        """Sequences for sessions."""
        # Probes need a slot in each instance, also when all the others are taken.
        return (self._number - len(self.instances.dead)) * max(0, self._slots - 1)


class _Holders:
    """Who holds slots."""

    def __init__(self) -> None:
        self._holders: set[object] = set()
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: object) -> None:
        """One more."""
        self._holders.add(holder)
        self._none.clear()

    def discard(self, holder: object) -> None:
        """It holds none any more; once is enough."""
        self._holders.discard(holder)
        if not self._holders:
            self._none.set()

    async def gone(self) -> None:
        """Returns when nobody holds any."""
        await self._none.wait()


class _Doubts:
    """That somebody doubts an upstream, and when that mattered last."""

    def __init__(self) -> None:
        self.raised = asyncio.Event()
        self._at = float("-inf")

    def again(self) -> bool:
        """Whether the last one was not long ago; this one counts as well."""
        last, self._at = self._at, time.monotonic()
        return self._at - last < DOUBT_S


async def _size(address: str, model: str, dial: Dialer) -> tuple[int, int]:
    """How many instances the model has there, and how many sequences each of them takes."""
    async with dial.channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelConfigRequest(name=model)
        config = (await stub.ModelConfig(request, timeout=CONFIG_LIMIT_S)).config
    instances = sum(group.count * max(1, len(group.gpus)) for group in config.instance_group)
    return int(instances), int(config.sequence_batching.oldest.max_candidate_sequences)
