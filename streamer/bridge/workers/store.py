"""What several bridges count together, through a store that speaks Redis' protocol.

Each process writes one small entry about itself once in a second, and reads those of the others: which sessions its
callers have, what hotwords they used, and whether it drains. So nothing that decides waits for the store: it looks at
what is known, which is a second old at most. Audio of the hour has an entry of its own, which outlives the process.

A session stays at its bridge, whose name is in its token. If its client returns to another bridge, that one *claims*
the session: the bridge that has it gives it up, and the token is void for good, so the later one wins. The client
begins the session again behind its last final, with the audio that it has kept: no word is in the store, and no audio.

For an operator, a process asks all others, and they answer with their next exchange: what they have is not in the store
unless somebody asks, and then for some seconds.

Every entry is signed with a secret that the bridges share. What is not signed by one of them counts as missing. While
the store is away, a process goes on with its part of each limit; as each entry is whole, everything is together again
one exchange after it has returned, also if it has lost all entries.

[A record](../../../docs/decisions/store.md) has the reasons.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamer.base.json_types import JsonObject
from streamer.base.package import install_command
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.usage import KEPT_DAYS, ByKey, HourOfAudio, UsageRecord, as_json, by_key, sum_of
from streamer.bridge.workers.others import (
    AnswerQuestion,
    Beyond,
    Bridges,
    BucketState,
    Counted,
    GiveUp,
    KeptKey,
    Others,
    bridge_of,
    worker_of,
)
from streamer.bridge.workers.store_entries import (
    PROCESSES,
    Seal,
    StoreError,
    audio_entry,
    bridge_name,
    bridge_of_place,
    claims_to,
    is_bridge,
    is_place,
    is_usage,
    name_of_place,
    new_answer,
    process_entry,
    questions_to,
    usage_entry,
    usages_of,
    worker_of_place,
)

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = Log("streamer.bridge")

# How often a process tells the others what it has. A session that begins or ends is told earlier, but not more often
# than SOON_S.
EXCHANGE_S: Final = 1.0
SOON_S: Final = 0.1
# The audio of an hour is larger, and is told less often.
AUDIO_EVERY_S: Final = 5.0
# How long one exchange may take. Nothing but the next exchange waits for it.
LIMIT_S: Final = 1.0
# How long a client that resumes may wait, so that its bridge learns whether another one goes on with the session.
WAIT_S: Final = 0.25
# A process that has told nothing for so long counts no more: it was killed, is stopped or cut off. By this process' own
# clock, because those of machines differ.
SILENT_S: Final = 5.0
# The store forgets what a process has after this time.
_KEPT_S: Final = 15
# It forgets audio after an hour, and claims after the time in which a process that was stopped may go on.
_AUDIO_KEPT_S: Final = 3660
_CLAIM_KEPT_S: Final = 300
# What keys used on a day is kept as long as in a usage file. So many entries of a month are read, at most.
_USAGE_KEPT_S: Final = (KEPT_DAYS + 1) * 86400
MOST_USAGES: Final = 16384
_USAGES_AT_ONCE: Final = 64
# How long a process that asks waits until it has met all others, and then for their answers. They look for questions
# once in a second.
MEET_LIMIT_S: Final = 3.0
ANSWER_LIMIT_S: Final = 3.0
_LOOK_EVERY_S: Final = 0.1
_ANSWER_KEPT_S: Final = 10
_QUESTION_KEPT_S: Final = 5
_MOST_QUESTIONS: Final = 16  # that are answered in an exchange
# Whoever can write into the store may write much. So much of it is read, at most.
MOST_PROCESSES: Final = 256
LARGEST_ENTRY: Final = 1024 * 1024
LARGEST_AUDIO: Final = 4 * 1024 * 1024
LARGEST_INBOX: Final = 1024 * 1024
# Claims that wait for the store, and that are heard at a time. All clients of a bridge may return elsewhere at once.
# So many of them, with names of keys as long as can be, fit into an inbox.
MOST_CLAIMS: Final = 4096
_MOST_BUCKETS: Final = 4096
_MINUTE_S: Final = 60.0
# What callers have at all bridges together. The rest is about the slots of one bridge.
_OF_CALLERS: Final = (Counted.OF_KEY, Counted.OF_NETWORK)


@dataclass
class _Process:
    """What a process of another bridge has told."""

    met_at: float
    fresh_at: float  # when it told the last of it
    number: int = 0  # of its last entry: older ones that come again are not believed
    counts: Mapping[str, int] = field(default_factory=dict)
    charges: Mapping[str, float] = field(default_factory=dict)
    drains: bool = False
    ended: bool = False
    audio_number: int = 0
    audio: HourOfAudio = field(default_factory=dict)


@dataclass
class _Bucket:
    """What all bridges together have used of one budget, as parts of the budget of a minute."""

    level: float
    at: float
    lists: Sequence[bytes] = ()

    def level_at(self, now: float) -> float:
        return max(0.0, self.level - (now - self.at) / _MINUTE_S)


class Store:
    """The others of one process, at other bridges and, in `workers`, in its own one."""

    def __init__(self, address: str, secret: bytes, workers: Others, worker: int = 0) -> None:
        """`workers`: the other workers of this bridge. `worker`: the number of this process among them."""
        try:
            import redis.asyncio  # noqa: F401
        except ImportError as error:
            raise StoreError(f"--store needs a package: {install_command('store')}") from error
        self._address, self._workers, self._worker = address, workers, worker
        self._seal = Seal(secret)
        self.salt = self._seal.salt
        # All workers of a bridge have the same name, and a bridge that is started again has another one.
        self.bridge = bridge_name(workers.salt or secrets.token_bytes(16))
        self._place = f"{self.bridge}.{worker}.{secrets.token_hex(4)}"
        self._together = False
        self._complained = False  # about the store that is away
        self._number_of_bridges = 1  # that there were when the store was there last
        self._number = 0  # of exchanges
        self._processes: dict[str, _Process] = {}
        self._counts: Counter[str] = Counter()  # of other bridges
        self._own: dict[str, int] = {}
        self._buckets: dict[str, _Bucket] = {}
        self._charged: dict[str, tuple[float, float]] = {}  # what was used here in all, and when last
        self._hour: HourOfAudio = {}
        self._usage = UsageRecord()  # of this process
        self._written: dict[str, JsonObject] = {}  # the days of it that the store has
        self._audio_at = 0.0
        self._claims: dict[tuple[str, bytes], None] = {}  # place and entry, the oldest first
        self._give_up: GiveUp = lambda _, __: None
        self._answer: AnswerQuestion = lambda _: {}
        self._answers: list[tuple[str, bytes]] = []  # place and entry
        self._asking: set[asyncio.Task[Beyond] | asyncio.Task[dict[str, ByKey] | None]] = set()
        self._client: Redis | None = None
        self._drains = self._ended = False
        self._refused = 0
        self._wake = asyncio.Event()
        self._asked: asyncio.Future[None] | None = None  # done behind the next exchange

    @property
    def bridges(self) -> Bridges:
        """What is known of other bridges."""
        bridges = {bridge_of_place(place) for place, process in self._others() if not process.drains}
        return Bridges(self._together, len(bridges), self._refused)

    # What is counted.

    def exclusive(self) -> AbstractContextManager[None]:
        """Let no other worker of this bridge count inside this block."""
        return self._workers.exclusive()

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return how many of these the others have."""
        number = self._workers.count(kind, name, most)
        if kind not in _OF_CALLERS:
            return number
        if self._together:
            return number + self._counts[self._seal.label(kind.value, name)]
        return number + (most - max(1, most // self._number_of_bridges) if most > 0 else 0)

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Tell the others how many of these this process has."""
        self._workers.note(kind, name, number)
        if kind in _OF_CALLERS:
            label = self._seal.label(kind.value, name)
            if number:
                self._own[label] = number
            else:
                self._own.pop(label, None)
            self._wake.set()

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return how much of a budget all have used."""
        state = self._workers.bucket(kind, name)
        bucket = self._buckets.get(self._seal.label(kind, name))
        if bucket is None:
            return state
        now = time.monotonic()
        if state is None:
            return BucketState(bucket.level_at(now), now, bucket.lists)
        level = _Bucket(state.level, state.level_at).level_at(now)
        return BucketState(max(level, bucket.level_at(now)), now, state.lists)

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Tell the others how much of a budget is used."""
        former = self.bucket(kind, name)
        before = 0.0 if former is None else _Bucket(former.level, former.level_at).level_at(state.level_at)
        self._workers.keep_bucket(kind, name, state)
        label = self._seal.label(kind, name)
        if label not in self._buckets and len(self._buckets) >= _MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[label] = _Bucket(state.level, state.level_at, tuple(state.lists))
        total, _ = self._charged.get(label, (0.0, 0.0))
        self._charged[label] = (total + max(0.0, state.level - before), state.level_at)
        self._wake.set()

    def settle(self, usage: ByKey, hour: HourOfAudio) -> None:
        """Tell the others what was used since the last call."""
        self._workers.settle(usage, hour)
        self._usage.settle(usage, time.time())
        self._hour = hour

    def audio_of_others(self) -> HourOfAudio:
        """Return the audio of the last hour that others received, also those that have ended since."""
        hour = {key: list(minutes) for key, minutes in self._workers.audio_of_others().items()}
        since = time.time() - 3600
        for process in self._processes.values():
            for key, minutes in process.audio.items():
                hour.setdefault(key, []).extend(each for each in minutes if each[0] > since)
        return {key: sorted(minutes) for key, minutes in hour.items() if minutes}

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Make a key for a short time valid at this bridge."""
        self._workers.add_key(digest, key)

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Return the key for a short time with this digest, if this bridge has made it."""
        return self._workers.find_key(digest)

    def keys(self, now: float) -> list[tuple[str, float]]:
        """Return the holders and the ends of the keys for a short time of this bridge."""
        return self._workers.keys(now)

    # Which bridge has a session.

    def on_claim(self, give_up: GiveUp) -> None:
        """Call this whenever another bridge goes on with a session."""
        self._give_up = give_up

    async def claim(self, token: str, digest: bytes, key: str) -> None:
        """Tell the bridge that has the session of this token to give it up: its client goes on here."""
        bridge = bridge_of(token)
        if not is_bridge(bridge):
            return
        place = claims_to(bridge, worker_of(token))
        if len(self._claims) >= MOST_CLAIMS:
            del self._claims[next(iter(self._claims))]
        self._claims[place, self._seal.sign(place, {"token": digest.hex(), "key": key})] = None
        await self.refresh()

    def on_question(self, answer: AnswerQuestion) -> None:
        """Call this whenever another bridge asks for an operator."""
        self._answer = answer

    async def ask(self, question: JsonObject) -> Beyond:
        """Ask all processes of other bridges, for an operator."""
        # Whoever asks may leave. A cancellation within a request of redis-py would cost its connection.
        asking = asyncio.create_task(self._ask(question))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return await asyncio.shield(asking)

    async def _ask(self, question: JsonObject) -> Beyond:
        from redis.exceptions import RedisError

        away = "The store is away, so only this bridge is known."
        client = self._client
        if client is None or not await self._meet_all():
            return Beyond([], [away])
        since = time.monotonic() - SILENT_S
        known = {place: each for place, each in self._processes.items() if each.number and not each.ended}
        silent = [place for place, each in known.items() if each.fresh_at <= since]
        waiting = {place: new_answer() for place in known if place not in silent}
        answers: list[JsonObject] = []
        until = time.monotonic() + ANSWER_LIMIT_S
        try:
            pipeline = client.pipeline(transaction=True)
            for place, reply in waiting.items():
                inbox = questions_to(bridge_of_place(place), worker_of_place(place))
                pipeline.append(inbox, self._seal.sign(inbox, {"question": question, "reply": reply}) + b"\n")
                pipeline.expire(inbox, _QUESTION_KEPT_S)
            await pipeline.execute()
            while waiting and time.monotonic() < until:
                await asyncio.sleep(_LOOK_EVERY_S)
                pipeline = client.pipeline(transaction=False)
                for reply in waiting.values():
                    pipeline.getrange(reply, 0, LARGEST_ENTRY - 1)
                for (place, reply), entry in zip(list(waiting.items()), await pipeline.execute(), strict=True):
                    if content := self._opened(reply, entry):
                        answers.append(content)
                        del waiting[place]
        except (RedisError, OSError, asyncio.TimeoutError):
            return Beyond(answers, [away])
        return Beyond(answers, [f"{name_of_place(place)} does not answer." for place in sorted([*waiting, *silent])])

    async def usage_of_month(self, month: str) -> dict[str, ByKey] | None:
        """Return what keys used at all bridges on each day of a month; None while the store is away."""
        asking = asyncio.create_task(self._usage_of_month(month))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return await asyncio.shield(asking)

    async def _usage_of_month(self, month: str) -> dict[str, ByKey] | None:
        from redis.exceptions import RedisError

        client, days = self._client, dict[str, ByKey]()
        if client is None or not self._together:
            return None
        try:
            members = await client.srandmember(usages_of(month), MOST_USAGES)
            texts = [each.decode("ascii", "replace") for each in _each(members) if isinstance(each, bytes)]
            names = [text for text in texts if is_usage(text)]
            for start in range(0, len(names), _USAGES_AT_ONCE):
                pipeline = client.pipeline(transaction=False)
                some = names[start : start + _USAGES_AT_ONCE]
                for name in some:
                    pipeline.getrange(usage_entry(name), 0, LARGEST_ENTRY - 1)
                for name, entry in zip(some, await pipeline.execute(), strict=True):
                    if content := self._opened(usage_entry(name), entry):
                        day, keys = name.partition(" ")[0], content["keys"]
                        assert isinstance(keys, dict)
                        days[day] = sum_of([days.get(day, {}), by_key(keys)])
        except (RedisError, OSError, asyncio.TimeoutError):
            return None
        return days

    async def refresh(self) -> None:
        """Exchange everything now, but wait only for a moment."""
        await self._exchange_now(WAIT_S)

    async def _exchange_now(self, limit_s: float) -> bool:
        """Wait for an exchange that begins after this call. Return whether it came to an end in this time, and well."""
        if self._client is None or not self._together:
            return False
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
        self._wake.set()
        ended, _ = await asyncio.wait({self._asked}, timeout=limit_s)
        return bool(ended) and self._together

    async def _meet_all(self) -> bool:
        """Learn of each process that the store knows, also of one that just began. Return whether that went well."""
        until = time.monotonic() + MEET_LIMIT_S
        # The first exchange reads which processes there are, and the second one what those have told that are new.
        return await self._exchange_now(MEET_LIMIT_S) and await self._exchange_now(until - time.monotonic())

    def drain(self) -> None:
        """Tell the others that this process takes no more sessions."""
        self._drains = True
        self._wake.set()

    def close(self) -> None:
        """Leave the workers of this bridge nothing but what was used. The end of run() does so for other bridges."""
        self._workers.close()

    # The exchange.

    async def run(self) -> None:
        """Exchange everything again and again until cancelled. Then leave the others nothing but what was used."""
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        client: Redis = Redis.from_url(
            self._address,
            protocol=2,  # which every store speaks
            socket_timeout=LIMIT_S,
            socket_connect_timeout=LIMIT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._client = client
        try:
            while True:
                self._wake.clear()
                asked, self._asked = self._asked, None
                # A cancellation in the middle of it would be lost: redis-py takes it for the loss of its connection.
                exchange = asyncio.create_task(self._try_exchange(client))
                try:
                    await asyncio.shield(exchange)
                finally:
                    await exchange
                    if asked is not None:
                        asked.set_result(None)
                timer = asyncio.get_running_loop().call_later(EXCHANGE_S, self._wake.set)
                await self._wake.wait()
                timer.cancel()
                if self._asked is None:  # nobody waits
                    await asyncio.sleep(SOON_S)
        finally:
            self._client = None
            if self._asked is not None:  # whoever waits for an exchange need not wait any more
                self._asked.set_result(None)
                self._asked = None
            if self._asking:
                await asyncio.wait(self._asking)
            self._own.clear()
            self._drains = self._ended = True
            await self._try_exchange(client)
            await client.aclose()

    async def _try_exchange(self, client: Redis) -> None:
        from redis.exceptions import RedisError

        try:
            await self._exchange(client)
        except (RedisError, OSError, asyncio.TimeoutError) as error:
            if self._together or not self._complained:
                log.warning("bridges count alone, the store is away", reason=str(error) or "it does not answer")
            self._together, self._complained = False, True
        except Exception as error:  # a bug: the next exchange may go well, and sessions go on
            log.error("an exchange between bridges failed", error=type(error).__name__, detail=str(error))
            self._together = False
        else:
            if not self._together:
                self._written = {}  # it may have lost everything
                log.info("bridges count together", others=self.bridges.others)
            self._together, self._complained = True, False

    async def _exchange(self, client: Redis) -> None:
        """Write what this process has, and read what others have."""
        now = time.monotonic()
        with_audio = now - self._audio_at >= AUDIO_EVERY_S or self._ended
        own, inbox, claims = process_entry(self._place), claims_to(self.bridge, self._worker), list(self._claims)
        questions, replies_of_ours = questions_to(self.bridge, self._worker), list(self._answers)
        places = list(self._processes)
        # All of it is done or nothing, in one round trip.
        pipeline = client.pipeline(transaction=True)
        pipeline.set(own, self._seal.sign(own, self._content(now)), ex=_KEPT_S)
        pipeline.sadd(PROCESSES, self._place)
        pipeline.srandmember(PROCESSES, MOST_PROCESSES)
        pipeline.getrange(inbox, 0, LARGEST_INBOX - 1)
        pipeline.getrange(questions, 0, LARGEST_INBOX - 1)
        for place in places:
            pipeline.getrange(process_entry(place), 0, LARGEST_ENTRY - 1)
        if with_audio:
            for place in places:
                pipeline.getrange(audio_entry(place), 0, LARGEST_AUDIO - 1)
            if self._hour:
                own_audio = audio_entry(self._place)
                content: JsonObject = {"number": self._number, "hour": self._hour}
                pipeline.set(own_audio, self._seal.sign(own_audio, content), ex=_AUDIO_KEPT_S)
            days = self._days_to_write()
            for day, used in days.items():
                place = usage_entry(f"{day} {self._place}")
                pipeline.set(place, self._seal.sign(place, used), ex=_USAGE_KEPT_S)
                pipeline.sadd(usages_of(day[:7]), f"{day} {self._place}")
                pipeline.expire(usages_of(day[:7]), _USAGE_KEPT_S)
            written = {**self._written, **days}
        pipeline.delete(inbox, questions)
        for place, answer in replies_of_ours:
            pipeline.set(place, answer, ex=_ANSWER_KEPT_S)
        for place, claim in claims:
            pipeline.append(place, claim + b"\n")
            pipeline.expire(place, _CLAIM_KEPT_S)
        replies = await pipeline.execute(raise_on_error=False)
        if isinstance(replies[0], Exception):  # it may be read only, or full
            raise replies[0]
        for told in claims:  # unless further ones have pushed it out meanwhile
            self._claims.pop(told, None)
        del self._answers[: len(replies_of_ours)]
        entries = iter(replies[2:])
        names, letters, asked = next(entries), next(entries), next(entries)
        self._hear(inbox, letters)  # at once: they are in the store no more, and what follows may fail
        self._hear_questions(questions, asked)
        for place in places:
            self._take(place, next(entries), now)
        if with_audio:
            self._audio_at, self._written = now, written
            for place in places:
                self._take_audio(place, next(entries))
            await self._forget(client, now)
        if isinstance(names, Exception):  # somebody has put something else there
            await client.delete(PROCESSES)
        self._meet(names, now)
        self._sum(now)

    def _content(self, now: float) -> JsonObject:
        self._number += 1
        self._charged = {label: each for label, each in self._charged.items() if now - each[1] < 2 * _MINUTE_S}
        charges = {label: round(total, 6) for label, (total, _) in self._charged.items()}
        return {
            "number": self._number,
            "counts": self._own,
            "charges": charges,
            "drains": self._drains,
            "ended": self._ended,
        }

    def _days_to_write(self) -> dict[str, JsonObject]:
        """Return what keys used here on the days that the store does not have as they are."""
        # A day does not change any more when the next one has begun, except for what was not written before.
        days = [day for day in self._usage.days if day not in self._written] + sorted(self._usage.days)[-2:]
        used: dict[str, JsonObject] = {
            day: {"keys": {key: as_json(used) for key, used in self._usage.days[day].items()}} for day in days
        }
        return {day: each for day, each in used.items() if each != self._written.get(day)}

    def _meet(self, names: object, now: float) -> None:
        """Note which processes other bridges have. What they have is read in the next exchange."""
        for name in _each(names):
            place = name.decode("ascii", "replace") if isinstance(name, bytes) else ""
            unknown = is_place(place) and place not in self._processes and bridge_of_place(place) != self.bridge
            if unknown and len(self._processes) < MOST_PROCESSES:
                self._processes[place] = _Process(now, now - SILENT_S)
                self._wake.set()

    def _take(self, place: str, entry: object, now: float) -> None:
        content, process = self._opened(process_entry(place), entry), self._processes[place]
        if not content:
            return
        number, counts, charges = content["number"], content["counts"], content["charges"]
        assert isinstance(number, int)
        assert isinstance(counts, dict)
        assert isinstance(charges, dict)
        if number <= process.number:
            return
        for label, total in charges.items():
            before = process.charges.get(label, 0.0)
            self._charge(label, min(1.0, total - before if total >= before else total), now)
        process.number, process.fresh_at, process.drains = number, now, content["drains"] is True
        process.ended = content.get("ended") is True  # bridges before this one do not say it
        process.counts, process.charges = counts, charges

    def _take_audio(self, place: str, entry: object) -> None:
        content, process = self._opened(audio_entry(place), entry), self._processes[place]
        if not content:  # what was known stays for its hour, also if the store has lost it
            return
        number, hour = content["number"], content["hour"]
        assert isinstance(number, int)
        assert isinstance(hour, dict)
        if number > process.audio_number:
            process.audio_number = number
            process.audio = {key: [(start, seconds) for start, seconds in minutes] for key, minutes in hour.items()}

    def _charge(self, label: str, part: float, now: float) -> None:
        """Note that another bridge has used a part of a budget."""
        bucket = self._buckets.get(label)
        if bucket is None:
            if part > 0 and len(self._buckets) < _MOST_BUCKETS:
                self._buckets[label] = _Bucket(part, now)
        else:
            bucket.level, bucket.at = bucket.level_at(now) + part, now

    def _hear(self, inbox: str, letters: object) -> None:
        """Give up the sessions that other bridges have claimed."""
        # What follows the last line is cut off by the bound of what is read.
        for line in letters.split(b"\n", MOST_CLAIMS)[:-1] if isinstance(letters, bytes) else ():
            if content := self._opened(inbox, line):
                self._give_up(bytes.fromhex(str(content["token"])), str(content["key"]))

    def _hear_questions(self, inbox: str, letters: object) -> None:
        """Answer the questions of other bridges."""
        for line in letters.splitlines()[:_MOST_QUESTIONS] if isinstance(letters, bytes) else ():
            if content := self._opened(inbox, line):
                question, reply = content["question"], str(content["reply"])
                assert isinstance(question, dict)
                self._answers.append((reply, self._seal.sign(reply, self._answer(question))))
                self._wake.set()

    def _sum(self, now: float) -> None:
        others = self._others()
        self._number_of_bridges = 1 + len({bridge_of_place(place) for place, _ in others})
        self._counts = Counter()
        for _, process in others:
            self._counts.update(process.counts)
        self._buckets = {label: each for label, each in self._buckets.items() if each.level_at(now) > 0}

    def _others(self) -> list[tuple[str, _Process]]:
        """Return the processes of other bridges that live."""
        since = time.monotonic() - SILENT_S
        return [(place, process) for place, process in self._processes.items() if process.fresh_at > since]

    def _opened(self, place: str, entry: object) -> JsonObject | None:
        """Return the content of an entry. Nothing if it is missing, or if no bridge has signed it for this place."""
        if entry == b"":
            return None
        content = self._seal.open(place, entry) if isinstance(entry, bytes) else None
        if content is None:
            if not self._refused:
                log.error("the store has an entry that no bridge has signed with this secret, it is ignored")
            self._refused += 1
        return content

    async def _forget(self, client: Redis, now: float) -> None:
        """Forget processes of which nothing is left."""
        hour = time.time() - 3600
        gone = [
            place
            for place, process in self._processes.items()
            if now - max(process.met_at, process.fresh_at) > _KEPT_S
            and not any(minutes[-1][0] > hour for minutes in process.audio.values() if minutes)
        ]
        if gone:
            await client.srem(PROCESSES, *gone)
            for place in gone:
                del self._processes[place]


def _each(members: object) -> Iterable[object]:
    """Return the members of a set of the store; none if there is something else."""
    return members if isinstance(members, (list, set)) else ()
