"""One Triton as the bridge sees it: a link that is made again when it is lost, probed, and left while it fails.

It is left as soon as something is known against it: the link has ended, the model's process has died, or nothing at all
is answered for longer than it should be. One request that is overdue while others are answered is a doubt: a probe of
every instance decides. Sessions find a new place through their leases; here it is mended and tried until it is well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams import probe as prober
from streamer.bridge.upstreams.instances import Instances, begin_past_the_dead, has_died
from streamer.bridge.upstreams.probe import Probe
from streamer.bridge.upstreams.supervision import Supervisor
from streamer.triton import MODEL, TritonError
from streamer.triton.dialer import Dialer
from streamer.triton.link import ConnectionLost, Link, LinkError, Overdue

log = Log("streamer.bridge")

CONFIG_LIMIT_S = 5.0
CLOSE_LIMIT_S = 3.0
# A Triton that does not answer is cancelled only after this; requests in flight may still be computed.
LEAVE_LIMIT_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
# Sessions wait for one that was lost, but not for ever: at first it is looked for more often.
EAGER_S, EAGER_PAUSE_S = 30.0, 2.0
# An answer is overdue after this: so many times what the slowest took of late, and within these limits. A machine that
# is busy is slow for everybody; one that was quick a moment ago and says nothing hangs.
SLOWER = 5.0
SHORTEST_PATIENCE_S, LONGEST_PATIENCE_S = 5.0, 30.0
LATELY_S = 30.0
# With an instance dead and sessions at the others, nothing is mended for so long: that ends all sequences there.
LIMP_LIMIT_S = 300.0
# A Triton that answers while its model says nothing to us for so long is given the model anew: there is a process that
# will not wake. It ends what others may have there, so it is not done soon, and each time in a row later.
SILENT_LIMIT_S = 30.0
# Two doubts within this are as good as a proof, whatever a probe says: it may have missed the instance.
DOUBT_S = 60.0


class Pace:
    """How long answers took of late, and so how long to wait for one."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._slowest = (LONGEST_PATIENCE_S, LONGEST_PATIENCE_S)  # before this period, and in it

    def note(self, seconds: float, now: float) -> None:
        """An answer took so long."""
        before, present = self._slowest
        if now - self._since > LATELY_S:
            known = self._since > float("-inf")
            self._since, before, present = now, present if known else 0.0, 0.0
        self._slowest = before, max(present, seconds)

    @property
    def patience_s(self) -> float:
        """After so long an answer is overdue."""
        return min(max(SHORTEST_PATIENCE_S, SLOWER * max(self._slowest)), LONGEST_PATIENCE_S)


class Opening:
    """What one attempt after another to begin with a Triton tells: whether its model has to be loaded again."""

    def __init__(self) -> None:
        self._silent_since: float | None = None
        self._limit_s = SILENT_LIMIT_S

    def failed(self, error: LinkError, began: float, now: float) -> bool:
        """A probe that began then came to nothing in this way; True if only another process of the model will help."""
        if not isinstance(error, Overdue):
            self._silent_since = None
            return has_died(error)
        if self._silent_since is None:
            self._silent_since = began
        if now - self._silent_since < self._limit_s:
            return False
        self._silent_since, self._limit_s = None, min(2 * self._limit_s, LIMP_LIMIT_S)
        return True


class Reservation:
    """A place for one sequence on one Triton, which hears through it how its sessions fare."""

    def __init__(self, upstream: Upstream, link: Link, options: Mapping[str, Any]) -> None:
        self.upstream = upstream
        self.sequence = link.sequence(options)
        self._link = link
        self._options = options
        self._begun = False

    async def send(self, pcm: bytes = b"", *, flush: bool = False, end: bool = False) -> list[dict[str, Any]]:
        """See Sequence.send(); waits as long as makes sense with this Triton."""
        if not self._link.alive:  # its close has ended the sequence, which is no mistake of whoever goes on with it
            raise ConnectionLost("the link was closed")
        asked, patience_s = time.monotonic(), self.upstream.pace.patience_s
        try:
            if self.upstream.limps and not (self._begun or pcm or flush or end):
                taken = self.upstream.taken
                self.sequence, events = await begin_past_the_dead(self._link, self._options, taken, patience_s)
            else:
                events = await self.sequence.send(pcm, flush=flush, end=end, timeout=patience_s)
        except LinkError as error:
            silent = isinstance(error, Overdue) and self._link.answered_at < asked
            self.upstream.doubt(self._link, error, certain=silent)
            raise
        now = time.monotonic()
        self._begun = True
        self.upstream.pace.note(now - asked, now)
        return events

    def discard(self) -> None:
        """End the sequence if it is not ended, and give the place back."""
        self.sequence.discard()
        self.upstream.give_back(self)


class Upstream:
    """One Triton and its model, for as long as the service wants them."""

    def __init__(self, name: str, supervision: Supervisor, model: str = MODEL, *, loads: bool = False) -> None:
        """`loads`: the Triton is given the model if it does not have it."""
        self.name = name
        self.supervision = supervision
        self.model = model
        self.loaded = False  # the model was not there before us
        self.retiring = False  # its sequences go on elsewhere as soon as they can
        self.pace = Pace()
        self._leases: set[Reservation] = set()
        self._instances = Instances()
        self._number, self._slots = 0, 0  # of instances, and slots of each
        self._limping_since: float | None = None
        self._emptied = asyncio.Event()
        self._link: Link | None = None
        self._probe: Probe | None = None
        self._well = False
        self._doubt = asyncio.Event()
        self._doubted_at = float("-inf")
        self._loads = loads
        self._opening = Opening()
        self._certain = False  # that it has to be left
        self._ill = False  # and that it will not do to connect again
        self._broken = False  # because its model's process has died
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def well(self) -> bool:
        """Whether sequences can be had."""
        return self._well and self._link is not None and self._link.alive

    @property
    def most(self) -> int:
        """Sequences for sessions, as far as is known."""
        # Probes need a place in each instance, also when all the others are taken.
        return (self._number - len(self._instances.dead)) * max(0, self._slots - 1)

    @property
    def ready(self) -> bool:
        """Whether it is well and a sequence went through every instance that lives a moment ago."""
        return self.well and self._probe is not None and self._probe.ready

    @property
    def limps(self) -> bool:
        """Whether it goes on although some of its model's instances have died: with others, and fewer places."""
        return bool(self._instances.dead)

    @property
    def taken(self) -> int:
        """How many places are held."""
        return len(self._leases)

    def lease(self, options: Mapping[str, Any]) -> Reservation:
        """A place for a new sequence; only while it is well."""
        assert self._link is not None
        lease = Reservation(self, self._link, options)
        self._leases.add(lease)
        return lease

    def give_back(self, lease: Reservation) -> None:
        """The place is free again."""
        self._leases.discard(lease)
        if not self._leases:
            self._emptied.set()

    async def emptied(self, limit_s: float) -> None:
        """Returns when no place is held any more, or those who hold one get no answers, or after the limit."""
        if not self._leases or self._link is None:
            return
        self._emptied.clear()
        ends = [asyncio.create_task(self._emptied.wait()), asyncio.create_task(self._link.lost())]
        try:
            await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    def doubt(self, link: Link, error: LinkError, *, certain: bool) -> None:
        """A request failed on this link; `certain`: nothing else was answered either."""
        if link is not self._link or error.code not in ("unavailable", "overdue"):
            return
        if self._instances.failed(error.message):
            self._doubt.set()  # there are others
            return
        self._broken = self._broken or (error.code == "unavailable" and not isinstance(error, ConnectionLost))
        self._ill = self._ill or certain or self._broken
        self._certain = self._ill or not link.alive
        if self._certain:
            self._well = False  # at once: nobody who looks for a new place should come back here
        self._doubt.set()

    async def open(self) -> None:
        """Connect and make sure that it works; LinkError or TritonError if not."""
        address = await self.supervision.address()
        if self._loads:
            self.loaded = await self.supervision.load(self.model) or self.loaded
        link = await Link.connect(address, self.model, dial=self.supervision.dial)
        try:
            instances, slots = await _size(address, self.model, self.supervision.dial)
            probing, started = Probe(link, instances), time.monotonic()
            if not await probing.probe(prober.ANSWER_LIMIT_S):
                assert probing.failure is not None
                self._broken = self._opening.failed(probing.failure, started, time.monotonic())
                raise TritonError(f"the model {self.model} does not answer: {probing.failure}")
        except BaseException:
            await link.close(CLOSE_LIMIT_S)
            raise
        self._instances = Instances()
        self._instances.answered(probing.reached)
        self._number, self._slots = instances, slots
        self._limping_since = None
        self._opening = Opening()
        self._link, self._probe, self.pace = link, probing, Pace()
        self.pace.note(time.monotonic() - started, time.monotonic())
        self._doubt.clear()
        self._certain = self._ill = self._broken = False
        self._well = True

    async def keep(self) -> None:
        """Keep it well, from open() on, until cancelled."""
        pause, lost_at = FIRST_PAUSE_S, time.monotonic()
        while True:
            if self.well:
                await self._last()
                pause, lost_at = FIRST_PAUSE_S, time.monotonic()
                log.warning("recogniser lost", triton=self.name, broken=self._broken)
            self._leave()
            try:
                if self._broken:
                    await self._end_leaving()  # it answers, and a model is better reloaded when nothing is in flight
                if self._ill:
                    await self.supervision.mend(self.model, broken=self._broken)
                self._ill, self._broken = True, False  # unless it opens now, or fails to in a way that tells more
                await self.open()
                log.info("recogniser back", triton=self.name, model=self.model)
            except Exception as error:  # whatever it was: it is tried again
                log.warning("recogniser away", triton=self.name, detail=str(error), again_s=pause)
                await asyncio.sleep(pause)
                eager = time.monotonic() - lost_at < EAGER_S
                pause = min(2 * pause, EAGER_PAUSE_S if eager else LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Leave it for good: sequences are ended, within a limit. The Triton itself is left as it is."""
        self._well = False
        self._leave()
        await self._end_leaving()
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _last(self) -> None:
        """Returns when it is not well any more."""
        assert self._link is not None
        assert self._probe is not None
        lost = asyncio.create_task(self._link.lost())
        lost.add_done_callback(lambda _: self._doubt.set())
        try:
            while not self._certain and self._link.alive:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._doubt.wait(), prober.EVERY_S)
                if self._certain or not self._link.alive:
                    break
                self._ill = self._doubt.is_set() and not self.limps and self._doubted_again()
                if self._ill or not await self._probe_passes() or self._has_limped():
                    break
                self._doubt.clear()  # what was overdue before that has its answer
        finally:
            self._well = False
            lost.cancel()

    async def _end_leaving(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_LIMIT_S)

    async def _probe_passes(self) -> bool:
        """Whether it may stay."""
        assert self._link is not None
        assert self._probe is not None
        started = time.monotonic()
        limit_s = min(self.pace.patience_s, prober.ANSWER_LIMIT_S)
        if await self._probe.probe(limit_s):
            self._instances.answered(self._probe.reached)
            return True
        failure = self._probe.failure
        assert failure is not None
        if self._instances.failed(failure.message) and await self._probe.probe_living(self.taken, limit_s):
            self._instances.answered(self._probe.reached)
            return True
        failure = self._probe.failure or failure
        if failure.code == "full":  # of others' sequences: it lives
            return True
        if failure.code == "overdue" and self._link.answered_at > started and not self._doubted_again():
            return True  # it answers somebody
        self._ill = True
        self._broken = self._broken or has_died(failure)
        return False

    def _has_limped(self) -> bool:
        """Whether it is time to mend what has died: when that disturbs nobody, or at last."""
        now = time.monotonic()
        if not self.limps:
            self._limping_since = None
            return False
        if self._limping_since is None:
            self._limping_since = now
            log.warning("instance dead", triton=self.name, model=self.model, instance=min(self._instances.dead))
        self._ill = self._broken = not self._leases or now - self._limping_since > LIMP_LIMIT_S
        return self._ill

    def _doubted_again(self) -> bool:
        last, self._doubted_at = self._doubted_at, time.monotonic()
        return self._doubted_at - last < DOUBT_S

    def _leave(self) -> None:
        """Let the link go, in the background: what is in flight there may still be computed."""
        link, self._link = self._link, None
        if link is not None:
            task = asyncio.create_task(link.close(LEAVE_LIMIT_S))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


async def _size(address: str, model: str, dial: Dialer) -> tuple[int, int]:
    """How many instances the model has there, and how many sequences each of them takes."""
    async with dial.channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelConfigRequest(name=model)
        config = (await stub.ModelConfig(request, timeout=CONFIG_LIMIT_S)).config
    instances = sum(group.count * max(1, len(group.gpus)) for group in config.instance_group)
    return int(instances), int(config.sequence_batching.oldest.max_candidate_sequences)
