"""`streamer serve --workers` with real processes: sessions, limits and figures of all workers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psutil
import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.telemetry.usage import read_usage
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.workers.share import FILE
from streamer.client import connect as connect_native
from streamer.commands.arguments import USAGE
from streamer.commands.cli import run
from streamer.commands.serve import workers_for
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.grpc.grpc_client import RIVA, Client, finals, text_of
from tests.bridge.service_client import SPOKEN, START, Event, receive, recognise, rest, resume, text
from tests.commands.worker_service import (
    AUDIO,
    PIECE,
    SENTENCES,
    ask,
    at_worker,
    attempt,
    exact_models,
    figure,
    has,
    spoken,
    wait_for,
    worker_of,
    worker_pids,
)
from tests.serve_process import Serving, serving
from tests.triton_processes import recognisers
from workshop.soak.calls import begin


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about processes."""
    return exact_triton


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exact models for an embedded Triton."""
    return exact_models(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def served(triton: TritonServer) -> Iterator[Serving]:
    """Three workers in front of a Triton that others use too."""
    ports = ("--wyoming-port", "0", "--grpc-port", "0", "--twilio-unsigned")
    with serving("--triton", triton.grpc_address, "--workers", "3", "--share", "2", *ports) as running:
        yield running
        assert running.end() == 0


async def test_a_session_goes_on_through_another_worker(served: Serving) -> None:
    """A client returns to any worker, which gives the connection to the one that has the session: nothing is lost."""
    undisturbed = await recognise(served.url, SPOKEN)
    async with at_worker(served.url, 2) as (websocket, ready):
        await websocket.send(SPOKEN[: len(SPOKEN) // 2])
        events = [await receive(websocket)]
        while events[-1]["type"] != "final":
            events.append(await receive(websocket))
        websocket.transport.abort()
    for _ in range(3):  # several times, through workers that the system chooses
        async with connect(served.url, compression=None) as websocket:
            await websocket.send(resume(ready, events[-1]["n"]))
            again = await receive(websocket)
            assert again["token"] == ready["token"]
            sample = again["from_sample"]
            await websocket.send(SPOKEN[2 * sample : 2 * sample + PIECE])
            events += [event for event in [await receive(websocket)] if event["n"] > events[-1]["n"]]
            websocket.transport.abort()
    async with connect(served.url, compression=None) as websocket:
        await websocket.send(resume(ready, events[-1]["n"]))
        sample = (await receive(websocket))["from_sample"]
        await websocket.send(SPOKEN[2 * sample :])
        await websocket.send('{"type":"stop"}')
        events += await rest(websocket)
        assert websocket.close_code == 1000
    assert text(events) == text(undisturbed)
    numbers = [event["n"] for event in events]
    assert numbers == list(range(2, len(numbers) + 2))


async def test_the_later_connection_wins(served: Serving) -> None:
    """A second connection through another worker takes the session over, and the first one is told."""
    async with at_worker(served.url, 1) as (first, ready):
        holders = set()
        last = first
        async with AsyncExitStack() as stack:
            for _ in range(6):
                websocket = await stack.enter_async_context(connect(served.url, compression=None))
                await websocket.send(resume(ready, 1))
                again = await receive(websocket)
                holders.add(worker_of(again))
                await rest(last)
                assert last.close_code == 4010
                last = websocket
            assert holders == {1}
            await last.send(SPOKEN)
            await last.send('{"type":"stop"}')
            assert text(await rest(last)) == text(await recognise(served.url, SPOKEN))


@pytest.mark.parametrize(("token", "code"), [("2-unknown", "unknown_token"), ("9-unknown", "unknown_token")])
async def test_an_unknown_token(served: Serving, token: str, code: str) -> None:
    """A token that no worker knows, or of a worker that does not exist, is refused as in one process."""
    for _ in range(4):
        async with connect(served.url, compression=None) as websocket:
            await websocket.send(resume({"token": token}, 1))
            [error] = await rest(websocket)
            assert (error["code"], websocket.close_code) == (code, 4000)


async def test_a_message_that_was_never_sent(served: Serving) -> None:
    """A client that asks for the messages behind one that does not exist is told so, and the session stays."""
    async with at_worker(served.url, 3) as (_, ready):
        for _ in range(4):
            async with connect(served.url, compression=None) as websocket:
                await websocket.send(resume(ready, 1000))
                [error] = await rest(websocket)
                assert (error["code"], websocket.close_code) == ("bad_resume", 4000)


async def test_an_audience_at_any_worker(served: Serving) -> None:
    """A session is shared, read and ended through any worker, and listeners count at all of them together."""
    async with at_worker(served.url, 3) as (websocket, ready):
        token = {"token": ready["token"]}
        answers = [await ask(served, "/v1/captions", "POST", token) for _ in range(6)]
        [paths] = {content for status, content in answers if status == 200}
        events = json.loads(paths)["events"]
        listening = [asyncio.create_task(ask(served, events)) for _ in range(2)]
        for _ in range(600):
            if json.loads((await ask(served, "/v1/captions", "POST", token))[1])["listeners"] == 2:
                break
            await asyncio.sleep(0.05)
        assert {(await ask(served, events))[0] for _ in range(6)} == {503}  # as many as the service allows
        await websocket.send(SPOKEN)
        await websocket.send('{"type":"stop"}')
        spoken = text(await rest(websocket))
    for status, content in await asyncio.gather(*listening):
        told = [json.loads(each)["text"] for each in re.findall(r"event: final\ndata: (.*)", content.decode())]
        assert (status, " ".join(told)) == (200, spoken)
        assert content.endswith(b"event: end\ndata: {}\n\n")
    assert {(await ask(served, events))[0] for _ in range(6)} == {404}
    assert {(await ask(served, "/v1/captions", "POST", token))[0] for _ in range(6)} == {404}


async def test_an_audience_of_a_call_at_any_worker(served: Serving) -> None:
    """The number of a call does not tell which worker has it: the others are asked."""
    async with connect(f"{served.url.rpartition('/v1/')[0]}/twilio") as websocket:
        await websocket.send(begin(call="CA99"))
        call = {"call": "CA99"}
        for _ in range(600):
            if (await ask(served, "/v1/captions", "POST", call))[0] == 200:
                break
            await asyncio.sleep(0.05)
        answers = {await ask(served, "/v1/captions", "POST", call) for _ in range(6)}
        assert [status for status, _ in answers] == [200]
        assert {(await ask(served, "/v1/captions", "POST", {"call": "CA98"}))[0] for _ in range(6)} == {404}


async def test_figures_of_all_workers(served: Serving) -> None:
    """Each request for metrics gets the sum, or the figures of each worker, and /readyz counts all sessions."""
    before = figure(await asyncio.to_thread(lambda: served.exposition), "streamer_sessions_opened_total")
    async with AsyncExitStack() as stack:
        for number in (1, 2, 3):
            await stack.enter_async_context(at_worker(served.url, number))
        await has(served, "streamer_sessions", 3)
        text_of_each = (await ask(served, "/metrics?by=worker"))[1].decode()
        for number in (1, 2, 3):
            assert figure(text_of_each, f'streamer_sessions{{worker="{number}"}}') == 1
        sums = (await ask(served, "/metrics"))[1].decode()
        assert figure(sums, "streamer_ready") == 1
        assert figure(sums, "streamer_workers") == figure(sums, "streamer_workers_wanted") == 3
        assert figure(sums, "streamer_recognisers") == 1
        opened = sum(
            figure(text_of_each, f'streamer_sessions_opened_total{{worker="{number}"}}') for number in (1, 2, 3)
        )
        assert figure(sums, "streamer_sessions_opened_total") == opened >= before + 3
        states = [await asyncio.to_thread(lambda: served.state) for _ in range(6)]
        assert [(state["sessions"], state["sequences"]) for state in states] == [(3, 3)] * 6
    await has(served, "streamer_sessions", 0)


async def test_grpc_at_any_worker(served: Serving) -> None:
    """Each worker opens the port for gRPC, and the kernel divides the connections among them."""
    port = int(re.search(r"port (\d+)", next(line for line in served.lines if "gRPC" in line))[1])  # type: ignore[index]

    def transcript() -> str:
        with Client(port) as client:
            return text_of(finals(client.stream(RIVA, SPOKEN)))

    alone = text(await recognise(served.url, SPOKEN))
    transcripts = await asyncio.gather(*(asyncio.to_thread(transcript) for _ in range(12)))
    assert [each.split() for each in transcripts] == 12 * [alone.split()]
    status, exposition = await ask(served, "/metrics?by=worker")
    opened = re.findall(r'streamer_sessions_opened_total{worker="\d"} (\S+)', exposition.decode())
    assert status == 200
    assert sum(float(each) > 0 for each in opened) > 1


async def test_wyoming_at_any_worker(served: Serving) -> None:
    """The second port is served by all workers, too."""
    port = int(re.search(r"port (\d+)", next(line for line in served.lines if "Wyoming" in line))[1])  # type: ignore[index]
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b'{"type":"describe"}\n')
        head = json.loads(await asyncio.wait_for(reader.readline(), 60))
        assert head["type"] == "info"
        writer.close()


async def test_a_worker_is_killed(served: Serving) -> None:
    """Clients that spoke to a killed worker go on at others, without a lost or doubled word; it is started again."""

    async def speak(pace_s: float) -> list[dict[str, object]]:
        events: list[dict[str, object]] = []
        async with connect_native(served.url) as session:

            async def read() -> None:
                async for event in session:
                    events.append(dict(event))

            reading = asyncio.create_task(read())
            for place in range(0, len(AUDIO), PIECE):
                await session.send(AUDIO[place : place + PIECE])
                await asyncio.sleep(pace_s)
            await session.stop()
            await reading
        return events

    speaking = [asyncio.create_task(speak(0.04)) for _ in range(9)]
    await has(served, "streamer_sessions", 9)
    _, exposition = await ask(served, "/metrics?by=worker")
    found = re.findall(r'^streamer_sessions{worker="(\d)"} (\S+)$', exposition.decode(), re.MULTILINE)
    held = {int(number): float(sessions) for number, sessions in found}
    busiest = max(held, key=lambda number: held[number])  # which worker takes a connection is chance
    os.kill(worker_pids(served)[busiest], signal.SIGKILL)
    ended = f"worker {busiest} was killed by SIGKILL: its sessions go on at the others; it is started again."
    await wait_for(served, ended)
    sessions = await asyncio.gather(*speaking)
    assert any(event["type"] == "restarted" for events in sessions for event in events)
    for events in sessions:
        finals = [event for event in events if event["type"] == "final"]
        assert [final["text"] for final in finals] == list(SENTENCES)
        assert [final["segment"] for final in finals] == list(range(len(finals)))
        numbers = [int(str(event["n"])) for event in events if "n" in event]
        assert numbers == sorted(set(numbers))
    await wait_for(served, f"worker {busiest} runs again.")
    async with at_worker(served.url, busiest):
        await has(served, "streamer_worker_starts_total", 4)
    await has(served, "streamer_sessions", 0)  # those of the dead one do not count any more


@pytest.fixture
def keyed(triton: TritonServer, tmp_path: Path) -> Iterator[Serving]:
    """Two workers with keys and tight limits."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n{BOB.line}\n")
    limits = ("--per-key", "2", "--audio-per-key", "40", "--hotwords-per-key", "40", "--sessions", "3")
    kept = ("--keys", str(tmp_path / "keys"), "--usage-file", str(tmp_path / "usage.json"), "--open-metrics")
    with serving("--triton", triton.grpc_address, "--workers", "2", *limits, *kept) as running:
        yield running


def outcome(first: Event) -> str:
    return str(first.get("code", first["type"]))


async def test_limits_over_all_workers(keyed: Serving, tmp_path: Path) -> None:
    """Sessions, sessions of a key, hotwords and audio count over all workers, and so does the usage file."""
    for _ in range(4):  # whichever worker takes the connections
        async with AsyncExitStack() as stack:
            told = await asyncio.gather(*(attempt(stack, keyed.url, ALICE.secret) for _ in range(5)))
            codes = sorted(outcome(each) for each in told)
            assert codes == ["ready", "ready", "too_many_sessions", "too_many_sessions", "too_many_sessions"]
            told = await asyncio.gather(*(attempt(stack, keyed.url, BOB.secret) for _ in range(2)))
            assert sorted(outcome(each) for each in told) == ["full", "ready"]
        await has(keyed, "streamer_sessions", 0)
    codes = []
    for _ in range(8):
        async with AsyncExitStack() as stack:
            hotwords = ["kubernetes", "elephants", "giraffes ab"]
            codes.append(outcome(await attempt(stack, keyed.url, BOB.secret, hotwords=hotwords)))
    # The first list costs 31 of 40 characters, and a quarter of that whenever it is used again, at any worker. The
    # exact model itself knows no hotwords.
    assert codes == 2 * ["bad_option"] + 6 * ["hotwords_used_up"]
    await recognise(f"{keyed.url}?key={ALICE.secret}", SPOKEN)
    await recognise(f"{keyed.url}?key={ALICE.secret}", SPOKEN)  # 31 s so far, or a little less
    until = 0
    while True:  # what one worker received is told to the others within a second
        events = await recognise_until_refused(f"{keyed.url}?key={ALICE.secret}")
        if events and events[-1].get("code") == "audio_used_up":
            break
        until += 1
        assert until < 3
    async with AsyncExitStack() as stack:
        await asyncio.sleep(2.5)
        for _ in range(6):
            assert (await attempt(stack, keyed.url, ALICE.secret))["code"] == "audio_used_up"
    assert keyed.end() == 0
    usage = read_usage(tmp_path / "usage.json")
    [day] = usage.days.values()
    assert day["alice"].audio_s >= 28
    assert day["alice"].sessions >= 10
    assert day["bob"].sessions == 4


async def test_a_hangup_reaches_all_workers(keyed: Serving, tmp_path: Path) -> None:
    """After SIGHUP each worker has read the changed keys, without a request, and none admits a key that was removed."""
    async with AsyncExitStack() as stack:
        assert outcome(await attempt(stack, keyed.url, BOB.secret)) == "ready"
        (tmp_path / "keys").write_text(f"{ALICE.line}\n")
        keyed.send(signal.SIGHUP)
        for number in (1, 2):
            for _ in range(600):
                if any("keys read again" in line and f"worker={number}" in line for line in keyed.lines):
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"worker {number} does not read the keys again")
        for _ in range(8):
            assert outcome(await attempt(stack, keyed.url, BOB.secret)) == "unauthorized"
        assert outcome(await attempt(stack, keyed.url, ALICE.secret)) == "ready"


async def recognise_until_refused(url: str) -> list[Event]:
    async with connect(url, compression=None) as websocket:
        with suppress(ConnectionClosed):
            for message in (START, SPOKEN, '{"type":"stop"}'):
                await websocket.send(message)
        return await rest(websocket)


async def test_a_share_that_is_away(triton: TritonServer) -> None:
    """While nothing can be counted together, sessions go on, new ones begin, and all of them count afterwards."""
    with serving("--triton", triton.grpc_address, "--workers", "2", "--sessions", "6") as served:
        task = next(
            each.cmdline()[-1] for each in served.descendants() if "streamer.commands.workers" in each.cmdline()
        )
        session = asyncio.create_task(spoken(served.url))
        await has(served, "streamer_sessions", 1)
        holder = sqlite3.connect(Path(task).with_name(FILE), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")  # such as a worker that was stopped while it counted
        async with AsyncExitStack() as stack:
            for number in (1, 2):
                await stack.enter_async_context(at_worker(served.url, number))
            await wait_for(served, "workers count alone")
            assert [event["text"] for event in await session if event["type"] == "final"] == list(SENTENCES)
            holder.execute("ROLLBACK")
            holder.close()
            await wait_for(served, "workers count together again")
            for _ in range(600):
                states = [await asyncio.to_thread(lambda: served.state) for _ in range(4)]
                if [state["sessions"] for state in states] == [2] * 4:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the workers never count together")
        assert served.end() == 0


async def test_a_short_key_at_any_worker(keyed: Serving) -> None:
    """A key for a short time is valid at each worker."""
    for _ in range(3):
        _, content = await ask(keyed, "/v1/auth/grant", "POST", Authorization=f"Bearer {BOB.secret}")
        key = json.loads(content)["access_token"]
        for _ in range(6):
            async with AsyncExitStack() as stack:
                assert outcome(await attempt(stack, keyed.url, key)) == "ready"
            await has(keyed, "streamer_sessions", 0)


async def test_a_session_over_tls(triton: TritonServer, tmp_path: Path) -> None:
    """A session over TLS goes on through another worker, which passes on what it deciphers."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "cert.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    arguments = ("--triton", triton.grpc_address, "--workers", "2", "--tls-cert", str(tmp_path / "cert.pem"))
    with serving(*arguments) as served:
        url = served.url
        async with connect(url, compression=None, ssl=context) as websocket:
            await websocket.send(START)
            ready = await receive(websocket)
            await websocket.send(SPOKEN[: len(SPOKEN) // 2])
            last = await receive(websocket)
            websocket.transport.abort()
        events = [last]
        for turn in range(6):
            async with connect(url, compression=None, ssl=context) as websocket:
                await websocket.send(resume(ready, events[-1]["n"]))
                sample = (await receive(websocket))["from_sample"]
                if turn == 5:
                    await websocket.send(SPOKEN[2 * sample :])
                    await websocket.send('{"type":"stop"}')
                    events += await rest(websocket)
                    assert websocket.close_code == 1000
                else:
                    await websocket.send(SPOKEN[2 * sample : 2 * sample + PIECE])
                    events.append(await receive(websocket))
                    websocket.transport.abort()
        finals = [event["text"] for event in events if event["type"] == "final"]
        assert " ".join(finals) == "somebody speaks quietly because everybody listens another sentence follows " + (
            "after a pause and goes on for some seconds"
        )
        numbers = [event["n"] for event in events]
        assert numbers == sorted(set(numbers))


async def test_a_roll_at_all_workers(repository: Path) -> None:
    """One command rolls all workers of an embedded Triton, or changes nothing; a new worker has the same model."""
    arguments = ("--repository", str(repository), "--model", "one", "--workers", "2", "--slots", "16")
    with serving(*arguments) as served:
        assert served.state["sessions_limit"] == 14  # each worker keeps one slot for its probe
        sessions = [asyncio.create_task(spoken(served.url)) for _ in range(6)]
        await has(served, "streamer_sessions", 6)
        done = await asyncio.to_thread(served.roll, "two")
        assert done.stderr.splitlines() == [
            "streamer: asking each Triton to load and test two",
            "streamer: new sessions use two; sequences of one that move at their next cut: 6",
            "streamer: two is in use; one is unloaded",
        ]
        assert done.returncode == 0
        for events in await asyncio.gather(*sessions):
            assert [event["text"] for event in events if event["type"] == "final"] == list(SENTENCES)
            assert not any(event["type"] == "recovered" for event in events)  # they moved at a cut
        [server] = [process for process in served.descendants() if process.name() == "tritonserver"]
        for _ in range(600):
            if len(recognisers(server.pid)) == 1:
                break
            await asyncio.sleep(0.1)
        failed = await asyncio.to_thread(served.roll, "broken")
        assert failed.returncode == 1
        assert "Nothing has changed." in failed.stderr
        os.kill(worker_pids(served)[1], signal.SIGKILL)
        await wait_for(served, "worker 1 runs again.")
        for number in (1, 2):
            async with at_worker(served.url, number) as (_, ready):
                assert ready["triton_model"] == "two"
        # Triton itself is killed: all workers go on with the next one, which is started once.
        sessions = [asyncio.create_task(spoken(served.url)) for _ in range(4)]
        await has(served, "streamer_sessions", 4)
        os.kill(server.pid, signal.SIGKILL)
        for events in await asyncio.gather(*sessions):
            assert [event["text"] for event in events if event["type"] == "final"] == list(SENTENCES)
        servers = [process for process in served.descendants() if process.name() == "tritonserver"]
        assert len(servers) == 1
        assert await asyncio.to_thread(served.end) == 0
    psutil.wait_procs([psutil.Process(server.pid)] if psutil.pid_exists(server.pid) else [], timeout=60)


async def test_a_worker_dies_while_a_model_is_replaced(repository: Path) -> None:
    """The others roll without it, and it comes back with the new model."""
    arguments = ("--repository", str(repository), "--model", "one", "--workers", "2", "--slots", "16")
    with serving(*arguments) as served:
        victim = worker_pids(served)[2]
        os.kill(victim, signal.SIGSTOP)  # so that it cannot answer before it dies
        rolling = asyncio.create_task(asyncio.to_thread(served.roll, "two"))
        await wait_for(served, " rolled worker=1 ")
        assert not rolling.done()
        os.kill(victim, signal.SIGKILL)
        done = await rolling
        assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "streamer: two is in use; one is unloaded")
        await wait_for(served, "worker 2 runs again.")
        for number in (1, 2):
            async with at_worker(served.url, number) as (websocket, ready):
                assert ready["triton_model"] == "two"
                await websocket.send(SPOKEN)
                await websocket.send('{"type":"stop"}')
                assert (await rest(websocket))[-1]["type"] == "done"
        assert await asyncio.to_thread(served.end) == 0


@pytest.mark.parametrize(
    ("processors", "beside_triton", "in_front"),
    [(0.5, 1, 1), (2, 1, 2), (8, 1, 8), (9.9, 2, 9), (16, 2, 16), (64, 8, 64), (128, 16, 64)],
)
def test_workers_for_a_machine(processors: float, beside_triton: int, in_front: int) -> None:
    """An embedded Triton needs most processors; in front of other Tritons, each has a worker, up to a bound."""
    assert workers_for(processors, embedded=True) == beside_triton
    assert workers_for(processors, embedded=False) == in_front


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workers", "0"], "--workers must be a whole number"),
        (["--workers", "2", "--instances", "1-4"], "--workers cannot be combined with a range of --instances"),
        (["--workers", "2", "--load", "on-demand"], "--workers cannot be combined with --load on-demand"),
    ],
)
def test_settings_that_need_one_process(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What only one process can do is refused beside several, with one sentence."""
    assert run(["serve", *arguments]) == USAGE
    assert words in capsys.readouterr().err
