"""How much of the service one caller may use: sessions, audio, hotwords, and the sizes and number of uploads."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from streamer.base.codes import Code, ErrorCode
from streamer.base.limits import HOTWORDS_PER_ADDRESS, HOTWORDS_PER_KEY, LARGEST_UPLOAD, LONGEST_UPLOAD_S, MOST_UPLOADS
from streamer.base.text import counted
from streamer.bridge.telemetry.usage import HourOfAudio
from streamer.bridge.workers.others import Alone, BucketState, Counted, Others
from streamer.wire.errors import CloseCode

# How long a caller is told to wait before it tries again.
RETRY_S = 5
HOUR_S = 3600.0
# Audio is counted by the minute. So the hour is exact to a minute, and a key costs at most 60 numbers.
_MINUTE_S = 60.0


class Denied(Exception):
    """A refusal: a code word, a sentence, after how many seconds to try again, if waiting helps, and the key's name."""

    def __init__(self, code: ErrorCode, message: str, retry_s: int = 0, key: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_s = retry_s
        self.key = key

    @property
    def close_code(self) -> CloseCode:
        """The close code for a websocket."""
        return CloseCode.TRY_LATER if self.retry_s else CloseCode.REFUSED

    @property
    def status(self) -> HTTPStatus:
        """The status for a plain HTTP request."""
        if self.retry_s:
            return HTTPStatus.TOO_MANY_REQUESTS
        return HTTPStatus.UNAUTHORIZED if self.code is ErrorCode.UNAUTHORIZED else HTTPStatus.FORBIDDEN

    @property
    def reason(self) -> str:
        """The reason within the close frame."""
        short = self.code.replace("_", " ")
        return f"{short}: try again in {self.retry_s} s" if self.retry_s else short


@dataclass(frozen=True)
class Caller:
    """A caller: an address, and the name of a key if keys are required."""

    address: str
    key: str = ""


@dataclass(frozen=True)
class QuotaLimits:
    """The most that one caller may use. None means no limit."""

    per_key: int | None = None
    per_address: int | None = None
    audio_per_key_s: float | None = None
    hotwords_per_key: int | None = HOTWORDS_PER_KEY  # characters in a minute
    hotwords_per_address: int | None = HOTWORDS_PER_ADDRESS


class Quotas:
    """Counts what callers use, and refuses what is more than the limits. It forgets callers that use nothing."""

    def __init__(self, limits: QuotaLimits, others: Others | None = None) -> None:
        """`others`: the other workers, whose callers count as well."""
        self.limits = limits
        self._others = others or Alone()
        self._of_keys: Counter[str] = Counter()
        self._of_networks: Counter[str] = Counter()
        self._audio: dict[str, _Audio] = {}
        self._audio_of_others: dict[str, _Audio] = {}
        self._hotwords_of_keys = PreparationBudget(limits.hotwords_per_key)
        per_address = limits.hotwords_per_address
        self._hotwords_of_networks = [
            PreparationBudget(None if per_address is None else per_address * shares) for _, shares in _NETWORKS
        ]
        self._salt = self._others.salt or secrets.token_bytes(16)
        self._to_unix_s = time.time() - time.monotonic()  # once: a clock that is set would move all audio

    def check(self, caller: Caller) -> None:
        """Raise Denied if this caller may not open a session now."""
        limits = self.limits
        for network, shares in () if limits.per_address is None else networks_of(caller.address):
            most = (limits.per_address or 0) * shares
            if self._of_networks[network] + self._others.count(Counted.OF_NETWORK, network, most) >= most:
                who = "This address" if shares == 1 else f"The network {network}"
                message = f"{who} already has {counted(most, 'session')}, the maximum; end one first."
                raise Denied(ErrorCode.TOO_MANY_SESSIONS, message, RETRY_S, caller.key)
        if not caller.key:
            return
        if limits.per_key is not None and self.sessions_of(caller.key, limits.per_key) >= limits.per_key:
            message = f"This key already has {counted(limits.per_key, 'session')}, the maximum; end one first."
            raise Denied(ErrorCode.TOO_MANY_SESSIONS, message, RETRY_S, caller.key)
        if (denied := self._overdrawn(caller)) is not None:
            raise denied

    def enter(self, caller: Caller) -> Admittance:
        """Count a new session of this caller, or raise Denied if it is one too many. Call leave() when it ends."""
        with self._others.exclusive():
            self.check(caller)
            self._count(caller, 1)
        return Admittance(self, caller)

    def sessions_of(self, key: str, most: int = 0) -> int:
        """Return how many sessions this key has. `most`: its limit, of which a worker has a part if it counts alone."""
        return self._of_keys[key] + self._others.count(Counted.OF_KEY, key, most)

    def leave(self, caller: Caller) -> None:
        """Count that a session of this caller has ended."""
        self._count(caller, -1)

    def _count(self, caller: Caller, number: int) -> None:
        """Add this number to the sessions of a caller."""
        names = [(Counted.OF_NETWORK, self._of_networks, network) for network, _ in networks_of(caller.address)]
        for kind, sessions, name in (*names, (Counted.OF_KEY, self._of_keys, caller.key)):
            sessions[name] += number
            self._others.note(kind, name, sessions[name])
            if not sessions[name]:
                del sessions[name]

    def charge(self, caller: Caller, seconds: float) -> Denied | None:
        """Count audio from this caller. Return the refusal if it may send no more for now."""
        if self.limits.audio_per_key_s is None or not caller.key:
            return None
        self._audio.setdefault(caller.key, _Audio()).add(seconds, time.monotonic())
        return self._overdrawn(caller)

    def audio_of_hour(self) -> HourOfAudio:
        """Return the audio of the last hour by key, which another process can restore."""
        now, to_unix_s = time.monotonic(), self._to_unix_s
        hours = {
            key: [(round(start + to_unix_s, 3), round(seconds, 3)) for start, seconds in audio.minutes(now)]
            for key, audio in self._audio.items()
        }
        return {key: minutes for key, minutes in hours.items() if minutes}

    def restore_audio(self, hour: HourOfAudio) -> None:
        """Count audio that an earlier process received."""
        now, passed_s = time.monotonic(), time.time() - time.monotonic()
        for key, minutes in hour.items():
            audio = self._audio.setdefault(key, _Audio())
            for start, seconds in sorted(minutes):
                audio.restore(start - passed_s, seconds, now)

    def take_audio_of_others(self, hour: HourOfAudio) -> None:
        """Count the audio that other workers have received, in place of what was known of it before."""
        now, passed_s = time.monotonic(), time.time() - time.monotonic()
        self._audio_of_others = {}
        for key, minutes in hour.items():
            audio = self._audio_of_others[key] = _Audio()
            for start, seconds in sorted(minutes):
                audio.restore(start - passed_s, seconds, now)

    def prepare(self, caller: Caller, preparation: Preparation) -> Denied | None:
        """Count a preparation for this caller. If it is too much for now, count nothing and return the refusal."""
        budgets = [
            ("address" if shares == 1 else f"network {network}", _NETWORK, self._hotwords_of_networks[place], network)
            for place, (network, shares) in enumerate(networks_of(caller.address))
        ]
        if caller.key:
            budgets.append(("key", _KEY, self._hotwords_of_keys, caller.key))
        now = time.monotonic()
        with self._others.exclusive():
            for _, whose, budget, name in budgets:
                budget.restore(name, self._others.bucket(whose, name))
            wait, kind, most = max(
                (budget.wait_s(name, preparation, now), kind, budget.per_minute or 0)
                for kind, _, budget, name in budgets
            )
            for _, whose, budget, name in () if wait else budgets:
                budget.charge(name, preparation, now)
                if (state := budget.state(name)) is not None:
                    self._others.keep_bucket(whose, name, state)
        if wait:
            message = (
                f"This {kind} may use at most {most} characters of hotwords in a minute; "
                f"try again in {wait} s, or open a session without 'hotwords'."
            )
            return Denied(ErrorCode.HOTWORDS_USED_UP, message, wait)
        return None

    def pseudonym(self, caller: Caller) -> str:
        """Return a pseudonym of this caller that does not reveal its key or address."""
        name = f"key {caller.key}" if caller.key else f"address {network_of(caller.address)}"
        return hashlib.blake2b(name.encode("utf-8", "replace"), key=self._salt, digest_size=8).hexdigest()

    def _overdrawn(self, caller: Caller) -> Denied | None:
        most, now = self.limits.audio_per_key_s, time.monotonic()
        parts = [hours[caller.key] for hours in (self._audio, self._audio_of_others) if caller.key in hours]
        totals = [part.total(now) for part in parts]
        if most is None or not any(totals) or sum(totals) < most:
            return None
        wait = min(part.seconds_until_less(now) for part, total in zip(parts, totals, strict=True) if total)
        message = f"This key has sent {most:g} s of audio, the maximum for an hour; continue in {wait} s."
        return Denied(ErrorCode.AUDIO_USED_UP, message, wait, caller.key)


class Admittance:
    """One session of a caller."""

    def __init__(self, quotas: Quotas, caller: Caller) -> None:
        self.caller = caller
        self._quotas = quotas

    def charge(self, seconds: float) -> Denied | None:
        """Count received audio. Return the refusal if the caller may send no more for now."""
        return self._quotas.charge(self.caller, seconds)

    def prepare(self, hotwords: Sequence[str], streams: int) -> Denied | None:
        """Count these hotwords, once for each stream. Return the refusal if they are too many for now."""
        return self._quotas.prepare(self.caller, Preparation.of(hotwords, streams))

    @property
    def pseudonym(self) -> str:
        """A name of the caller for the recogniser, which needs to know which streams have the same caller."""
        return self._quotas.pseudonym(self.caller)

    def lend(self) -> Admittance:
        """Return the admittance for one of several sessions in a row. Together they count as one session."""
        return _Part(self._quotas, self.caller)

    def leave(self) -> None:
        """Note that the session has ended. Call this once."""
        self._quotas.leave(self.caller)


class _Part(Admittance):
    """One of several sessions in a row. The admittance of all of them stays."""

    def leave(self) -> None:
        """Do nothing, because the caller may open its next session."""


class _Audio:
    """The seconds of audio of the last hour."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[float, float]] = deque()  # the start of each minute, and its seconds of audio

    def add(self, seconds: float, now: float) -> None:
        minute = now - now % _MINUTE_S
        if self._minutes and self._minutes[-1][0] == minute:
            seconds += self._minutes.pop()[1]
        self._minutes.append((minute, seconds))
        self.total(now)

    def restore(self, start: float, seconds: float, now: float) -> None:
        # The clock may have been set back since: then the audio counts as new, and not for longer than an hour.
        self._minutes.append((min(start, now - now % _MINUTE_S), seconds))

    def minutes(self, now: float) -> list[tuple[float, float]]:
        self.total(now)
        return list(self._minutes)

    def total(self, now: float) -> float:
        while self._minutes and now - self._minutes[0][0] >= HOUR_S:
            self._minutes.popleft()
        return sum(seconds for _, seconds in self._minutes)

    def seconds_until_less(self, now: float) -> int:
        """Return the seconds until the oldest audio is more than an hour old."""
        return max(1, math.ceil(self._minutes[0][0] + HOUR_S - now))


# Who has one IPv6 address has 2**64 of them, and often many such networks: a household has up to 256 (56 bits), a site
# up to 65536 (48 bits). So larger networks have a limit, too: this many times that of a single address.
_NETWORKS: Final = ((64, 1), (56, 4), (48, 16))


def networks_of(address: str) -> list[tuple[str, int]]:
    """Return the networks that count for this address, each with its share of the limits for one address.

    The first is the one that counts as one address: for IPv6 the 64-bit network of a household or machine.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return [(address, 1)]
    if ip.version == 4:
        return [(address, 1)]
    return [(str(ipaddress.ip_network((ip, bits), strict=False)), shares) for bits, shares in _NETWORKS]


def network_of(address: str) -> str:
    """Return the network that counts as one address."""
    return networks_of(address)[0][0]


# Limits how many hotwords one caller may use in a minute: a leaky bucket, which its sessions fill.

_KEY, _NETWORK = "key", "network"  # whose bucket it is, for other workers

MINUTE_S = 60.0
# The recogniser remembers pronunciations for each caller. Compiling the same list again takes this part of the time.
_REPEAT_COST = 0.25
_LISTS_PER_CALLER = 8  # that the recogniser remembers
MOST_BUCKETS = 4096  # for the callers that used hotwords most recently


@dataclass(frozen=True)
class Preparation:
    """What has to be prepared for one session."""

    characters: int
    streams: int
    list_id: bytes

    @classmethod
    def of(cls, hotwords: Sequence[str], streams: int) -> Preparation:
        """Return the preparation of a session with these hotwords in each of its streams."""
        digest = hashlib.blake2b("\n".join(hotwords).encode("utf-8", "replace"), digest_size=16).digest()
        return cls(sum(map(len, hotwords)), streams, digest)


@dataclass
class _Bucket:
    level: float = 0.0
    level_at: float = 0.0  # when it had this level
    lists: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LISTS_PER_CALLER))


class PreparationBudget:
    """The buckets of all callers of one kind: of keys, or of addresses."""

    def __init__(self, per_minute: int | None) -> None:
        """`per_minute`: characters, and also the size of a bucket. None means no limit."""
        self.per_minute = per_minute
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()  # the most recently used bucket is last

    def wait_s(self, name: str, preparation: Preparation, now: float) -> int:
        """Return after how many seconds the caller may have this preparation; 0 means now."""
        if self.per_minute is None or not preparation.characters or name not in self._buckets:
            return 0
        bucket = self._buckets[name]
        level, cost = self._level(bucket, now), self._cost(bucket, preparation)
        # A preparation that is larger than the whole bucket is allowed when the bucket is empty.
        excess = min(level, level + cost - self.per_minute)
        return max(0, math.ceil(excess * MINUTE_S / self.per_minute))

    def state(self, name: str) -> BucketState | None:
        """Return the state of a caller's bucket; None if there is none."""
        bucket = self._buckets.get(name)
        if bucket is None or self.per_minute is None:
            return None
        return BucketState(bucket.level / self.per_minute, bucket.level_at, list(bucket.lists))

    def restore(self, name: str, state: BucketState | None) -> None:
        """Take the state of a caller's bucket from the others, if there is one."""
        if state is not None and self.per_minute is not None:
            bucket = self._buckets.setdefault(name, _Bucket())
            bucket.level, bucket.level_at = state.level * self.per_minute, state.level_at
            bucket.lists = deque(state.lists, maxlen=_LISTS_PER_CALLER)

    def charge(self, name: str, preparation: Preparation, now: float) -> None:
        """Count a preparation that is about to happen."""
        if self.per_minute is None or not preparation.characters:
            return
        bucket = self._buckets.setdefault(name, _Bucket())
        self._buckets.move_to_end(name)
        bucket.level = self._level(bucket, now) + self._cost(bucket, preparation)
        bucket.level_at = now
        if preparation.list_id not in bucket.lists:
            bucket.lists.append(preparation.list_id)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)

    def _level(self, bucket: _Bucket, now: float) -> float:
        return max(0.0, bucket.level - (now - bucket.level_at) * (self.per_minute or 0) / MINUTE_S)

    def _cost(self, bucket: _Bucket, preparation: Preparation) -> float:
        first = _REPEAT_COST if preparation.list_id in bucket.lists else 1.0
        return preparation.characters * (first + _REPEAT_COST * (preparation.streams - 1))


# How large and how long one uploaded recording may be, how many there may be at a time, and what may be fetched.

# An upload may take this much longer than its recording, because it may wait for a busy service.
_EXTRA_S = 600.0
# The processor time of a decoder: a minimum, and the seconds of audio for each further second. Even the slowest formats
# are decoded a hundred times faster than they play.
_LEAST_CPU_S, _AUDIO_S_PER_CPU_S = 30, 20


class Fetch(Code):
    """From where the service fetches a recording for a client that names its address."""

    OFF = "off"  # from nowhere
    PUBLIC = "public"  # from the internet
    ANY = "any"  # also from this machine and its network


@dataclass(frozen=True)
class UploadLimits:
    """The limits of uploads."""

    largest: int = LARGEST_UPLOAD  # bytes of a body
    longest_s: float = LONGEST_UPLOAD_S  # of audio
    most: int = MOST_UPLOADS  # at a time
    fetch: Fetch = Fetch.OFF

    @property
    def cpu_s(self) -> int:
        """The processor time that a decoder may use."""
        return _LEAST_CPU_S + round(self.longest_s / _AUDIO_S_PER_CPU_S)

    @property
    def request_s(self) -> float:
        """The time that a request may take altogether. Speech may be sent as it is spoken."""
        return self.longest_s + _EXTRA_S
