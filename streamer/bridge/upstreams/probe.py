"""Tests a model with short real sequences, at regular intervals, and keeps what they show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from streamer.bridge.session.backlog import BYTES_PER_S, SAMPLE_BYTES
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.instances import Instances, begin_at_living, instance_of, languages_of
from streamer.bridge.upstreams.patience import Patience
from streamer.triton.link import Limit, Link, LinkError
from streamer.wire.model_events import Heard, ModelEvent

log = Log("streamer.bridge")

EVERY_S = 5.0
ANSWER_LIMIT_S = 10.0
FIRST_ANSWER_LIMIT_S = 10.0  # for a model, or instances, that have just been loaded
# The time for which a successful probe counts. A single overdue answer must not make a busy service look unready.
FRESH_S = EVERY_S + ANSWER_LIMIT_S
AUDIO_S = 0.32  # the audio of a probe of one instance
_SAMPLES = 320 * BYTES_PER_S // SAMPLE_BYTES // 1000
_AUDIO = bytes(_SAMPLES * SAMPLE_BYTES)


class Probe:
    """Sends a sequence of one step to every instance of a model, and remembers when all of them last succeeded."""

    def __init__(self, link: Link, instances: int = 1) -> None:
        self.failure: LinkError | None = None  # the error of the last probe, if it failed
        self.reached: set[str] = set()  # the instances that answered the last successful probe
        self.languages: tuple[str, ...] = ()  # from which sequences may choose
        self.instances = instances
        self._link = link
        self._succeeded_at = float("-inf")

    @property
    def ready(self) -> bool:
        """Whether a probe succeeded a moment ago."""
        return time.monotonic() - self._succeeded_at < FRESH_S

    async def probe(self, limit_s: Limit = ANSWER_LIMIT_S) -> bool:
        """Send sequences through the model. Return False if one of them failed or was not answered in time."""
        # Triton gives a new sequence to the instance with the lowest free slot. So simultaneous sequences, one for each
        # instance, reach all instances, except busy ones, whose sessions notice a failure themselves.
        sequences = [self._link.sequence() for _ in range(self.instances)]
        try:
            first = await asyncio.gather(*(sequence.send(_AUDIO, timeout=limit_s) for sequence in sequences))
            last = await asyncio.gather(*(sequence.send(end=True, timeout=limit_s) for sequence in sequences))
            for events in (*first, *last):
                _check(events)
        except LinkError as error:
            if str(error) != str(self.failure):
                log.warning("probe failed", code=error.code, detail=error.message)
            self.failure = error
        else:
            self.failure = None
            self.reached = {instance_of(events) for events in first}
            self.languages = languages_of(first[0])
            self._succeeded_at = time.monotonic()
        finally:
            for sequence in sequences:
                sequence.discard()
        return self.failure is None

    async def probe_living(self, in_use: int, limit_s: float = ANSWER_LIMIT_S) -> bool:
        """Test whether a living instance serves a sequence, although another is dead. `in_use`: the slots in use."""
        try:
            sequence, first = await begin_at_living(self._link, {}, in_use, limit_s, lambda _: False)
            try:
                _check(await sequence.send(_AUDIO, timeout=limit_s))
                await sequence.send(end=True, timeout=limit_s)
            finally:
                sequence.discard()
        except LinkError as error:
            self.failure = error
            return False
        self.reached = {instance_of(first)}
        self._succeeded_at = time.monotonic()
        return True


class OpenModel:
    """A model at one Triton since it was opened: its instances, its slots, and how soon it answers."""

    def __init__(self, address: str, probe: Probe, number: int, slots: int) -> None:
        """`number` instances of the model have `slots` each."""
        self.address = address  # of the process that the link goes to
        self.probe = probe
        self.instances = Instances()
        self.instances.note_living(probe.reached)
        self.patience = Patience()
        self._number = number
        self._slots = slots

    @property
    def most(self) -> int:
        """The number of slots for sessions."""
        # Probes need one slot of each instance, even if all others are taken.
        return (self._number - len(self.instances.dead)) * max(0, self._slots - 1)

    @property
    def probe_limit_s(self) -> float:
        """The limit for the answers to a probe."""
        return max(min(self.patience.limit_s, ANSWER_LIMIT_S), self.patience.work_s)

    def scale(self, before: int, after: int) -> None:
        """Note that the number of groups of instances changed. All groups are of the same size."""
        self._number = self._number * after // before
        self.probe.instances = self.probe.instances * after // before


def _check(events: Sequence[ModelEvent]) -> None:
    """Raise LinkError unless an answer reports the audio that was heard. Replays need it (docs/reference/triton.md)."""
    last = events[-1] if events else None
    if not isinstance(last, Heard) or last.sample != _SAMPLES:
        raise LinkError("refused", f"an answer must end with 'heard' and sample {_SAMPLES}")
