"""If one instance of a model hangs, its sessions go on at another one, and other sessions do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamer.base.codes import FailureCode
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton.link import LinkError, Overdue
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.instances import (
    LONGEST_SILENT_LIMIT_S,
    SILENT_LIMIT_S,
    Instances,
    OpeningFailures,
    Openings,
)
from streamer.testing.exact_service import add_exact_model
from tests.bridge.service_client import recognise, text
from tests.bridge.upstreams.speaking_sessions import speak, talk, value
from tests.triton_processes import stubs

SESSIONS = 6


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a model with two instances."""
    folder = tmp_path_factory.mktemp("repository")
    add_exact_model(folder, "streaming_asr", slots=16, instances=2)
    return folder


@asynccontextmanager
async def serving(repository: Path, *, own: bool) -> AsyncIterator[tuple[Service, TritonServer]]:
    triton = TritonServer(repository)
    if own:
        async with Service(triton, port=0) as service:
            yield service, triton
        return
    with triton:
        async with Service(triton.grpc_address, port=0) as service:
            yield service, triton


def test_an_instance_that_will_be_removed() -> None:
    """An instance that will be removed is known by its group, and its death is no failure of the model."""
    instances = Instances()
    instances.note_living({"a_0_0", "a_1_0"})
    assert not instances.any_leaving
    instances.remove(["a_1"], 7.0)
    assert instances.any_leaving
    assert (instances.leaves_at("a_1_0"), instances.leaves_at("a_0_0"), instances.leaves_at("")) == (7.0, None, None)
    assert instances.note_failure("Stub process 'a_1_0' is not healthy.")
    assert not instances.dead
    instances.forget(["a_1"])
    assert (instances.any_leaving, instances.leaves_at("a_1_0")) == (False, None)


async def test_no_sequence_begins() -> None:
    """An exclusion waits for beginnings under way, and later beginnings wait for its end."""
    openings, order = Openings(), list[str]()
    begun, answered = asyncio.Event(), asyncio.Event()

    async def begin(name: str) -> None:
        async with openings.one():
            begun.set()
            await answered.wait()
            order.append(name)

    async def remove() -> None:
        async with openings.none():
            order.append("removed")

    first = asyncio.create_task(begin("first"))
    await begun.wait()
    removing = asyncio.create_task(remove())
    await asyncio.sleep(0)
    second = asyncio.create_task(begin("second"))
    await asyncio.sleep(0)
    answered.set()
    await asyncio.gather(first, removing, second)
    assert order == ["first", "removed", "second"]


def test_what_openings_tell() -> None:
    """A model is reloaded at once if its process has died, and after a longer silence each time."""
    opening, died = OpeningFailures(), LinkError(FailureCode.UNAVAILABLE, "Stub process 'a_0_0' is not healthy.")
    assert opening.need_reload(died, 0.0, 1.0)
    assert not opening.need_reload(LinkError(FailureCode.UNAVAILABLE, "there is nobody"), 1.0, 2.0)
    silent, now = Overdue("no answer"), 100.0
    for limit_s in (SILENT_LIMIT_S, 2 * SILENT_LIMIT_S, 4 * SILENT_LIMIT_S):
        since = now
        while now + 10 - since < limit_s:
            now += 10
            assert not opening.need_reload(silent, now - 10, now)
        now += 10
        assert opening.need_reload(silent, now - 10, now)
    assert 8 * SILENT_LIMIT_S < LONGEST_SILENT_LIMIT_S
    # An answer in between counts: it was not silent all the time.
    assert not opening.need_reload(silent, now, now + 10)
    assert not opening.need_reload(LinkError(FailureCode.FULL, "no room"), now + 10, now + 11)
    assert not opening.need_reload(silent, now + 8 * SILENT_LIMIT_S, now + 8 * SILENT_LIMIT_S + 10)


@pytest.mark.parametrize("own", [True, False])
async def test_the_others_notice_nothing(repository: Path, own: bool) -> None:
    """No word is lost, only half of the sessions recover, new ones are served, and an idle Triton is mended."""
    spoken = [talk(seed) for seed in range(SESSIONS)]
    async with serving(repository, own=own) as (service, triton):
        assert value(service, "streamer_recognisers_ready") == 1
        most = value(service, "streamer_sessions_limit")
        speaking = [asyncio.create_task(speak(service.url, audio, 1.6)) for _, audio in spoken]
        await until(lambda: value(service, "streamer_sequences") == SESSIONS)
        await asyncio.sleep(1)  # somewhere in their sentences
        first, second = stubs(triton.pid)
        first.suspend()
        await until(lambda: value(service, "streamer_recognisers_ready") == 0)
        for seed in range(SESSIONS, SESSIONS + 3):
            words, audio = talk(seed)
            assert text(await recognise(service.url, audio)).split() == words.split()
        assert value(service, "streamer_ready") == 1
        assert value(service, "streamer_sessions_limit") == most / 2
        told = await asyncio.gather(*speaking)
        for events, (words, _) in zip(told, spoken, strict=True):
            assert text(events).split() == words.split()
        recovered = [[event["gap_ms"] for event in events if event["type"] == "recovered"] for events in told]
        # Triton assigns sequences in turn, but a probe may come in between.
        assert max(map(len, recovered)) == 1
        assert 2 <= sum(map(len, recovered)) <= SESSIONS - 2
        assert all(gap < 1000 * Limits().recover_s for gaps in recovered for gap in gaps)
        await until(lambda: value(service, "streamer_recognisers_ready") == 1)
        assert value(service, "streamer_sessions_limit") == most
        assert len({stub.pid for stub in stubs(triton.pid)} - {first.pid, second.pid}) == 2
        assert text(await recognise(service.url, spoken[0][1])).split() == spoken[0][0].split()


def test_what_is_known() -> None:
    """The death of one instance differs from that of the last; an instance that answers counts as alive again."""
    instances = Instances()
    instances.note_living(["a_0_0"])
    assert not instances.note_failure("Stub process 'a_0_0' is not healthy.")
    instances = Instances()
    instances.note_living(["a_0_0", "a_0_1"])
    assert not instances.note_failure("the stream to Triton failed")
    assert instances.note_failure("Stub process 'a_0_1' is not healthy.")
    assert instances.dead == {"a_0_1"}
    assert not instances.note_failure("Stub process 'a_0_0' is not healthy.")
    instances.note_living(["a_0_1"])
    assert instances.dead == {"a_0_0"}


async def until(holds: object, limit_s: float = 60.0) -> None:
    assert callable(holds)
    for _ in range(int(limit_s * 10)):
        if holds():
            return
        await asyncio.sleep(0.1)
    assert holds()


def test_which_instances_work() -> None:
    """An instance works if it has answered since a time, and several work if each of them has."""
    instances = Instances()
    assert not instances.answer_since(["a_0_0"], 10.0)
    instances.note_answer("a_0_0", 11.0)
    instances.note_answer("a_1_0", 13.0)
    assert instances.answer_since(["a_0_0", "a_1_0"], 10.0)
    assert not instances.answer_since(["a_0_0", "a_1_0"], 12.0)
    assert not instances.answer_since(["a_0_0", "b_0_0"], 10.0)
    instances.remove(["a_1"], until=20.0)
    instances.forget(["a_1"])
    assert not instances.answer_since(["a_1_0"], 10.0)


def test_another_step_of_an_ensemble_is_no_replacement() -> None:
    """Only a living instance of the same model can take the place of a dead one."""
    instances = Instances()
    instances.note_living(["transcript_head_0_0", "transcript_head_0_1"])
    assert instances.note_failure("Stub process 'transcript_head_0_1' is not healthy")
    assert not instances.note_failure("in ensemble 'asr_heads', Stub process 'speech_encoder_0_0' is not healthy")
    assert instances.dead == {"transcript_head_0_1", "speech_encoder_0_0"}
