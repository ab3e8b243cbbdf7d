"""The link to a real server whose model counts samples and fails on request, and to one that requires TLS and a key."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import trustme

from streamer.base.events import Heard, ModelEvent
from streamer.bridge.service import Service
from streamer.bridge.triton import TritonError, server
from streamer.bridge.triton import link as link_module
from streamer.bridge.triton.link import ConnectionLost, Link, LinkError, Overdue, secure_dialer
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say
from tests.bridge.service_client import recognise, text

MODELS = Path(__file__).parent / "models"
FOR_EVER_S = 1000.0  # longer than a test may take: what waits so long fails
FAIL, RAISE, SILENT, DIE = (np.int16(command).tobytes() for command in (1, 2, 3, 4))  # see the model


def silence(samples: int) -> bytes:
    return bytes(2 * samples)


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """The same model in a Triton that does not forget an idle sequence as long as a test lasts."""
    shutil.copytree(MODELS / "good", tmp_path / "patient")
    config = tmp_path / "patient" / "probe" / "config.pbtxt"
    config.write_text(config.read_text().replace("2500000", "1000000000"))
    return tmp_path / "patient"


@pytest.fixture
async def link(server: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(server.grpc_address, "probe") as opened:
        yield opened


async def told(answer: Awaitable[Sequence[ModelEvent]]) -> list[Any]:
    """The events of an answer, of whatever kind."""
    return list(await answer)


async def code_of(request: Any) -> str:
    """Return the code of the LinkError with which a request must fail."""
    with pytest.raises(LinkError) as caught:
        await request
    return caught.value.code


async def keep_sending(link: Link) -> list[LinkError]:
    """Send requests in forty sequences, each until an error; returns the errors."""

    async def one() -> LinkError:
        sequence = link.sequence({"sleep_ms": 5})
        while True:
            try:
                await sequence.send(silence(100), timeout=FOR_EVER_S)
            except LinkError as error:
                return error

    return await asyncio.gather(*(one() for _ in range(40)))


async def test_the_events_of_a_request_come_back(link: Link) -> None:
    """Options are sent with START, a flush with its request, and events are decoded."""
    sequence = link.sequence({"words": True})
    seen, heard = await told(sequence.send(silence(160)))
    assert seen.fields["options"] == {"words": True}
    assert seen.fields["text"] == "grün"
    assert heard == Heard(160)
    seen, heard = await told(sequence.send(silence(40), flush=True))
    assert seen.fields["options"] == {"flush": True}
    assert heard.sample == 200
    seen, heard = await told(sequence.send(end=True))
    assert seen.fields["options"] == {}
    assert heard.sample == 200


async def test_flush_joins_the_options_of_the_first_request(link: Link) -> None:
    """A recording can be sent in a single request."""
    (seen, heard) = await told(link.sequence({"words": True}).send(silence(7), flush=True, end=True))
    assert seen.fields["options"] == {"words": True, "flush": True}
    assert heard.sample == 7


async def test_many_sequences_share_the_stream(link: Link) -> None:
    """Answers are matched to requests, in order; a sequence stays at its instance; requests form batches."""

    async def talk(number: int) -> tuple[set[str], int]:
        sequence, total, instances, largest = link.sequence({"sleep_ms": 30}), 0, set(), 0
        for step in range(10):
            total += 10 * number + step
            flush = (number + step) % 5 == 0  # other options and lengths do not keep requests from one batch
            seen, heard = await told(sequence.send(silence(10 * number + step), end=step == 9, flush=flush))
            assert seen.fields["options"].get("flush", False) == flush
            assert heard.sample == total
            instances.add(seen.fields["instance"])
            largest = max(largest, seen.fields["batch"])
        return instances, largest

    results = await asyncio.gather(*(talk(number) for number in range(120)))
    assert all(len(instances) == 1 for instances, _ in results)
    assert {name for instances, _ in results for name in instances} == {"probe_0_0", "probe_0_1"}
    assert max(largest for _, largest in results) > 4
    assert link.in_flight == 0


async def test_ids_are_drawn_from_63_bits(link: Link) -> None:
    """Triton refuses id 0, and the protocol uses signed numbers."""
    ids = {link.sequence().id for _ in range(1000)}
    assert len(ids) == 1000
    assert min(ids) > 0
    assert 2**62 < max(ids) < 2**63


async def test_an_error_of_the_model_concerns_one_request(link: Link) -> None:
    """The error has the model's code word and message; its sequence and others go on."""
    one, other = link.sequence(), link.sequence()
    await asyncio.gather(one.send(silence(5)), other.send(silence(6)))
    with pytest.raises(LinkError) as caught:
        await one.send(FAIL)
    assert (caught.value.code, caught.value.message) == ("bad_samples", "I was told\nto fail")
    assert (await told(one.send(silence(5), end=True)))[-1].sample == 10
    assert (await told(other.send(silence(6), end=True)))[-1].sample == 12


async def test_an_exception_in_the_model_leaves_the_link_alive(link: Link) -> None:
    """The request fails as `refused`, with the model's own words."""
    sequence = link.sequence()
    await sequence.send(silence(5))
    with pytest.raises(LinkError, match=r"refused: [^Z]*KeyError: 'probe'"):
        await sequence.send(RAISE)
    assert link.alive
    assert (await told(sequence.send(end=True)))[-1].sample == 5


async def test_an_overdue_answer_raises_and_leaves_nothing(link: Link) -> None:
    """The wait is bounded, no future stays behind, and the sequence can be ended."""
    sequence = link.sequence()
    await sequence.send(silence(5))
    with pytest.raises(Overdue, match=r"within 0\.1 s"):
        await sequence.send(SILENT, timeout=0.1)
    assert link.in_flight == 0
    assert (await told(sequence.send(end=True)))[-1].sample == 5


async def test_a_limit_may_grow(link: Link) -> None:
    """An answer is awaited for as long as the limit says when its first time is up."""
    sequence, limits = link.sequence(), iter([0.001])
    await sequence.send(silence(5))
    assert (await told(sequence.send(silence(5), timeout=lambda: next(limits, FOR_EVER_S))))[-1].sample == 10


async def test_a_late_answer_is_dropped(link: Link) -> None:
    """The next request gets its own answer, not the late one."""
    sequence = link.sequence({"sleep_ms": 300})
    assert await code_of(sequence.send(silence(5), timeout=0.05)) == "overdue"
    assert (await told(sequence.send(silence(6), end=True)))[-1].sample == 11


async def under_way(link: Link) -> None:
    """Wait until a request is on its way."""
    while not link.in_flight:  # noqa: ASYNC110 nothing tells
        await asyncio.sleep(0)


async def test_one_request_of_a_sequence_at_a_time(link: Link) -> None:
    """A second request is refused at once, and the first is not disturbed; after END none is accepted."""
    sequence = link.sequence({"sleep_ms": 100})
    first = asyncio.create_task(sequence.send(silence(5)))
    await under_way(link)
    assert await code_of(sequence.send(silence(6))) == "busy"
    assert (await told(first))[-1].sample == 5
    await sequence.send(end=True)
    assert await code_of(sequence.send(silence(5))) == "over"


async def test_half_a_sample_is_refused(link: Link) -> None:
    """Bytes that are not int16 samples are an error of the caller."""
    with pytest.raises(ValueError, match="3 bytes"):
        await link.sequence().send(b"123")


async def test_a_cancelled_request_leaves_nothing(link: Link) -> None:
    """After a cancelled request, the sequence and the link can still be used."""
    sequence = link.sequence({"sleep_ms": 100})
    task = asyncio.create_task(sequence.send(silence(5)))
    await under_way(link)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.in_flight == 0
    assert (await told(sequence.send(silence(6), end=True)))[-1].sample == 11


async def test_an_idle_sequence_is_unknown_after_a_while(link: Link) -> None:
    """Triton forgets it after its idle limit, and the code says so."""
    code = ""
    for seconds in (3.2, 6.4, 12.8, 25.6):  # on a busy machine it is later
        sequence = link.sequence()
        await sequence.send(silence(5))
        await asyncio.sleep(seconds)
        try:
            await sequence.send(silence(5), end=True)
        except LinkError as error:
            code = error.code
            break
    assert code == "unknown_stream"


async def test_too_many_waiting_requests_are_refused(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue to the writer is bounded, and says so; a refused START may be tried again."""
    monkeypatch.setattr(link_module, "QUEUE_LIMIT", 2)
    sequences = [link.sequence() for _ in range(5)]
    answers = await asyncio.gather(*(each.send(silence(1)) for each in sequences), return_exceptions=True)
    codes = [answer.code for answer in answers if isinstance(answer, LinkError)]
    assert codes == ["full"] * 3
    for sequence in sequences:
        await sequence.send(end=True)


async def test_running_sequences_are_never_refused(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no new sequence may start, running ones go on."""
    sequences = [link.sequence() for _ in range(5)]
    await asyncio.gather(*(each.send(silence(1)) for each in sequences))
    monkeypatch.setattr(link_module, "QUEUE_LIMIT", 2)
    await asyncio.gather(*(each.send(silence(1)) for each in sequences))
    await asyncio.gather(*(each.send(end=True) for each in sequences))


async def test_a_link_needs_a_ready_model(server: TritonServer) -> None:
    """Nothing is opened where it could do harm; the error says what was found."""
    with pytest.raises(LinkError, match=r"unavailable: .* does not have the model nothing ready"):
        await Link.connect(server.grpc_address, "nothing")
    with pytest.raises(ConnectionLost, match=r"no Triton answers at 127\.0\.0\.1:1"):
        await Link.connect("127.0.0.1:1", "probe")


async def test_a_link_needs_a_decoupled_model() -> None:
    """A model that is not decoupled would crash the server."""
    with TritonServer(MODELS / "plain") as server:
        assert await code_of(Link.connect(server.grpc_address, "plain")) == "refused"
        assert server.running


async def test_close_waits_for_answers_that_are_due(server: TritonServer) -> None:
    """Requests in flight are answered, later ones are refused, and closing again does nothing."""
    link = await Link.connect(server.grpc_address, "probe")
    sequences = [link.sequence({"sleep_ms": 100}) for _ in range(20)]
    sending = asyncio.gather(*(sequence.send(silence(9)) for sequence in sequences))
    await asyncio.sleep(0.02)
    assert link.in_flight == 20
    await link.close()
    assert not link.alive
    answers: list[list[Any]] = [list(events) for events in await sending]
    assert [events[-1].sample for events in answers] == [9] * 20
    assert await code_of(sequences[0].send(silence(9))) == "over"
    assert await code_of(link.sequence().send(silence(9))) == "unavailable"
    await link.close()


async def test_close_ends_the_sequences_that_are_open(patient: Path) -> None:
    """The slots of open sequences are free at once, without waiting for Triton's idle limit."""
    with TritonServer(patient, slots=2, grace=FOR_EVER_S) as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            for _ in range(2):
                await link.sequence().send(silence(5))
        async with await Link.connect(server.grpc_address, "probe") as link:
            await link.sequence().send(silence(5), timeout=60)
        server.stop()


async def test_close_is_bounded(server: TritonServer) -> None:
    """Requests that still wait then get ConnectionLost, and the server takes no harm."""
    link = await Link.connect(server.grpc_address, "probe")
    sending = asyncio.create_task(link.sequence({"sleep_ms": 1000}).send(silence(9)))
    await under_way(link)
    await link.close(timeout=0.1)
    with pytest.raises(ConnectionLost, match="the link was closed"):
        await sending
    async with await Link.connect(server.grpc_address, "probe") as another:
        await another.sequence().send(silence(9), end=True)


async def test_a_sequence_without_a_slot_is_told_so(patient: Path) -> None:
    """A START that waits in Triton's backlog fails as `full`; a discarded sequence makes room."""
    with TritonServer(patient, slots=1) as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            one, other, third = link.sequence(), link.sequence(), link.sequence()
            await one.send(silence(5))
            assert await code_of(other.send(silence(5), timeout=0.5)) == "full"
            waiting = asyncio.create_task(third.send(silence(7)))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            one.discard()
            assert (await told(asyncio.wait_for(waiting, 60)))[-1].sample == 7
            assert await code_of(one.send(silence(5))) == "over"


async def test_a_killed_server_fails_all_who_wait() -> None:
    """All waiting requests get ConnectionLost at once, and so do later ones."""
    with TritonServer(MODELS / "good") as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            sending = asyncio.create_task(keep_sending(link))
            await asyncio.sleep(0.5)
            os.kill(server.pid, signal.SIGKILL)
            errors = await sending
            assert {type(error) for error in errors} == {ConnectionLost}
            assert not link.alive
            assert link.in_flight == 0
            assert await code_of(link.sequence().send(silence(5))) == "unavailable"


async def test_a_server_is_stopped_under_load() -> None:
    """Stopping is bounded while clients go on sending; their requests fail."""
    with TritonServer(MODELS / "good", grace=1.0) as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            sending = asyncio.create_task(keep_sending(link))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.stop)
            assert {error.code for error in await sending} == {"unavailable"}


async def test_a_stopping_server_lets_sequences_end() -> None:
    """Open sequences are served until their END, and then the server ends at once."""
    with TritonServer(MODELS / "good", grace=FOR_EVER_S) as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            sequence = link.sequence()
            await sequence.send(silence(5))
            stopping = asyncio.create_task(asyncio.to_thread(server.stop))
            code = ""
            while not code:  # until it stops
                try:
                    await link.sequence().send(silence(5), end=True)
                except LinkError as error:
                    code = error.code
            assert code == "unavailable"
            assert (await told(sequence.send(silence(5), end=True)))[-1].sample == 10
            await asyncio.wait_for(stopping, 60)


async def test_a_dead_model_process_is_told() -> None:
    """Triton answers for a dead Python process, and the code is `unavailable`."""
    with TritonServer(MODELS / "good") as server:
        async with await Link.connect(server.grpc_address, "probe") as link:
            assert await code_of(link.sequence().send(DIE)) == "unavailable"
            assert await code_of(link.sequence().send(silence(5))) == "unavailable"
            assert psutil.Process(server.pid).is_running()


SECRET = "opensesame"


@dataclass(frozen=True)
class Guarded:
    """A Triton that requires client certificates and a key, and the files for that."""

    address: str
    roots: Path
    chain: Path
    key: Path
    metadata: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    roots, metadata = folder / "roots.pem", folder / "metadata"
    authority.cert_pem.write_to_path(str(roots))
    metadata.write_text(f"# for Triton\ntriton-grpc-protocol-door: {SECRET}\n")
    for name in ("localhost", "bridge"):
        issued = authority.issue_cert(name)
        (folder / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (folder / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
    options = {
        "grpc-use-ssl": 1,
        "grpc-use-ssl-mutual": 1,
        "grpc-server-cert": folder / "localhost.pem",
        "grpc-server-key": folder / "localhost.key",
        "grpc-root-cert": roots,
        "grpc-restricted-protocol": f"inference,model-config:door={SECRET}",
    }
    plain = server._command

    @functools.wraps(plain)
    def command(*arguments: object) -> list[str]:
        return [*plain(*arguments), *(f"--{name}={value}" for name, value in options.items())]  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "_command", command)
        with TritonServer(exact_repository(folder / "models"), instances=1, slots=4) as running:
            address = running.grpc_address.replace("127.0.0.1", "localhost")
            yield Guarded(address, roots, folder / "bridge.pem", folder / "bridge.key", metadata)


async def test_sessions_over_tls_with_a_key(guarded: Guarded) -> None:
    """A service with such a Triton recognises as usual; addresses are checked against the name that they stand for."""
    dial = secure_dialer(guarded.roots, guarded.chain, guarded.key, guarded.metadata)
    async with Service(guarded.address, port=0, dial=dial) as service:
        assert text(await recognise(service.url, say("open sesame").tobytes())) == "open sesame"


async def test_who_lacks_something_is_not_served(guarded: Guarded) -> None:
    """Clients without TLS, roots, certificate or key, or with another name, are not served."""
    all_of_it = (guarded.roots, guarded.chain, guarded.key, guarded.metadata)
    link = await Link.connect(guarded.address, dial=secure_dialer(*all_of_it))
    await link.close()
    with pytest.raises(LinkError):
        await Link.connect(guarded.address)
    for missing in (0, 1, 3):
        given = [
            None if place == missing or (missing, place) == (1, 2) else file for place, file in enumerate(all_of_it)
        ]
        with pytest.raises(LinkError):
            await Link.connect(guarded.address, timeout=2, dial=secure_dialer(*given))
    with pytest.raises(LinkError):
        await Link.connect(guarded.address, timeout=2, dial=secure_dialer(*all_of_it).to("elsewhere:8001"))


@pytest.mark.parametrize("line", ["door", "door:", ": value", "dör: value"])
def test_metadata_that_is_none_is_named_but_not_shown(tmp_path: Path, line: str) -> None:
    """The message does not show the line, because it is a secret."""
    (tmp_path / "metadata").write_text(f"a: b\n{line}\n")
    with pytest.raises(TritonError, match="Line 2 of") as caught:
        secure_dialer(metadata=tmp_path / "metadata")
    assert line not in str(caught.value).replace(str(tmp_path), "").replace("'name: value'", "")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """Missing files are reported before anything connects."""
    with pytest.raises(TritonError, match="none cannot be read: No such file"):
        secure_dialer(tmp_path / "none")
