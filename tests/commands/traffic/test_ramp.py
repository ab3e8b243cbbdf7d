"""The levels of a load measurement, with real client processes and a service whose parts fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.commands.traffic.clients import Plan, Recording
from streamer.commands.traffic.ramp import Measurement, Setup, Source, count_words, measure
from streamer.commands.traffic.results import BOUNDS, Delay, End, Level, WordCount
from streamer.commands.traffic.service import own_service
from streamer.testing import say
from streamer.testing.exact_service import exact_repository

TEXT = "somebody speaks for a while"


class Seen:
    """Notes the levels, and calls something at the first moment of one."""

    def __init__(self) -> None:
        self.shown = 0
        self.finished: list[int] = []
        self.at_first_words = lambda: None

    def show(self, level: Level, measured_s: float) -> None:
        """Note that it was shown."""
        self.shown += 1
        if level.delays[Delay.PARTIAL] and not self.finished:
            act, self.at_first_words = self.at_first_words, lambda: None
            act()

    def finish(self, level: Level) -> None:
        """Note that it is over."""
        self.finished.append(level.sessions)


def setup(url: str, folder: Path, levels: list[int], seconds: float) -> Setup:
    """A measurement with speech for an exact model."""
    path = folder / "speech.pcm"
    path.write_bytes(say(TEXT).tobytes())
    return Setup(Plan(url, "native", {}, [Recording("speech", str(path))]), [TEXT], levels, seconds, 2)


def test_sessions_recover(tmp_path: Path) -> None:
    """Sessions that survive the death of Triton are counted, and their words are right."""
    with own_service(["--repository", str(exact_repository(tmp_path))]) as service:
        url = service.wait_ready()
        seen, result = Seen(), Measurement()

        def kill_triton() -> None:
            for each in psutil.Process(service.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # others come and go meanwhile
                    if each.name() == "tritonserver":
                        each.kill()

        seen.at_first_words = kill_triton
        asyncio.run(measure(setup(url, tmp_path, [2], 12.0), Source(service.pid, own=service), result, seen))
    [level] = result.levels
    assert (result.end, level.whole, seen.finished) == (End.WHOLE, True, [2])
    assert level.recovered >= 1
    assert not level.failed
    assert level.words.words > 0
    assert level.words.errors == 0


def test_a_client_dies(exact_service: Service, tmp_path: Path) -> None:
    """If a client process is killed, the measurement ends, and says so."""
    seen, result = Seen(), Measurement()

    def kill_client() -> None:
        clients = [
            each for each in psutil.Process().children() if "streamer.commands.traffic.clients" in each.cmdline()
        ]
        clients[0].kill()

    seen.at_first_words = kill_client
    asyncio.run(measure(setup(exact_service.url, tmp_path, [2, 3], 20.0), Source(), result, seen))
    assert (result.end, [level.whole for level in result.levels]) == (End.CLIENT_DIED, [False])


@pytest.mark.parametrize(("sessions", "levels"), [(2, [1, 2, 3, 4]), (8, [1, 2, 3, 4, 5])])
async def test_until_the_knee(
    exact_triton: TritonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: int, levels: list[int]
) -> None:
    """Without a list of levels, it ends after two that do not hold."""
    assert isinstance(BOUNDS, dict)
    for kind in BOUNDS:
        monkeypatch.setitem(BOUNDS, kind, 60.0)  # a busy machine does not hold either
    async with Service(exact_triton.grpc_address, port=0, sessions=sessions) as service:
        given = setup(service.url, tmp_path, [1, 2, 3, 4, 5], 1.0)
        given = Setup(given.plan, given.texts, given.levels, given.seconds, given.clients, until_knee=True)
        result, seen = Measurement(), Seen()
        await measure(given, Source(triton_metrics=exact_triton.metrics_address), result, seen)
    assert [level.sessions for level in result.levels] == levels
    assert seen.finished == levels
    assert any(level.batches is not None for level in result.levels)


def test_words_after_a_pause() -> None:
    """If a session began at a pause, the words after it are compared, and silence is not right."""
    text = "there had been another black frost the night before and the air was clear"
    words = text.split()
    assert count_words(words, words, 0.0) == WordCount(1, 14, 0)
    assert count_words(words, words[5:], 0.4) == WordCount(1, 9, 0)
    assert count_words(words, [*words[5:8], "nights", *words[9:]], 0.3) == WordCount(1, 9, 1)
    assert count_words(words, [], 0.5).errors >= 4
    assert count_words(words, [], 0.0).errors == 14
