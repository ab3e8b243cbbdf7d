"""The service is killed during speech and started again at the same address. Each user sees one session."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streamer.base.transcript import Transcript
from streamer.bridge.triton.server import TritonServer
from streamer.client import Session, connect, transcribe
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import WORDS
from tests.command_run import Said
from tests.serve_process import RestartableService
from tests.shared_servers import serving

if TYPE_CHECKING:
    from streamer.bridge.service import Service

Event = dict[str, Any]
SECOND = 32_000  # bytes
PATIENCE_S = 60.0
# For an exact model: the pause ends a segment, and every third second ends with a letter.
TALK = np.concatenate(
    [
        say("this change came about from"),
        silence(1560),
        say("an adventure of mine we had together there had been another black frost the night before"),
    ]
).tobytes()[: 12 * SECOND + SECOND // 2]
# This much audio is given before the service is killed. The recognised part ends within a segment.
BEFORE_S, HEARD_MS = 9, 8_000
STEREO = {"channels": 2, "multichannel": True}
# Segments of the greatest length end in the middle of a sentence.
WRITTEN: dict[str, Any] = {"written": True, "endpoint": {"longest_ms": 6000}}


def beside(first: bytes, second: bytes) -> bytes:
    """Two channels. The second one begins a little later."""
    late = np.concatenate([np.zeros(24_000, "<i2"), np.frombuffer(second, "<i2")])
    left = np.frombuffer(first, "<i2")[: len(late)]
    return np.stack([left, np.resize(late, len(left))], 1).tobytes()


BOTH = beside(TALK, np.concatenate([say(WORDS[0]), silence(2000), say("the rest of it")]).tobytes())


@dataclass
class Gate:
    """Clients wait here at some point until the service was killed."""

    expected: int
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    full: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        self.expected -= 1
        if self.expected == 0:
            self.full.set()
        await self.opened.wait()


async def told(session: Session, events: list[Event], until: Callable[[Event], bool] = lambda event: False) -> None:
    """Read events up to one that fulfils the condition, or to the end."""
    async for event in session:
        events.append(dict(event))
        if until(events[-1]):
            return


def has_heard(milliseconds: int) -> Callable[[Event], bool]:
    return lambda event: bool(event.get("audio_ms", 0) >= milliseconds)


async def speak(url: str, gate: Gate, audio: bytes = TALK, **options: Any) -> list[Event]:
    """All events of an asynchronous client. The service is killed in the middle of the recording."""
    events: list[Event] = []
    before = BEFORE_S * SECOND * options.get("channels", 1)
    async with connect(url, options) as session:
        await session.send(audio[:before])
        await told(session, events, has_heard(HEARD_MS))
        reading = asyncio.create_task(told(session, events))
        await gate.wait()
        await session.send(audio[before:])
        await session.stop()
        await reading
    return events


async def flush(url: str, gate: Gate) -> list[Event]:
    """The same with flushes. The last flush and `stop` have been sent, but are not answered."""
    events: list[Event] = []
    async with connect(url) as session:
        for second in (3, 6):
            await session.send(TALK[(second - 3) * SECOND : second * SECOND])
            await session.flush()
            await told(session, events, lambda event: event["type"] == "flushed")
        reading = asyncio.create_task(told(session, events))
        await gate.wait()
        await session.send(TALK[6 * SECOND : 9 * SECOND])
        await session.flush()
        await session.send(TALK[9 * SECOND : 12 * SECOND])
        await session.stop()
        await reading
    return events


def speak_blocking(url: str, at_gate: Callable[[], None]) -> list[Event]:
    """The same with the blocking client."""
    events: list[Event] = []
    with connect(url) as session:
        session.send(TALK[: BEFORE_S * SECOND])
        while not events or not has_heard(HEARD_MS)(events[-1]):
            event = session.receive(PATIENCE_S)
            assert event is not None
            events.append(dict(event))
        at_gate()
        session.send(TALK[BEFORE_S * SECOND :])
        session.stop()
        return events + [dict(event) for event in session]


async def command_line(url: str, recording: str, gate: Gate) -> list[Event]:
    """The output of `streamer FILE`, with its exit status as the last event."""
    command = ["-m", "streamer", recording, "--server", url, "--format", "jsonl", "--paced"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE)
    assert process.stdout is not None
    events: list[Event] = []
    async for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["type"] == "partial" and not gate.opened.is_set():
            await gate.wait()
    return [*events, {"type": "exit", "status": await process.wait()}]


async def all_there(gate: Gate, clients: Iterable[asyncio.Task[list[Event]]]) -> None:
    """Wait until all clients are at the gate, or one of them has failed."""
    waiting = asyncio.create_task(gate.full.wait())
    await asyncio.wait([waiting, *clients], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def all_disturbed(triton: TritonServer, recording: str) -> dict[str, list[Event]]:
    """The events of all clients of one service that is killed while all of them speak, one of them a recording."""
    served = RestartableService("--triton", triton.grpc_address)
    await served.start()
    gate, last_gate, loop = Gate(5), Gate(1), asyncio.get_running_loop()

    def at_gate() -> None:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()

    try:
        clients = {
            "asynchronous": asyncio.create_task(speak(served.site, gate)),
            "two channels": asyncio.create_task(speak(served.site, gate, BOTH, **STEREO)),
            "written": asyncio.create_task(speak(served.site, gate, **WRITTEN)),
            "flushes": asyncio.create_task(flush(served.site, gate)),
            "blocking": asyncio.create_task(asyncio.to_thread(speak_blocking, served.site, at_gate)),
        }
        await all_there(gate, clients.values())
        # Last, because it does not wait for the others.
        clients["command line"] = asyncio.create_task(command_line(served.site, recording, last_gate))
        await all_there(last_gate, clients.values())
        served.send(signal.SIGSTOP)
        gate.opened.set()
        last_gate.opened.set()
        await asyncio.sleep(0.3)  # no service reads what they send now
        await served.stop(signal.SIGKILL)
        await served.start()
        return dict(zip(clients, await asyncio.gather(*clients.values()), strict=True))
    finally:
        await served.stop()
        print(*served.lines, sep="\n")  # shown if the test fails


@pytest.fixture(scope="module")
def triton(installed_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """An exact model with marks and capitals."""
    with TritonServer(exact_repository(tmp_path_factory.mktemp("exact"), punctuation=True)) as server:
        yield server


@pytest.fixture(scope="module")
def service(triton: TritonServer) -> Iterator[Service]:
    """A service that is not killed."""
    with serving(triton) as running:
        yield running


@pytest.fixture(scope="module")
def disturbed(triton: TritonServer, said: Said) -> dict[str, list[Event]]:
    """The events of each client."""
    return asyncio.run(all_disturbed(triton, said.short))


def undisturbed(service: Service, audio: bytes | Path, **options: Any) -> list[Event]:
    """The events of a client whose service is not killed."""
    return [
        dict(event) for event in transcribe(audio if isinstance(audio, Path) else [audio], service.url, options=options)
    ]


@pytest.fixture(scope="module")
def right(service: Service) -> list[Event]:
    """The right events for the talk."""
    return lasting(undisturbed(service, TALK))


def lasting(events: list[Event]) -> list[Event]:
    """Finals, speech events and the final amount of audio, without numbers and confidences."""
    kept = [{**event, "n": 0, "confidence": 0} for event in events if event["type"] in ("final", "speech", "done")]
    for event in kept:
        event["words"] = [(word["word"], word["start_ms"], word["end_ms"]) for word in event.get("words", ())]
    return kept


def check_numbers(events: list[Event]) -> None:
    """Check that the numbers of the events rise by one."""
    first = events[0]["n"]
    assert [event["n"] for event in events] == list(range(first, first + len(events)))


@pytest.mark.parametrize("client", ["asynchronous", "blocking"])
def test_it_is_one_session(right: list[Event], disturbed: dict[str, list[Event]], client: str) -> None:
    """Words, times and segments are the same as without the failure; one event reports the other session."""
    events = disturbed[client]
    assert lasting(events) == right
    check_numbers(events)
    [restarted] = [event for event in events if event["type"] == "restarted"]
    before = [event for event in events if event["n"] < restarted["n"]]
    last = [event for event in before if event["type"] == "final"][-1]
    assert (restarted["from_ms"], restarted["segment"]) == (last["cut_ms"], last["segment"] + 1)
    assert [event for event in before if event["type"] == "partial"][-1]["segment"] == restarted["segment"]


def test_marks_and_capitals_are_the_same(service: Service, disturbed: dict[str, list[Event]]) -> None:
    """The new session is given the words before its audio, so a sentence goes on as if nothing had happened."""
    events = disturbed["written"]
    assert [event["type"] for event in events].count("restarted") == 1
    right = undisturbed(service, TALK, **WRITTEN)
    assert lasting(events) == lasting(right)
    assert not any("context" in event for event in events)
    assert any(mark in event["text"] for event in right if event["type"] == "final" for mark in ",.?")


def test_the_command_line_does_not_notice(service: Service, said: Said, disturbed: dict[str, list[Event]]) -> None:
    """`streamer FILE` writes the same as without the failure, and succeeds."""
    *events, last = disturbed["command line"]
    assert last == {"type": "exit", "status": 0}
    assert lasting(events) == lasting(undisturbed(service, Path(said.short), written=True, second_pass=True))
    assert [event["type"] for event in events].count("restarted") == 1
    transcript = Transcript("")
    for event in events:
        transcript.add(event)
    assert transcript.complete


def test_flushes_and_the_end_are_asked_for_again(service: Service, disturbed: dict[str, list[Event]]) -> None:
    """Unanswered flushes and `stop` are sent again, and each is answered once at its place."""
    events = disturbed["flushes"]
    check_numbers(events)
    assert [event["audio_ms"] for event in events if event["type"] == "flushed"] == [3000, 6000, 9000]
    assert [event["from_ms"] for event in events if event["type"] == "restarted"] == [6000]
    assert events[-1] == {"type": "done", "n": events[-1]["n"], "audio_ms": 12_000}
    pieces = [TALK[at * SECOND : (at + 3) * SECOND] for at in (0, 3, 6, 9)]
    said = [event for event in events if event["type"] == "final"]
    assert [event["segment"] for event in said] == list(range(len(said)))
    right = [event["text"] for piece in pieces for event in undisturbed(service, piece) if event["type"] == "final"]
    assert [event["text"] for event in said] == right


def test_each_channel_goes_on_at_its_own_cut(service: Service, disturbed: dict[str, list[Event]]) -> None:
    """Nothing is repeated, and the channel that was behind has the same words as without the failure.

    The other channel began with silence, so some words of its running segment may be different.
    """
    events, right = disturbed["two channels"], undisturbed(service, BOTH, **STEREO)
    check_numbers(events)
    restarted = [event for event in events if event["type"] == "restarted"]
    assert [event["channel"] for event in restarted] == [0, 1]
    slow = min(restarted, key=lambda event: int(event["from_ms"]))["channel"]
    for channel in (0, 1):
        own = [event for event in events if event.get("channel") == channel]
        expected = [event for event in right if event.get("channel") == channel]
        if channel == slow:
            assert lasting(own) == lasting(expected)
        finals, finals_expected = ([event for event in some if event["type"] == "final"] for some in (own, expected))
        assert [event["segment"] for event in finals] == [event["segment"] for event in finals_expected]
        assert all(
            abs(one["start_ms"] - other["start_ms"]) < 500 for one, other in zip(finals, finals_expected, strict=True)
        )
        words, words_expected = (
            " ".join(event["text"] for event in some).split() for some in (finals, finals_expected)
        )
        assert SequenceMatcher(None, words, words_expected).ratio() > 0.75


async def test_a_service_that_shuts_down(triton: TritonServer, right: list[Event]) -> None:
    """A final that the shutdown cut within a word is not passed on; another session recognises the whole word."""
    served = RestartableService("--triton", triton.grpc_address, "--drain-limit", "0")
    await served.start()
    try:
        gate = Gate(1)
        speaking = asyncio.create_task(speak(served.site, gate))
        await asyncio.wait_for(gate.full.wait(), PATIENCE_S)
        await served.stop(signal.SIGTERM)
        await served.start()
        gate.opened.set()
        events = await speaking
    finally:
        await served.stop()
        print(*served.lines, sep="\n")
    assert lasting(events) == right
    check_numbers(events)
    assert [event["type"] for event in events].count("restarted") == 1
