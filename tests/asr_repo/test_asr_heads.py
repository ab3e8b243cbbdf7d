"""The ensemble `asr_heads` in a real Triton: it gives the words of `streaming_asr`, even if one of its steps fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from streamer.base.events import Again, HeadEvent, Heard, ModelEvent
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton import link as link_module
from streamer.bridge.triton.link import Link, LinkError, Sequence
from streamer.bridge.triton.server import TritonServer
from tests.asr_repo.faulty_heads import HEAD, SPOTTER, Fault, failed, faulty_repository, let_fail, let_raise
from tests.asr_repo.model_client import STEP, plain, recognise, text
from tests.bridge.service_client import Event, disturbed, eventually, lasting
from tests.bridge.service_client import recognise as session_events
from tests.deploy.known_metrics import OF_TRITON
from tests.samples import pcm
from tests.triton_processes import metric, reported, stubs

ENSEMBLE, KEYWORDS = "asr_heads", "asr_keywords"
IDLE_S = 8.0  # long enough for a busy machine: a probe must not be forgotten
START_S = 180.0  # the longest time for the processes of all steps to start, on a busy machine
# Two utterances with a pause that ends a segment.
AUDIO = pcm("quilter.ogg")[: 2 * 40_000] + bytes(2 * 20_000) + pcm("airplane.mp3")[: 2 * 32_000]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the shipped models, with a head that fails on request, and soon forgets idle sequences."""
    return faulty_repository(tmp_path_factory.mktemp("repository"), IDLE_S)


@pytest.fixture(scope="module")
def heads(repository: Path) -> TritonServer:
    """Provide a Triton with the ensemble. A service starts and stops it, and restarts it when a test has broken it."""
    return TritonServer(repository, models=[ENSEMBLE, KEYWORDS, SPOTTER], slots=6, ready_timeout=START_S)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(heads: TritonServer) -> AsyncIterator[Service]:
    limits = Limits(recover_s=START_S)
    models = {"default": ENSEMBLE, "keywords": KEYWORDS, "spotter": SPOTTER}
    async with Service(heads, port=0, models=models, limits=limits) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def whole(service: Service) -> list[Event]:
    """Provide the events of a session without faults."""
    return lasting(await session_events(service.url, AUDIO))


pytestmark = pytest.mark.asyncio(loop_scope="module")


def without_names(events: list[Event]) -> list[Event]:
    """Return the events without those that name the model, and without fields that depend on the requests."""
    return [event for event in events if event["type"] not in ("opened", "closed", "heard")]


async def test_the_words_are_those_of_the_whole_model(
    service: Service, heads: TritonServer, triton: TritonServer
) -> None:
    """All events are equal to those of `streaming_asr`, in single steps and in longer chunks, with any options."""
    options: dict[str, Any] = {"written": True, "partial_words": True, "alternatives": 2, "step_ms": 640}
    async with (
        await Link.connect(heads.grpc_address, ENSEMBLE) as parts,
        await Link.connect(triton.grpc_address) as one,
    ):
        for sizes, given in (([5120], {}), ([30_000, 1, 7000], options)):
            expected = await recognise(one, AUDIO, iter(sizes * 100), **given)
            assert without_names(await recognise(parts, AUDIO, iter(sizes * 100), **given)) == without_names(expected)
            assert len(text(expected).split()) > 8


async def test_every_step_reports_by_instance(service: Service, heads: TritonServer) -> None:
    """Each step reports batches, their sizes and waits; no request stays in flight; Triton reports its queue."""
    await session_events(service.url, AUDIO[:40_000])
    for step in ("speech_encoder", "feature_router", "activity_head", "transcript_head"):
        of_instance = reported(heads, "instance", f"{step}_0_0")
        assert of_instance["streamer_batch_size_count"] == of_instance["streamer_batches_total"] > 0
        assert of_instance["streamer_batch_size_sum"] == of_instance["streamer_batched_requests_total"]
        assert of_instance["streamer_batch_wait_seconds_count"] > 0
        assert "streamer_requests_in_flight" in of_instance
        assert set(reported(heads, "model", step)) >= OF_TRITON
    await eventually(lambda: metric(heads, "streamer_requests_in_flight") == 0)


async def refusal(sequence: Sequence, audio: bytes) -> LinkError | None:
    """Return the error that answers a request; None without one."""
    try:
        await sequence.send(audio)
    except LinkError as error:
        return error
    return None


async def one_forgotten(heads: TritonServer) -> None:
    """Wait until a step has forgotten an idle stream. The probes of the service make the steps check their streams."""
    before = metric(heads, "streamer_streams_expired_total")
    await eventually(lambda: metric(heads, "streamer_streams_expired_total") > before)


async def test_a_refusal_leaves_no_stream(service: Service, heads: TritonServer) -> None:
    """Options that the encoder or the last step refuses are refused with a sentence, and no step keeps the stream."""
    async with await Link.connect(heads.grpc_address, ENSEMBLE) as link:
        for options, complaint in (({"step_ms": 100}, "step_ms must be"), ({"alternatives": 99}, "from 0 to 10")):
            sequence = link.sequence(options)
            with pytest.raises(LinkError, match=complaint) as caught:
                await sequence.send(bytes(STEP))
            assert caught.value.code == "bad_options"
            sequence.discard()
        sequence = link.sequence()
        events = plain(await sequence.send(AUDIO[:STEP], flush=True))
        assert [event["type"] for event in events if event["type"] in ("flushed", "again")] == ["flushed"]
        with pytest.raises(LinkError, match="can only be set with the START"):
            await sequence._ask(b"", {"written": True}, 30.0)
        await sequence.send(end=True)
    await eventually(lambda: metric(heads, "streamer_slots_live") == 0)


@pytest.mark.parametrize("fault", ["raises", "fails", "is slow"])
async def test_a_head_that_fails_once(service: Service, repository: Path, whole: list[Event], fault: Fault) -> None:
    """A head that raises, whose network fails or that is slow costs no word: the session is replayed, or waits."""

    async def fail() -> None:
        let_fail(repository, fault)

    events = await disturbed(service.url, fail, AUDIO)
    assert failed(repository)
    assert lasting(events) == whole


async def test_a_head_that_fails_harms_no_other_stream(service: Service, heads: TritonServer, repository: Path) -> None:
    """The stream whose passage was lost gets an error; another one at the same steps goes on with its words."""
    async with await Link.connect(heads.grpc_address, ENSEMBLE) as link:
        expected = text(await recognise(link, AUDIO[: 8 * STEP]))
        unlucky, other = link.sequence(), link.sequence()
        events = plain(await other.send(AUDIO[:STEP]))
        await unlucky.send(AUDIO[:STEP])
        error: LinkError | None = None
        while error is None:  # its request may be in a batch with a probe's, which must not fail
            let_raise(repository, unlucky.id)
            error = await refusal(unlucky, AUDIO[STEP : 2 * STEP])
        assert error.code == "refused"
        error = await refusal(unlucky, AUDIO[2 * STEP : 3 * STEP])
        assert error is not None
        assert error.code in ("failed", "unknown_stream")
        unlucky.discard()
        for start in range(STEP, 8 * STEP, STEP):
            events += plain(await other.send(AUDIO[start : start + STEP]))
        assert text(events + plain(await other.send(end=True))) == expected


async def test_only_one_step_forgets_an_idle_stream(service: Service, heads: TritonServer, whole: list[Event]) -> None:
    """A stream that one step has forgotten gets an error; a session that sent nothing meanwhile loses nothing."""
    async with await Link.connect(heads.grpc_address, ENSEMBLE) as link:
        idle = link.sequence()

        async def pause() -> None:
            await idle.send(AUDIO[:STEP])
            await one_forgotten(heads)
            error = await refusal(idle, AUDIO[STEP : 2 * STEP])
            while error is None:  # it was the session that the step has forgotten first
                await one_forgotten(heads)
                error = await refusal(idle, AUDIO[STEP : 2 * STEP])
            assert error.code == "unknown_stream"
            idle.discard()

        assert lasting(await disturbed(service.url, pause, AUDIO)) == whole


async def test_a_head_of_one_s_own(service: Service, repository: Path, whole: list[Event]) -> None:
    """Events of another head reach the client under its name, and only once after a replay; the words stay the same."""

    async def fail() -> None:
        let_fail(repository, "fails")

    undisturbed = await session_events(service.url, AUDIO, model="keywords")
    disturbed_by_it = await disturbed(service.url, fail, AUDIO, model="keywords")
    for events in (undisturbed, disturbed_by_it):
        assert lasting(events) == whole
        found = [event for event in events if event["type"] == "head"]
        assert {(event["name"], event["content"]["word"]) for event in found} == {("keywords", "word")}
        times = [event["at_ms"] for event in found]
        assert times == sorted(set(times))
        assert len(times) > len(AUDIO) / 32_000


async def test_no_event_of_a_head_is_lost_at_a_cut(
    service: Service, heads: TritonServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much was heard and `again` end an answer. What a head found before a cut reaches the caller of the link."""
    answers: list[list[ModelEvent]] = []

    def noted(answer: Any) -> list[ModelEvent]:
        answers.append(read(answer))
        return list(answers[-1])

    read = link_module._events
    monkeypatch.setattr(link_module, "_events", noted)
    async with await Link.connect(heads.grpc_address, KEYWORDS) as link:
        sequence = link.sequence()
        told = await sequence.send(AUDIO) + await sequence.send(end=True)
    ends = [[event.type for event in answer if isinstance(event, (Heard, Again))] for answer in answers]
    assert [[event.type for event in answer[-len(end) :]] for answer, end in zip(answers, ends, strict=True)] == ends
    at_cuts = [answer for answer, end in zip(answers, ends, strict=True) if end == ["heard", "again"]]
    assert any(isinstance(event, HeadEvent) for answer in at_cuts for event in answer)
    found = [event for answer in answers for event in answer if isinstance(event, HeadEvent)]
    assert [event for event in told if isinstance(event, HeadEvent)] == found


async def test_the_trained_spotter(service: Service) -> None:
    """It reports the only keyword in "the night before and the air was", with its time, before the text is final."""
    begin_ms = 6500
    audio = pcm("talk.flac")[32 * begin_ms : 32 * (begin_ms + 4000)]
    events = await session_events(service.url, audio, model="spotter")
    [found] = [event for event in events if event["type"] == "head"]
    assert (found["name"], found["content"]["word"]) == ("keywords", "before")
    final = next(event for event in events if event["type"] == "final")
    [end_ms] = [word["end_ms"] for word in final["words"] if word["word"] == "before"]
    assert 0 <= found["at_ms"] - end_ms < 800
    assert found["n"] < final["n"]


async def test_a_process_that_dies(service: Service, heads: TritonServer, whole: list[Event]) -> None:
    """If the process of one step dies, the session is replayed by a new Triton, and no word is lost or doubled."""
    first = heads.pid

    async def kill() -> None:
        [stub] = [stub for stub in stubs(first) if f"/{HEAD}/" in " ".join(stub.cmdline())]
        stub.kill()

    events = await disturbed(service.url, kill, AUDIO, patience_s=START_S)
    assert [event["type"] for event in events].count("recovered") == 1
    assert lasting(events) == whole
    assert heads.pid != first
