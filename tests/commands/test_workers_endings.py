"""Workers of `streamer serve --workers` that end, hang or cannot start, and the end of all of them."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from streamer.bridge.triton.server import TritonServer
from tests.bridge.access.bare_port import ALICE
from tests.bridge.service_client import SPOKEN, START, rest, resume
from tests.command_run import streamer
from tests.commands.worker_service import (
    SENTENCES,
    ask,
    at_worker,
    attempt,
    exact_models,
    has,
    spoken,
    wait_for,
    worker_pids,
)
from tests.serve_process import serving


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about processes."""
    return exact_triton


def cumulative(exposition: bytes) -> dict[str, float]:
    """All figures of a text that never fall."""
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
        if family.type in ("counter", "histogram")
    }


async def test_sums_do_not_fall(triton: TritonServer) -> None:
    """What a worker counted stays in the sums when it is replaced, at each moment, and so do its histograms."""
    with serving("--triton", triton.grpc_address, "--workers", "2") as served:
        for number in (1, 2):
            async with at_worker(served.url, number) as (websocket, _):
                await websocket.send(SPOKEN)
                await websocket.send('{"type":"stop"}')
                await rest(websocket)
        await has(served, "streamer_sessions", 0)
        _, exposition = await ask(served, "/metrics")
        former = cumulative(exposition)
        assert former["streamer_sessions_opened_total []"] >= 2
        for turn in (1, 2):
            os.kill(worker_pids(served)[2], signal.SIGKILL)  # the one that was started last
            while sum("runs again." in line for line in served.lines) < turn:
                with suppress(ConnectionError, http.client.HTTPException):  # it was the one that was killed
                    _, exposition = await ask(served, "/metrics")
                    figures = cumulative(exposition)
                    fell = {
                        name: (value, figures.get(name))
                        for name, value in former.items()
                        if value > figures.get(name, 0)
                    }
                    assert not fell
                    former = figures
                await asyncio.sleep(0.1)
        await has(served, "streamer_worker_starts_total", 4)
        assert served.end() == 0


async def test_a_drain_of_all_workers(triton: TritonServer) -> None:
    """SIGTERM reaches all workers: sessions go on to their end, new ones are refused, and nothing is left."""
    with serving("--triton", triton.grpc_address, "--workers", "2", "--drain-limit", "60") as served:
        async with AsyncExitStack() as stack:
            for number in (1, 2):
                await stack.enter_async_context(at_worker(served.url, number))
            sessions = [asyncio.create_task(spoken(served.url)) for _ in range(4)]
            await has(served, "streamer_sessions", 6)
            family = served.descendants()
            served.send()
            for _ in range(600):
                if not (await asyncio.to_thread(lambda: served.state))["ready"]:
                    break
                await asyncio.sleep(0.05)
            async with connect(served.url, compression=None) as late:
                await late.send(START)
                [error] = await rest(late)
                assert (error["code"], late.close_code) == ("shutting_down", 1013)
            for events in await asyncio.gather(*sessions):
                assert [event["text"] for event in events if event["type"] == "final"] == list(SENTENCES)
        assert await asyncio.to_thread(served.ended) == 0
        assert not served.control.exists()
        psutil.wait_procs(family, timeout=60)
        assert not [process for process in family if process.is_running()]


async def test_a_second_signal_and_a_killed_parent(tmp_path: Path) -> None:
    """A second signal ends all processes at once, and so does the death of the one that started them."""
    repository, folders = exact_models(tmp_path), []
    for numbers, status in (((signal.SIGTERM, signal.SIGTERM), 143), ((signal.SIGKILL,), -9)):
        arguments = ("--repository", str(repository), "--model", "one", "--workers", "2", "--drain-limit", "600")
        with serving(*arguments) as served:
            family = served.descendants()
            folders.append(Path(psutil.Process(worker_pids(served)[1]).cmdline()[-1]).parent)
            async with at_worker(served.url, 1) as (websocket, _):
                await websocket.send(SPOKEN)
                for number in numbers:
                    served.send(number)
                    await asyncio.sleep(0.5)
                assert await asyncio.to_thread(served.ended) == status
                await rest(websocket)
            psutil.wait_procs(family, timeout=60)
            assert not [process for process in family if process.is_running()]
    with serving(*arguments) as served:  # removes what the killed one has left
        assert not any(folder.exists() for folder in folders)
        assert served.end() == 0


async def test_a_worker_that_hangs_is_replaced(triton: TritonServer) -> None:
    """While a worker is stopped, a client of its is asked to wait; it is killed before its sessions go on elsewhere."""
    with serving("--triton", triton.grpc_address, "--workers", "2") as served:
        async with at_worker(served.url, 1) as (_, ready):
            os.kill(worker_pids(served)[1], signal.SIGSTOP)
            codes = []
            for _ in range(400):
                try:
                    async with connect(served.url, compression=None, open_timeout=2) as websocket:
                        await websocket.send(resume(ready, 1))
                        [error] = await rest(websocket)
                        codes.append(error["code"])
                except TimeoutError:
                    continue
                if error["code"] == "unknown_token":
                    break
                await asyncio.sleep(0.2)
            assert codes[0] == "not_ready"
            assert codes[-1] == "unknown_token"
            await wait_for(served, "worker killed, because it does not answer worker=1")
            await wait_for(served, "worker 1 runs again.")
        assert served.end() == 0


async def test_a_worker_that_cannot_start(triton: TritonServer, tmp_path: Path) -> None:
    """One that cannot start again is said once, and tried again with pauses; the others go on, and it comes back."""
    keys = tmp_path / "keys"
    keys.write_text(f"{ALICE.line}\n")
    with serving("--triton", triton.grpc_address, "--workers", "2", "--keys", str(keys)) as served:
        keys.rename(tmp_path / "away")
        os.kill(worker_pids(served)[2], signal.SIGKILL)
        await wait_for(served, "worker 2 ended with status 1 before it was ready: it is tried again")
        async with AsyncExitStack() as stack:
            told = await attempt(stack, served.url, ALICE.secret)
            assert told["type"] == "ready"
        for _ in range(600):
            if sum("keys cannot be read" in line for line in served.lines) >= 3:
                break
            await asyncio.sleep(0.1)
        assert sum("before it was ready" in line for line in served.lines) == 1
        (tmp_path / "away").rename(keys)
        await wait_for(served, "worker 2 runs again.")
        assert served.end() == 0


def test_a_service_whose_workers_cannot_start() -> None:
    """If the first worker cannot start, the service ends with its sentence, and nothing is said of another failure."""
    done = streamer("serve", "--port", "0", "--workers", "2", "--triton", "127.0.0.1:9")  # its end writes the whole log
    assert done.returncode == 1
    why, end = done.stderr.splitlines()
    assert why.startswith("streamer: unavailable: no Triton answers at 127.0.0.1:9: ")
    assert end.endswith('error not started reason="worker 1 ended with status 1 before it was ready"')
