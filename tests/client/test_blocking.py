"""The blocking client, with the real service."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import soundfile

from streamer.audio.recordings import AudioError
from streamer.base.codes import ClientCode
from streamer.client import SessionError, connect, transcribe
from streamer.client.blocking import FEW_UNREAD, MOST_UNREAD, Inbox
from streamer.testing.faulty_proxy import proxy
from tests.bridge.service_client import serving
from tests.project import SAMPLES
from tests.samples import TWO_SEGMENTS_S, pcm

if TYPE_CHECKING:
    from streamer.bridge.service import Service
    from streamer.bridge.triton.server import TritonServer

TALK = SAMPLES / "talk.flac"
SHORT = SAMPLES / "airplane.mp3"
PIECE = 6_400
PATIENCE_S = 60.0


def finals(events: Any) -> list[str]:
    """The texts of the finals."""
    return [event["text"] for event in events if event["type"] == "final"]


def threads() -> list[threading.Thread]:
    """The threads of sessions."""
    return [thread for thread in threading.enumerate() if thread.name == "streamer session"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Check that all sessions of a test have ended."""
    yield
    assert threads() == []


@pytest.fixture(scope="module")
def right(service: Service, talk: str) -> list[str]:
    """What the asynchronous client gets for the talk."""

    async def heard() -> list[str]:
        return finals([event async for event in transcribe(talk, service.url)])

    return asyncio.run(heard())


def test_a_recording_is_its_events(service: Service, right: list[str], talk: str) -> None:
    """A recording gives each event once and in order, from `ready` to `done`, with the right words."""
    events = list(transcribe(talk, service.url))
    assert (events[0]["type"], events[-1]["type"]) == ("ready", "done")
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert finals(events) == right != []


def test_a_recording_is_a_transcript(service: Service, right: list[str], talk: str) -> None:
    """The transcript has text, words with times, and every format."""
    transcript = transcribe(talk, service.url).result()
    assert transcript.complete
    assert transcript.file == talk
    assert transcript.text == " ".join(right)
    assert [word["word"] for word in transcript.words] == transcript.text.split()
    assert transcript.duration_ms == pytest.approx(soundfile.info(talk).duration * 1000, abs=1)
    assert transcript.render("srt").startswith("1\n00:00:0")


async def test_a_recording_can_be_awaited(service: Service, right: list[str], talk: str) -> None:
    """Asynchronous code gets the same transcript."""
    assert (await transcribe(talk, service.url)).text == " ".join(right)


def test_a_whole_recording_can_be_sent_before_anything_is_read(service: Service, right: list[str]) -> None:
    """Events are gathered while audio is sent, so the service never has to wait."""
    with connect(service.url) as session:
        assert session.ready["type"] == "ready"
        assert session.url == service.url
        audio = pcm("talk.flac", TWO_SEGMENTS_S)
        for place in range(0, len(audio), PIECE):
            session.send(audio[place : place + PIECE])
        session.stop()
        assert finals(session) == right
        assert list(session) == []


def test_sound_and_words_by_turns(service: Service) -> None:
    """Events that have arrived can be taken without waiting, and an answer can be waited for."""
    with connect(service.url) as session:
        assert list(session.waiting()) == []
        session.send(pcm("talk.flac")[: 3 * 32_000])
        session.flush()
        kinds: list[str] = []
        while not kinds or kinds[-1] != "flushed":
            event = session.receive(PATIENCE_S)
            assert event is not None
            kinds.append(event["type"])
        assert "final" in kinds
        with pytest.raises(TimeoutError):
            session.receive(0.05)
        session.keepalive()
        session.stop()
        assert [event["type"] for event in session][-1] == "done"
        assert session.receive(0) is None


def test_a_thread_may_send_while_another_reads(service: Service, right: list[str]) -> None:
    """One thread sends while another reads, and both notice the end."""
    with connect(service.url) as session:

        def speak() -> None:
            audio = pcm("talk.flac", TWO_SEGMENTS_S)
            for place in range(0, len(audio), PIECE):
                session.send(audio[place : place + PIECE])
            session.stop()

        speaker = threading.Thread(target=speak)
        speaker.start()
        heard = finals(session)
        speaker.join(PATIENCE_S)
    assert heard == right


def test_who_waits_is_freed_by_a_close(service: Service) -> None:
    """A session that another thread closes gives no more events and takes no more audio."""
    with connect(service.url) as session:
        threading.Timer(0.2, session.close).start()
        assert list(session) == []
        session.close()
        with pytest.raises(SessionError, match="has been closed"):
            session.send(bytes(2))


def test_a_refusal_is_raised_where_it_is_opened(service: Service) -> None:
    """A refused session raises the service's own message."""
    with pytest.raises(SessionError, match="step_ms") as caught, connect(service.url, {"step_ms": 7}):
        pass
    assert caught.value.code == "bad_option"
    with pytest.raises(SessionError) as caught:
        transcribe(TALK, "127.0.0.1:1").result()
    assert caught.value.code == "away"


async def test_what_the_service_says_while_sound_is_sent(exact_triton: TritonServer) -> None:
    """A thread that only sends gets the reason why the session ended."""
    begun = threading.Event()

    def speak(address: str) -> None:
        with connect(address, {"live": True}, restart=False) as session:
            while True:
                session.send(bytes(PIECE))
                begun.set()

    async with serving(exact_triton) as ending:
        speaking = asyncio.create_task(asyncio.to_thread(speak, ending.url))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    with pytest.raises(SessionError) as caught:
        await asyncio.wait_for(speaking, PATIENCE_S)
    assert caught.value.code == "shutting_down"


def test_a_failing_source_still_gets_its_words(service: Service) -> None:
    """The exception of a failing source is raised after the last event."""

    def source() -> Iterator[bytes]:
        yield pcm("airplane.mp3")
        raise AudioError("the recording is torn.")

    heard: list[Any] = []
    with pytest.raises(AudioError, match="torn"):
        heard.extend(transcribe(source(), service.url))
    assert finals(heard) == finals(transcribe(SHORT, service.url)) != []
    assert heard[-1]["type"] == "done"


def test_leaving_early_ends_the_session(service: Service) -> None:
    """Leaving the loop early leaves no thread and no session behind."""
    for event in transcribe(TALK, service.url, paced=True):
        if event["type"] == "partial":
            break

    def fail() -> None:
        with connect(service.url) as session:
            session.send(bytes(6400))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()
    assert threads() == []


def test_a_forgotten_session_ends(service: Service) -> None:
    """A session that the program has dropped ends by itself."""
    session = connect(service.url).open()
    session.send(bytes(6400))
    assert len(threads()) == 1
    del session
    gc.collect()
    assert threads() == []


async def test_a_plain_wait_in_an_event_loop_is_refused(service: Service) -> None:
    """A blocking call in an event loop is refused, and the message says what to write instead."""
    with pytest.raises(RuntimeError, match="async with connect"), connect(service.url):
        pass
    with pytest.raises(RuntimeError, match="async for event"):
        iter(transcribe(TALK, service.url))
    with pytest.raises(RuntimeError, match="await transcribe"):
        transcribe(TALK, service.url).result()


async def test_it_goes_on_over_another_connection(service: Service, right: list[str]) -> None:
    """A session that loses its connection loses no word."""
    async with proxy(service.url.split("/")[2]) as (address, cut):

        def speak() -> list[str]:
            audio = pcm("talk.flac", TWO_SEGMENTS_S)
            with connect(address) as session:
                for place in range(0, len(audio), PIECE):
                    session.send(audio[place : place + PIECE])
                    time.sleep(0.05)
                session.stop()
                return finals(session)

        speaking = asyncio.create_task(asyncio.to_thread(speak))
        for _ in range(3):
            await asyncio.sleep(0.3)
            await cut()
        assert await asyncio.wait_for(speaking, PATIENCE_S) == right


PROGRAM = """
import sys
from streamer.client import connect
with connect(sys.argv[1]) as session:
    print("open", flush=True)
    for event in session:
        pass
"""


def test_ctrl_c_ends_a_plain_program(service: Service) -> None:
    """Ctrl-C ends the wait for events at once, with the usual exception."""
    command = [sys.executable, "-c", PROGRAM, service.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == -signal.SIGINT
        said = process.stderr.read()
    assert said.endswith("KeyboardInterrupt\n")
    assert said.count("Traceback") == 1


def test_a_program_that_forgets_its_session_ends(service: Service) -> None:
    """The thread of a forgotten session does not keep the interpreter alive."""
    code = "import sys; from streamer.client import connect; session = connect(sys.argv[1]).open()"
    command = [sys.executable, "-W", "error", "-c", code, service.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def partial(n: int, segment: int = 0, **more: Any) -> dict[str, Any]:
    """A partial with this number."""
    return {"type": "partial", "n": n, "segment": segment, **more}


async def filled(inbox: Inbox, *events: dict[str, Any]) -> None:
    """Put these events into the inbox as a session does."""

    async def told() -> AsyncIterator[Any]:
        for event in events:
            yield event

    await inbox.fill(told())


async def test_what_nobody_reads_is_thinned_out() -> None:
    """If many events wait, a partial is dropped when a later one replaces it. Finals and the order stay."""
    inbox = Inbox()
    said = [partial(n) for n in range(FEW_UNREAD)] + [{"type": "final", "n": FEW_UNREAD, "segment": 0}]
    late = [partial(FEW_UNREAD + n, n % 2 + 1, channel=n % 2) for n in range(1, 50)]
    await filled(inbox, *said, *late, {"type": "done", "n": 999})
    read = []
    while (event := inbox.get(1)) is not None:
        read.append(event)
    assert read == [*said, *late[-2:], {"type": "done", "n": 999}]


async def test_who_never_reads_holds_up_the_service() -> None:
    """At the limit the client stops reading from the service, and goes on when an event is taken."""
    inbox = Inbox()
    events = [{"type": "final", "n": n, "segment": n} for n in range(MOST_UNREAD + 10)]
    filling = asyncio.create_task(filled(inbox, *events))
    await asyncio.sleep(0.1)
    assert not filling.done()
    read = await asyncio.to_thread(lambda: [inbox.get(PATIENCE_S) for _ in range(len(events) + 1)])
    assert read == [*events, None]
    await filling


async def test_a_failure_comes_after_the_events() -> None:
    """A reader gets all events before the failure."""
    inbox = Inbox()
    await filled(inbox, partial(1))
    inbox = Inbox()

    async def breaking() -> AsyncIterator[Any]:
        yield partial(1)
        raise SessionError(ClientCode.LOST, "It was lost.")

    await inbox.fill(breaking())
    assert inbox.get(0) == partial(1)
    with pytest.raises(SessionError, match="lost"):
        inbox.get(0)


def test_many_may_close_at_once(service: Service) -> None:
    """Several threads may close a session at the same time."""
    for _ in range(5):
        session = connect(service.url).open()
        closing = [threading.Thread(target=session.close) for _ in range(8)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(PATIENCE_S)
        assert threads() == []
