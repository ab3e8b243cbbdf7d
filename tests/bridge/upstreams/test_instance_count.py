"""Instances come and go with the load while sessions speak: not a word is lost, and a failure changes nothing."""

from __future__ import annotations

import asyncio
import copy
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from streamer.base.limits import InstanceBounds
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import instance_count
from streamer.bridge.upstreams.instance_count import CountState, InstanceCount, Load, Numbers
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import Event, eventually, lasting, receive, recognise, rest, session, text
from tests.bridge.upstreams.speaking_sessions import value
from tests.triton_processes import stubs

BUSY, QUIET = Load(3, 3, 0.0), Load(0, 6, 0.0)
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
PHRASES = [(f"{word} one", f"{word} two", f"{word} three") for word in WORDS]
# A model that has a fault if there is a certain file when it is loaded. The file is not in the folder of the model,
# because Triton would load a model again if its folder changes.
FAULTY = """
from pathlib import Path

from streamer.testing.exact_adapter import adapter


class TritonPythonModel(adapter(__file__)):
    def initialize(self, args):
        self._fault = Path({file!r}).read_text()
        if self._fault == "loading":
            raise RuntimeError("no memory is left")
        super().initialize(args)

    def execute(self, requests):
        if self._fault != "answering":
            super().execute(requests)
            return
        for request in requests:
            self._fail(request, RuntimeError("nothing is heard"))
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the number follow the slots at once, and ignore the lag of audio that is sent too fast."""
    for name in ("RAISE_AFTER_S", "LOWER_AFTER_S", "PAUSE_S"):
        monkeypatch.setattr(instance_count, name, 0.0)
    monkeypatch.setattr(instance_count, "BEHIND_S", 1000.0)
    monkeypatch.setattr(instance_count, "LOOK_S", 0.05)


def audio_of(phrases: tuple[str, ...]) -> list[bytes]:
    """Return the audio of each phrase, with a pause after it that ends a segment."""
    return [say(phrase).tobytes() + silence(1500).tobytes() for phrase in phrases]


async def speak(url: str, parts: list[bytes], gates: list[asyncio.Event]) -> list[Event]:
    """Return all events of some parts. Each of them waits for its gate in the middle of a word."""
    async with session(url) as websocket:
        reading = asyncio.create_task(rest(websocket))
        for part, gate in zip(parts, gates, strict=True):
            await websocket.send(part[:20_000])
            await gate.wait()
            await websocket.send(part[20_000:])
        await websocket.send('{"type":"stop"}')
        events = await reading
        assert websocket.close_code == 1000, events[-1]
    return events


async def test_up_and_down(tmp_path: Path) -> None:
    """Six sessions fill an instance, and a second one comes. It goes when only a session of its own is left."""
    triton = TritonServer(exact_repository(tmp_path), instances=1, slots=8, resizable=True)
    async with Service(triton, port=0, instances=InstanceBounds(1, 2)) as service:
        wholes = [await recognise(service.url, b"".join(audio_of(phrases))) for phrases in PHRASES]
        raised, lowering, lowered, free = (asyncio.Event() for _ in range(4))
        free.set()

        def speaking(number: int, *gates: asyncio.Event) -> asyncio.Task[list[Event]]:
            return asyncio.create_task(speak(service.url, audio_of(PHRASES[number]), list(gates)))

        first = [speaking(number, raised, free, free) for number in range(6)]
        await eventually(lambda: value(service, "streamer_instances{") == 2)
        assert service.models.default.most == 14
        # Triton gives the next one to the new instance, even if probes have some slots there.
        last = speaking(6, raised, lowering, lowered)
        await eventually(lambda: service.models.default.held == {"streaming_asr": 7})
        raised.set()
        said = await asyncio.gather(*first)
        await eventually(lambda: value(service, "streamer_instances_wanted{") == 1)
        assert value(service, "streamer_instances{") == 2
        assert (service.models.default.most, service.models.default.held) == (7, {"streaming_asr": 1})
        lowering.set()  # the last session waits in the middle of a word: now it reaches a cut
        await eventually(lambda: value(service, "streamer_instances{") == 1)
        await eventually(lambda: len(list(stubs(triton.pid))) == 1)
        lowered.set()
        said.append(await last)
        for events, whole, phrases in zip(said, wholes, PHRASES, strict=True):
            assert text(events).split() == " ".join(phrases).split()
            assert lasting(copy.deepcopy(events)) == lasting(copy.deepcopy(whole))
        assert value(service, 'streamer_instance_changes_total{change="raised"}') == 1
        assert value(service, 'streamer_instance_changes_total{change="lowered"}') == 1
        assert value(service, "streamer_moves_total") >= 1
        assert value(service, "streamer_recoveries_total") == 0


@pytest.mark.parametrize(("fault", "words"), [("loading", "no memory is left"), ("answering", "nothing is heard")])
async def test_an_instance_that_fails(fault: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If an instance fails, the number stays, sessions do not notice, the log says why, and there is a pause."""
    fails = tmp_path / "fails"
    fails.touch()
    repository = exact_repository(tmp_path / "repository")
    (repository / "streaming_asr" / "1" / "model.py").write_text(FAULTY.format(file=str(fails)))
    triton = TritonServer(repository, instances=1, slots=4, resizable=True)
    async with Service(triton, port=0) as service, session(service.url) as websocket:
        await websocket.send(say("abc").tobytes())
        count = InstanceCount(service.models.default, InstanceBounds(1, 2), service.metrics)
        fails.write_text(fault)
        for _ in range(3):
            await count.look(BUSY)
            assert count.state is CountState.HELD
        assert value(service, 'streamer_instance_changes_total{change="failed"}') == 1
        [line] = [record for record in caplog.records if record.msg == "instances not changed"]
        assert words in str(vars(line))
        assert (count.numbers, service.models.default.most) == (Numbers(1, 1), 3)
        await eventually(lambda: len(list(stubs(triton.pid))) == 1)
        await websocket.send(say(" de").tobytes())
        await websocket.send('{"type":"stop"}')
        assert text(await rest(websocket)) == "abc de"


async def test_what_does_not_reach_a_cut(tmp_path: Path) -> None:
    """A session without a cut leaves its instance after the limit, with a replay; the server keeps the number."""
    triton = TritonServer(exact_repository(tmp_path), instances=2, slots=8, resizable=True)
    async with Service(triton, port=0) as service:
        pool = service.models.default
        async with AsyncExitStack() as stack:
            # More than probes can push to one of the instances.
            open_ones = [await stack.enter_async_context(session(service.url, endpoint="off")) for _ in range(5)]
            for websocket in open_ones:
                await websocket.send(say("abc").tobytes())
                while (await receive(websocket))["type"] != "partial":
                    pass
            resizing = asyncio.create_task(pool.resize(1, 0.5))
            await eventually(lambda: (pool.instances, pool.most) == (2, 7))
            await resizing
            assert (pool.instances, pool.most) == (1, 7)
            await eventually(lambda: len(list(stubs(triton.pid))) == 1)
            for websocket in open_ones:
                await websocket.send(say(" de").tobytes())
                await websocket.send('{"type":"stop"}')
                assert text(await rest(websocket)) == "abc de"
        assert 0 < value(service, "streamer_recoveries_total") < len(open_ones)
        triton.kill()
        await eventually(lambda: not pool.well)
        await eventually(lambda: pool.well)
        assert (pool.instances, pool.most, len(list(stubs(triton.pid)))) == (1, 7, 1)
