"""The client from `ready` to `done`, driven by hand, and with the real service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from streamer.client import SessionError, connect, transcribe
from tests.client.scripted_peer import READY, Polite, events_of, peer, says
from tests.project import SAMPLES

if TYPE_CHECKING:
    from streamer.bridge.service import Service

TALK = SAMPLES / "talk.flac"


async def test_a_model_that_is_loaded_first() -> None:
    """The caller is told its name, and the session begins when it is loaded."""
    told: list[str] = []
    starting = '{"type":"starting","n":0,"model":"chinese"}'
    async with peer(says(starting, READY, '{"type":"done","n":2,"audio_ms":100}')) as address:
        events = await events_of(address, on_starting=told.append)
    assert (told, [event["type"] for event in events]) == (["chinese"], ["ready", "done"])


async def test_a_session_can_be_driven_by_hand() -> None:
    """connect() can be entered or awaited. Both give a session that is ready."""
    script = Polite()
    async with peer(script) as address:
        async with connect(f"http://{address}", {"words": False}) as session:
            assert session.ready["type"] == "ready"
            await session.send(np.array([1, 2], dtype=np.int16))
            await session.flush()
            await session.keepalive()
            await session.stop()
            assert [event["type"] async for event in session] == ["done"]
            assert [event async for event in session] == []
        session = await connect(address)
        await session.close()
        with pytest.raises(SessionError):
            await session.send(b"\0\0")
    assert [text["type"] for text in script.texts] == ["start", "flush", "keepalive", "stop", "start"]
    assert script.sound == b"\1\0\2\0"


async def test_a_recording_through_the_real_service(service: Service, talk: str) -> None:
    """A recording gives numbered events with growing times, from `ready` to `done`, and is recognised completely."""
    events: list[Any] = [event async for event in transcribe(talk, service.url)]
    assert (events[0]["type"], events[-1]["type"]) == ("ready", "done")
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    ends = [event["end_ms"] for event in events if event["type"] == "final"]
    assert ends == sorted(ends) != []
    assert events[-1]["audio_ms"] == pytest.approx(soundfile.info(talk).duration * 1000, abs=1)


async def test_a_flush_of_the_real_service(service: Service) -> None:
    """flush() makes everything so far final before its answer comes."""
    samples, _ = soundfile.read(TALK, frames=3 * 16_000, dtype="int16")
    async with connect(service.url) as session:
        await session.send(samples)
        await session.flush()
        async for event in session:
            if event["type"] == "flushed":
                break
        assert event["type"] == "flushed"
        assert event["audio_ms"] == 3000
        await session.stop()
        assert [event["type"] async for event in session if event["type"] == "final"] == []


async def test_silence_of_the_real_service_is_not_kept(service: Service) -> None:
    """No more audio is kept than the longest segment and what the recogniser may be behind."""
    async with connect(service.url, {"endpoint": {"longest_ms": 6000}}) as session:
        await session.send(bytes(25 * 32_000))
        await session.stop()
        assert [event["type"] async for event in session][-1] == "done"
        assert 16_000 <= session._kept.kept_ms < 17_100


async def test_an_option_that_the_real_service_refuses(service: Service) -> None:
    """A refused option raises the service's own message."""
    with pytest.raises(SessionError, match="step_ms") as caught:
        await connect(service.url, {"step_ms": 7})
    assert caught.value.code == "bad_option"
