"""Tests a model with short real sequences at regular intervals, and knows how long its answers may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from streamer.base.codes import FailureCode
from streamer.base.events import Heard, ModelEvent
from streamer.bridge.session.backlog import BYTES_PER_S, SAMPLE_BYTES
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton.link import Limit, Link, LinkError
from streamer.bridge.upstreams.instances import Instances, begin_at_living, instance_of, languages_of

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
        raise LinkError(FailureCode.REFUSED, f"an answer must end with 'heard' and sample {_SAMPLES}")


# Decides how long to wait for an answer of one Triton, by its recent answers and its present work.

# An answer is overdue after SLOWER times the time of the slowest recent answer, within these limits. A busy machine is
# slow for every request. A machine that was quick a moment ago and does not answer now hangs.
SLOWER: Final = 5.0
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 30.0
LATELY_S: Final = 30.0
# All audio under way may take SLOWER times as long as at the recent pace, up to this limit. So a recogniser that gets
# much work at once does not seem to hang. The limit is shorter than that of clients, which is 90 s.
BUSIEST_S: Final = 60.0
# The limit for a stream whose hotwords have to be prepared. After 10 s the model itself gives up.
PREPARING_S: Final = 15.0
# Two doubts within this time count as a failure even if a probe succeeds, because it may miss the failing instance.
DOUBT_S: Final = 60.0


@dataclass
class _Period:
    """The observations of one period."""

    slowest_s: float = 0.0  # the longest time until an answer
    busy_s: float = 0.0  # the time in which audio was under way, up to the last answer
    audio_s: float = 0.0  # the audio that was answered


class Patience:
    """The limit for an answer. It follows the answers of the last 30 to 60 seconds, and the audio under way."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._before, self._present = _Period(LONGEST_S), _Period(LONGEST_S)
        self._under_way_s = 0.0  # the audio of the requests that have no answer yet
        self._counted_until = 0.0  # work before this time is in `busy_s`

    @contextmanager
    def work(self, audio_s: float, now: float) -> Iterator[None]:
        """Count this audio as under way, inside the `with` block."""
        if not self._under_way_s:
            self._counted_until = now
        self._under_way_s += audio_s
        try:
            yield
        finally:
            remaining = self._under_way_s - audio_s
            self._under_way_s = remaining if remaining > 0.001 else 0.0  # sums of fractions are not exact

    def note(self, seconds: float, now: float, audio_s: float = 0.0) -> None:
        """Note the time of an answer to a request with this audio, inside its work() block."""
        if now - self._since > LATELY_S:
            follows = self._since > float("-inf")
            self._since, self._before, self._present = now, self._present if follows else _Period(), _Period()
        present = self._present
        present.slowest_s = max(present.slowest_s, seconds)
        if audio_s:
            present.busy_s += max(0.0, now - self._counted_until)
            present.audio_s += audio_s
            self._counted_until = now

    @property
    def work_s(self) -> float:
        """The time that the audio under way may take; 0 if the pace is not known.

        While there are no answers, this does not grow. So a Triton that hangs is noticed.
        """
        busy_s = self._before.busy_s + self._present.busy_s
        audio_s = self._before.audio_s + self._present.audio_s
        return min(SLOWER * self._under_way_s * busy_s / audio_s, BUSIEST_S) if audio_s else 0.0

    @property
    def limit_s(self) -> float:
        """The time after which an answer is overdue."""
        slowest_s = max(self._before.slowest_s, self._present.slowest_s)
        return max(min(max(SHORTEST_S, SLOWER * slowest_s), LONGEST_S), self.work_s)


class Doubts:
    """The doubts about an upstream that failed requests raise, and the time of the last one that counted."""

    def __init__(self) -> None:
        self.raised = asyncio.Event()
        self._at = float("-inf")

    def again(self) -> bool:
        """Count a doubt. Return whether the doubt before it was within DOUBT_S."""
        last, self._at = self._at, time.monotonic()
        return self._at - last < DOUBT_S
