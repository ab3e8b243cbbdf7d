"""An attack: hostile data, the service that gets it, and the promises that the service must keep nevertheless."""

from __future__ import annotations

import asyncio
import json
import random
import string
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from streamer.base.address import PATH
from workshop.attack.raw_connection import CUT_OFF, TEXT, Ended, RawConnection, frame

STRIKE_LIMIT_S = 60.0
# The codes with which a websocket may be closed. 1002: an invalid frame. 1011 means a failure in the service.
CLOSES = (None, 1000, 1002, 1003, 1005, 1007, 1008, 1009, 1013, 4000, 4001, 4008, 4010, 4029)
SPEECHMATICS_CLOSES = (4004, 4005, 4006, 4013)
# In foreign formats 1011 has other reasons too.
RIGHT_REASONS = ("NET-0001", "the client did not read")


class PromiseBroken(Exception):
    """The service broke a promise. The message is a sentence that says which one."""


class RecogniserFailed(Exception):
    """A session ended because its recogniser failed. That is right only if a fault was caused on purpose."""


@dataclass
class Strike:
    """The result of one run of an attack: the number of hostile inputs, and the answers of the service."""

    inputs: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, answer: str, inputs: int = 1) -> None:
        """Count this answer to this many inputs."""
        self.inputs += inputs
        self.answers[answer] += 1


@dataclass(frozen=True)
class Attack:
    """One way to attack. `strike` raises PromiseBroken; a connection that is cut off is not a broken promise."""

    name: str
    family: str
    strike: Callable[[Target, random.Random], Awaitable[Strike]]
    weight: int = 1  # how often it is chosen, relative to the others
    # Seconds between two runs, for attacks that affect every client while they last; 0: whenever it is chosen.
    every_s: float = 0.0
    limit_s: float = STRIKE_LIMIT_S  # every wait of the service has a limit, so a longer strike is a broken promise


async def at_once(number: int, act: Callable[[int], Awaitable[str]]) -> Strike:
    """Send this many inputs at the same time, and count their answers."""

    async def one(index: int) -> str:
        try:
            return await act(index)
        except CUT_OFF:
            return "cut off"

    strike = Strike()
    for answer in await asyncio.gather(*map(one, range(number))):
        strike.add(answer)
    return strike


async def unread(connection: RawConnection, content: bytes, enough: int, what: str) -> Strike:
    """Send `content` without end, and read nothing. The service must stop reading, so that it keeps little."""
    try:
        sent = await connection.stuff(content, enough, quiet_s=2.0)
    finally:
        connection.reset()
    if sent >= enough:
        raise PromiseBroken(f"the service read {what} without end from a client that reads nothing")
    strike = Strike()
    strike.add("read no further", max(1, sent // len(content)))
    return strike


async def leave(target: Target, rng: random.Random, content: bytes) -> str:
    """Send a part of `content`, which begins with a request, and go away at any point."""
    connection = await target.connect()
    try:
        await connection.send(content[: rng.randrange(len(content))])
        await connection.over(rng.random())
    finally:
        (connection.reset if rng.random() < 0.5 else connection.abort)()
    return "went away"


def judged(ended: Ended, sent: bytes) -> str:
    """Return the end of a websocket over which `sent` was sent, as a word. Raises PromiseBroken or RecogniserFailed."""
    last = ended.events[-1] if ended.events else {}
    message = str(last.get("message")) if ended.error == "failed" else ended.reason
    if "recogniser failed" in message or "recogniser failed" in str(last.get("reason")):
        raise RecogniserFailed
    if ended.code == 1011 and ended.reason.startswith(RIGHT_REASONS):
        return ended.reason
    closes = CLOSES if last.get("message") != "Error" else (*CLOSES, *SPEECHMATICS_CLOSES)
    if not (ended.code in closes or _is_echo(ended.code or 0, sent)) or ended.error in ("failed", "internal"):
        why = ended.error or ended.reason or "without a reason"
        raise PromiseBroken(f"{sent[:200]!r} was closed with {ended.code}, {why}")
    return ended.error or ("cut off" if ended.code is None else f"close {ended.code}")


def _is_echo(code: int, sent: bytes) -> bool:
    """Return whether a code that the service never uses is an echo of the attacker's own, as websockets want it."""
    return 3000 <= code < 4000 or (4000 <= code < 5000 and code.to_bytes(2, "big") in sent)


def refused(event: Mapping[str, object]) -> Strike:
    """Return the result if the session to attack was refused."""
    strike = Strike()
    strike.add(str(event.get("code")))
    return strike


# The service under attack, as attackers know it: its address, a key, tokens of others, and its processes.

DISTURBED_S = 20.0  # words may be late for so long; none may be lost


@dataclass
class Target:
    """A service under attack. `hostile_key` is a valid key that the attackers own, `other_key` that of the others."""

    host: str
    port: int
    hostile_key: str
    tls_port: int = 0
    grpc_port: int = 0
    other_key: str = ""
    # The tokens of other clients' sessions, which a real attacker should not know.
    tokens: deque[str] = field(default_factory=lambda: deque(maxlen=64))
    model_processes: Callable[[], list[int]] = list
    reader_processes: Callable[[], list[int]] = list
    triton: Callable[[], int | None] = lambda: None
    bridge: Callable[[], int | None] = lambda: None
    disturbed: list[tuple[float, float]] = field(default_factory=list)  # the times in which a fault may delay words

    def disturb(self, seconds: float = DISTURBED_S) -> None:
        """Note that a fault was caused on purpose: the words of others may be late for this long."""
        now = time.monotonic()
        self.disturbed.append((now, now + seconds))

    def was_disturbed(self, since: float, until: float) -> bool:
        """Return whether a fault was noted between these times."""
        return any(began <= until and since <= over for began, over in self.disturbed)

    async def connect(self, *, tls: bool = False) -> RawConnection:
        """Open a connection without sending anything. With `tls` it goes to the port with TLS, without a handshake."""
        return await RawConnection.open(self.host, self.tls_port if tls else self.port)

    def request(self, path: str = PATH, key: str | None = None, *fields: str) -> bytes:
        """Return the bytes of a request for a websocket."""
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
            "Sec-WebSocket-Version: 13",
            *([f"Authorization: Bearer {self.hostile_key if key is None else key}"] if key != "" else []),
            *fields,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    async def websocket(self, key: str | None = None, path: str = PATH) -> RawConnection:
        """Open a websocket, by default one of the native protocol without starting a session."""
        connection = await self.connect()
        try:
            await connection.send(self.request(path, key))
            status, _ = await connection.head()
            if status != 101:
                raise ConnectionResetError(f"HTTP {status}")
        except BaseException:
            connection.abort()
            raise
        return connection

    async def session(self, **options: Any) -> tuple[RawConnection, dict[str, Any]]:
        """Open a websocket and start a session. Returns its first event: `ready`, or the reason for a refusal."""
        connection = await self.websocket()
        with suppress(*CUT_OFF):
            await connection.send(start(**options))
            event = await connection.event()
            if event is not None:
                return connection, event
        connection.abort()
        raise ConnectionResetError("no session")


def start(**options: Any) -> bytes:
    """Return the frame that starts a session."""
    return text({"type": "start", **options})


def text(message: Any) -> bytes:
    """Return a text frame with this message."""
    return frame(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())


# Makes hostile data: damaged bytes, and JSON with values that are too large, too deep or of the wrong type.

# The depth at which the parser itself gives up is in this range, for each version of Python and each depth of calls.
DEPTHS: Final = (9, 100, 900, 960, 972, 973, 974, 985, 989, 990, 991, 992, 1000, 20_000)
LONG: Final = "a" * 60_000
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "\ud800",
    "\0",
    LONG,
    [],
    [[]],
    {},
    {"": ""},
    ["\u202e"],
)
_NOT_JSON: Final = (
    "",
    "null",
    "1" * 5000,
    "-" * 60_000,
    "NaN",
    "\ufeff{}",
    " " * 60_000,
    '"' + "\\u0000" * 1000 + '"',
    '{"type":' * 1000,
    '{"type":"a","type":"b"}',
    '{"type":"\\ud800\\udfff\\ud800"}',
    "{" + ",".join(f'"{number}":0' for number in range(8000)) + "}",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some bytes changed, left out, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(changed) + 1)
        length = rng.choice((0, 1, 1, 4, 30))
        put = rng.choice((b"", rng.randbytes(rng.randrange(4)), bytes(changed[place : place + length]) * 2, b"\r\n"))
        changed[place : place + length] = put
    return bytes(changed)


def nested_json(rng: random.Random) -> tuple[int, str]:
    """Return lists or objects within each other, about as deep as the parser can read: the depth, and the text."""
    depth, (opening, closing) = rng.choice(DEPTHS) + rng.randrange(3), rng.choice((("[", "]"), ('{"a":', "}")))
    return depth, opening * depth + "1" + closing * depth


def wild_json(rng: random.Random, types: Sequence[str], fields: Sequence[str]) -> str:
    """Return the text of a message that nearly has one of these types and these fields, or any other text."""
    how = rng.random()
    if how < 0.15:
        return rng.choice(_NOT_JSON)
    if how < 0.25:
        return "".join(rng.choice(string.printable) for _ in range(rng.randrange(300)))
    if how < 0.4:
        value = nested_json(rng)[1]
        return rng.choice(
            (value, f'{{"type":{value}}}', f'{{"type":"{rng.choice(types)}","{rng.choice(fields)}":{value}}}')
        )
    message: dict[str, Any] = {"type": rng.choice(types) if rng.random() < 0.8 else wild_value(rng)}
    message.update({rng.choice(fields): wild_value(rng, fields) for _ in range(rng.randrange(3))})
    text = json.dumps(message)
    return text[: rng.randrange(len(text))] if how > 0.95 else text


def wild_value(rng: random.Random, fields: Sequence[str] = (), depth: int = 3) -> Any:
    """Return an odd value, or an object or a list of such values, with these names in it."""
    if fields and depth and rng.random() < 0.4:
        return {rng.choice(fields): wild_value(rng, fields, depth - 1) for _ in range(rng.randrange(1, 4))}
    if depth and rng.random() < 0.1:
        return [wild_value(rng, fields, depth - 1) for _ in range(rng.randrange(4))]
    value = rng.choice(ODD)
    return value if value != LONG or rng.random() < 0.1 else "a"
