"""What a process of the bridge knows of the others: what they count, and which of them has a session.

There are three kinds of others. `Alone` is that of a service in one process: there are none, and nothing is asked or
written. `Share` has the workers of one machine, and `Store` the bridges of several machines, each of which may have
workers. All the rest of the bridge knows only `Others`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Final, NamedTuple, Protocol

from streamer.base.json_types import JsonObject
from streamer.bridge.telemetry.usage import ByKey, HourOfAudio


class Counted(Enum):
    """What workers count together."""

    SLOTS = "slots"  # by public name of the model
    SESSIONS = "sessions"
    OF_KEY = "of key"  # sessions by the name of the key
    OF_NETWORK = "of network"  # sessions by the network of the address
    LISTENERS = "listeners"  # of sessions that are shared
    UPLOADS = "uploads"  # recordings that are being decoded
    STARTS = "starts"  # of worker processes


class BucketState(NamedTuple):
    """How much of a budget for hotwords is used, and since when (time.monotonic(), which all workers share)."""

    level: float  # 1 is the whole budget of a minute
    level_at: float
    lists: Sequence[bytes]


class KeptKey(NamedTuple):
    """A key for a short time as it is kept, by the digest of its secret."""

    holder: str
    holder_digest: bytes
    expires_at: float
    content: str


class Bridges(NamedTuple):
    """What is known of the other bridges."""

    together: bool  # whether this bridge counts together with them now
    others: int  # that could take its sessions
    refused: int  # entries of the store that were not signed by a bridge, since the start


class Beyond(NamedTuple):
    """What the processes of other bridges answer, and a sentence for each that does not."""

    answers: list[JsonObject]
    problems: list[str]


# Answers a question of an operator, whom another bridge asks for, with what this process has.
AnswerQuestion = Callable[[JsonObject], JsonObject]
# Gives up a session, because another bridge goes on with it: the hash of its token, and the name of its key.
GiveUp = Callable[[bytes, str], None]


class Others(Protocol):
    """The others. Only what is asynchronous waits for one of them, and never on the way of a chunk."""

    @property
    def salt(self) -> bytes:
        """The secret of the pseudonyms of callers, the same at each of them; empty if there are no others."""

    @property
    def bridge(self) -> str:
        """A name of this bridge, all its workers together, among other bridges; empty if there are none."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Let no other worker count inside this block. It must not wait for anything."""

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return how many of these the others have. If that is not known, they have their part of `most`."""

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Tell the others how many of these this worker has."""

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return how much of a budget all workers have used; None if nothing."""

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Tell the others how much of a budget is used."""

    def settle(self, usage: ByKey, hour: HourOfAudio) -> None:
        """Tell the others what was used since the last call. `hour`: the audio that this process received."""

    def audio_of_others(self) -> HourOfAudio:
        """Return the audio of the last hour that others received, by key."""

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Make a key for a short time valid at each worker."""

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Return the key for a short time with this digest."""

    def keys(self, now: float) -> list[tuple[str, float]]:
        """Return the holders and the ends of all keys for a short time, and forget those that have ended."""

    @property
    def bridges(self) -> Bridges | None:
        """What is known of other bridges; None if there cannot be any."""

    async def run(self) -> None:
        """Exchange everything with other bridges until cancelled, if there may be any."""

    async def refresh(self) -> None:
        """Learn now, if that is quick, whether another bridge goes on with a session of this one."""

    async def claim(self, token: str, digest: bytes, key: str) -> None:
        """Tell the bridge that has the session of this token to give it up: its client goes on here."""

    def on_claim(self, give_up: GiveUp) -> None:
        """Call this whenever another bridge goes on with a session."""

    async def ask(self, question: JsonObject) -> Beyond:
        """Ask all processes of other bridges, for an operator. This may take some seconds."""

    def on_question(self, answer: AnswerQuestion) -> None:
        """Call this whenever another bridge asks for an operator."""

    async def usage_of_month(self, month: str) -> dict[str, ByKey] | None:
        """Return what keys used at all bridges on each day of a month such as 2026-11; None if nobody knows it now."""

    def drain(self) -> None:
        """Tell the others that this process takes no more sessions."""

    def close(self) -> None:
        """Leave the others nothing but what was used."""


class OneBridge:
    """The part of `Others` that is about other bridges, where there are none."""

    bridge = ""
    bridges: Bridges | None = None

    async def run(self) -> None:
        """Do nothing."""

    async def refresh(self) -> None:
        """Do nothing."""

    async def claim(self, token: str, digest: bytes, key: str) -> None:
        """Do nothing."""

    def on_claim(self, give_up: GiveUp) -> None:
        """Do nothing."""

    async def ask(self, question: JsonObject) -> Beyond:
        """Return nothing."""
        return Beyond([], [])

    def on_question(self, answer: AnswerQuestion) -> None:
        """Do nothing."""

    async def usage_of_month(self, month: str) -> dict[str, ByKey] | None:
        """Return None."""
        return None

    def drain(self) -> None:
        """Do nothing."""


class Alone(OneBridge):
    """The others of a service in one process."""

    salt = b""

    def __init__(self) -> None:
        self._keys: dict[bytes, KeptKey] = {}

    def exclusive(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return 0."""
        return 0

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Do nothing."""

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return None, because the budget is kept where it is used."""
        return None

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Do nothing."""

    def settle(self, usage: ByKey, hour: HourOfAudio) -> None:
        """Do nothing."""

    def audio_of_others(self) -> HourOfAudio:
        """Return nothing."""
        return {}

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Keep it in memory."""
        self._keys[digest] = key

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Look for it in memory."""
        return self._keys.get(digest)

    def keys(self, now: float) -> list[tuple[str, float]]:
        """List those in memory."""
        self._keys = {digest: key for digest, key in self._keys.items() if now < key.expires_at}
        return [(key.holder, key.expires_at) for key in self._keys.values()]

    def close(self) -> None:
        """Do nothing."""


# Names of sessions and of links that listeners have begin with the number of the worker that made them, and names of
# sessions with the bridge before that, if there are several.

_BEHIND: Final = "-"
_BEHIND_BRIDGE: Final = "."


def mark(number: int, name: str) -> str:
    """Return this name with the number of its worker; 0 for the only one, which needs none."""
    return f"{number}{_BEHIND}{name}" if number else name


def token_of(bridge: str, worker: int, secret: str) -> str:
    """Return the token of a session, with the bridge and the worker that have it."""
    return f"{bridge}{_BEHIND_BRIDGE}{mark(worker, secret)}" if bridge else mark(worker, secret)


def bridge_of(token: str) -> str:
    """Return the bridge that has the session of this token; empty if there is only one."""
    return token.rpartition(_BEHIND_BRIDGE)[0]


def worker_of(name: str) -> int:
    """Return the number of the worker that marked this name; 0 if none did."""
    number = name.rpartition(_BEHIND_BRIDGE)[2].partition(_BEHIND)[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 4 else 0
