"""Measuring the number of live sessions with a real Triton, a real port and real clients."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from streamer.audio.audio_file import Int16Samples, read_audio
from streamer.base.package import shipped
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.admission import Models
from streamer.client import SessionError, connect
from streamer.commands.capacity import live_sessions
from streamer.commands.capacity.live_sessions import NotMeasured, _port, _recordings, measure_live, tried
from streamer.commands.capacity.session_limit import SPEECH, Finding
from streamer.commands.traffic.ramp import Measurement, Setup
from streamer.commands.traffic.results import Delay, Level
from streamer.testing import say
from tests.bridge.upstreams.opened_models import opened, until
from tests.samples import pcm
from tests.triton_processes import no_streams


@pytest.fixture
async def models(exact_triton: TritonServer) -> AsyncIterator[Models]:
    """Provide a Triton, and check that none of its slots is held afterwards."""
    async with opened(exact_triton.grpc_address) as models:
        yield models
        assert models.default.free == models.default.most
    await no_streams(exact_triton)


@pytest.fixture
def audio() -> Int16Samples:
    """Return what is spoken, which the exact model understands."""
    return say("somebody speaks for a while")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of sessions speaks for a second, and two are guessed."""

    async def guess(*_: object) -> int:
        return 2

    monkeypatch.setattr(live_sessions, "guess", guess)
    monkeypatch.setattr(live_sessions, "LEVEL_S", 1.0)
    monkeypatch.setattr(live_sessions, "MOST_LEVELS", 2)


def level(sessions: int, carried: int) -> Level:
    """Return what is found with a number of sessions if the machine carries this number."""
    found = Level(sessions, failed=Counter() if sessions <= carried else Counter(overdue=1))
    found.delays[Delay.LAST].append(0.1)
    return found


@pytest.mark.usefixtures("brief")
async def test_it_is_found(models: Models, audio: Int16Samples) -> None:
    """Sessions speak through a bridge, and the most that had their words in time are admitted. Nothing stays."""
    before = logging.getLogger("streamer.bridge").level
    found = await measure_live(models, audio)
    assert found.levels[0].sessions == 2
    assert all(each.whole and each.opened >= each.sessions and not each.refused for each in found.levels)
    holding = [each.sessions for each in found.levels if live_sessions._holds(each)]
    assert found.sessions == max(holding, default=found.sessions)
    assert "that spoke, all with second passes, had 95 % of" in found.reason
    assert logging.getLogger("streamer.bridge").level == before
    assert not clients()


@pytest.mark.usefixtures("brief")
async def test_a_model_that_understands_nothing(models: Models) -> None:
    """If nobody had to wait for a word, the guess is all that is known."""
    found = await measure_live(models, read_audio(shipped(SPEECH)))
    assert found.sessions == 2
    assert found.reason.endswith("had no words")


async def test_nobody_else_uses_the_port(models: Models, tmp_path: Path) -> None:
    """The port is for the clients of the measurement, which have its key, and it is closed afterwards."""
    async with _port(models, tmp_path) as (url, key):
        with pytest.raises(SessionError) as error:
            async with connect(url, key=""):
                pass
        assert error.value.code == "unauthorized"
        async with connect(url, key=key) as session:
            await session.stop()
            async for _ in session:
                pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", urlsplit(url).port)


@pytest.mark.usefixtures("brief")
async def test_a_client_dies(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its clients there is no measurement, and the service has as many sessions as slots."""
    monkeypatch.setattr(live_sessions, "LEVEL_S", 60.0)
    finding = asyncio.create_task(Finding(None)(models))
    await until(lambda: bool(clients()))
    clients()[0].kill()
    assert await finding is None
    measuring = asyncio.create_task(measure_live(models, read_audio(shipped(SPEECH))))
    await until(lambda: bool(clients()))
    clients()[0].kill()
    with pytest.raises(NotMeasured, match="client died"):
        await measuring


def clients() -> list[psutil.Process]:
    """Return the client processes."""
    return [
        each for each in psutil.Process().children() if "streamer.commands.traffic.clients" in " ".join(each.cmdline())
    ]


@pytest.mark.parametrize(
    ("carried", "first", "numbers"),
    [
        (50, 40, [40, 46, 53]),  # upwards until one does not hold
        (30, 40, [40, 35, 30]),  # downwards until one holds
        (1000, 90, [90, 100]),  # no more than there are slots
        (0, 3, [3, 2, 1]),
        (1000, 4, [4, 5, 6, 7, 8]),  # not for ever
    ],
)
def test_which_numbers_are_tried(carried: int, first: int, numbers: list[int]) -> None:
    """It ends when one number holds and the next larger one that was tried does not, or there is no other."""
    levels = list[Level]()
    for sessions in tried(first, 100, levels):
        levels.append(level(sessions, carried))
    assert [each.sessions for each in levels] == numbers


@pytest.mark.parametrize(
    ("carried", "workers", "sessions", "limited"),
    [(53, 1, 50, False), (1000, 1, 60, True), (0, 1, 24, False), (0, 4, 50, False), (58, 4, 57, False)],
)
async def test_what_is_admitted(
    carried: int,
    workers: int,
    sessions: int,
    limited: bool,
    models: Models,
    audio: Int16Samples,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All sessions that held, fewer than were tried if none did, and with several bridges at least what was guessed."""

    async def guess(*_: object) -> int:
        return 50

    async def measure(setup: Setup, _: object, result: Measurement, __: object) -> None:
        for number in setup.levels:
            result.levels.append(level(number, carried))

    monkeypatch.setattr(live_sessions, "guess", guess)
    monkeypatch.setattr(live_sessions, "measure", measure)
    monkeypatch.setattr(type(models.default), "free", 60)
    found = await measure_live(models, audio, workers)
    monkeypatch.undo()
    assert (found.sessions, found.limited) == (sessions, limited)


def test_sessions_of_a_talk(tmp_path: Path) -> None:
    """A talk becomes several recordings, so that many sessions end while a number of them is measured."""
    samples = pcm("talk.flac")
    recordings = _recordings(samples, tmp_path)
    assert len(recordings) >= 3
    assert b"".join(each.samples() for each in recordings) == samples
    assert all(len(each.samples()) >= live_sessions.SESSION_S * 32000 for each in recordings)
