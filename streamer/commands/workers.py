"""`streamer serve --workers`: the process that starts the workers, and what each of them does.

python -m streamer.commands.workers FILE    a worker; the file is written by the process that starts it
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.control import ControlError, listening
from streamer.bridge.http.listener import listening_sockets
from streamer.bridge.server import PortError, problem_at, url_at
from streamer.bridge.service import Service, UsageKeeper
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.telemetry.supervisor_messages import SupervisorMessages
from streamer.bridge.telemetry.traces import TracesError, Tracing
from streamer.bridge.triton import TritonError, server_folder
from streamer.bridge.triton.link import LinkError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.pool import RollError
from streamer.bridge.workers.dialogue import Answer, Dialogue
from streamer.bridge.workers.neighbours import Neighbours
from streamer.bridge.workers.share import Share, SharedRecord
from streamer.bridge.workers.shared_triton import SharedTriton
from streamer.bridge.workers.worker import Worker
from streamer.bridge.workers.workers import ALIVE_EVERY_S, Place, WorkerError, Workers
from streamer.commands.capacity.session_limit import Finding
from streamer.commands.interrupt import off_signal, on_signal, run_until_signal
from streamer.commands.settings.configuration import Configuration
from streamer.commands.settings.port_policy import PortPolicyError, port_policy, session_limits, triton_dial

log = Log("streamer.bridge")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Task:
    """What a worker is to do."""

    place: Place
    configuration: Configuration
    sessions: int | Finding | None
    embedded: bool  # whether the process that starts it has a Triton
    grpc_port: int | None  # that all workers open for gRPC


def serve_with_workers(
    configuration: Configuration,
    workers: int,
    models: Mapping[str, str],
    policy: PortPolicy,
    triton: TritonServer | None,
    sessions: int | Finding | None,
    say_ready: Callable[[str, int | None, int | None], None],
) -> int:
    """Run the workers until a signal. Return the exit status. `models`: the Triton models by public name."""
    settings = configuration.settings
    hurrying: list[asyncio.Task[None]] = []
    running: list[Workers] = []

    def launch(folder: Path, grpc_port: int | None, place: Place) -> Sequence[str]:
        path = folder / f"{place.identity}.task"
        path.write_bytes(pickle.dumps(Task(place, configuration, sessions, triton is not None, grpc_port)))
        return [sys.executable, "-m", "streamer.commands.workers", str(path)]

    async def stay(supervisor: SupervisorMessages, folder: Path, stack: AsyncExitStack) -> None:
        sockets = await _listen(settings.host, settings.port, stack)
        wyoming = [] if policy.wyoming is None else await _listen(*policy.wyoming, stack)
        grpc_port = None if policy.grpc is None else _reserve(*policy.grpc, stack)
        file = policy.usage_file
        # With a store, that has the audio of the hour.
        record = SharedRecord(folder, None if file is None or settings.store else file.record.hour)
        stack.callback(record.close)
        if file is not None:
            stack.push_async_callback(UsageKeeper(file, record.usage, record.hour).close)
        group = Workers(
            folder,
            workers,
            lambda place: launch(folder, grpc_port, place),
            sockets,
            wyoming,
            models,
            record,
            triton,
            settings.drain_limit,
        )
        running.append(group)
        stack.push_async_callback(group.stop)
        await group.start()
        port = int(sockets[0].getsockname()[1])
        # Unexpected failures of this process are in its log; the metrics are those of the workers.
        control = listening(group, group.administer, port, settings.control, Failures(lambda: None))
        await stack.enter_async_context(control)
        wyoming_port = int(wyoming[0].getsockname()[1]) if wyoming else None
        say_ready(url_at(settings.host, port, policy), wyoming_port, grpc_port)
        supervisor.ready()
        try:
            await asyncio.Event().wait()  # until a signal
        finally:
            supervisor.stopping()

    async def work() -> int:
        folder, lock = server_folder.claim()
        try:
            # What a service left that was killed. The guard of an embedded Triton does this as well.
            await asyncio.to_thread(server_folder.sweep, folder.parent)
            async with SupervisorMessages(os.environ) as supervisor, AsyncExitStack() as stack:
                await stay(supervisor, folder, stack)
        except WorkerError as error:
            log.error("not started", reason=str(error))  # the worker has said why
            return 1
        except (PortError, LinkError, ControlError, TritonError) as error:
            return logs.fail(error)
        finally:
            server_folder.remove(folder)
            os.close(lock)
        return 0

    def hurry() -> None:
        logs.say("a second signal: open sessions are ended now.", logging.WARNING)
        hurrying.extend(asyncio.ensure_future(group.hurry()) for group in running)

    def refresh() -> None:
        logs.say("SIGHUP: keys and certificate are read again if they have changed; sessions go on.")
        for group in running:
            group.refresh()

    status = run_until_signal(work(), hurry, refresh)
    return 0 if status == 128 + signal.SIGTERM and not hurrying else status


async def _listen(host: str, port: int, stack: AsyncExitStack) -> list[socket.socket]:
    try:
        sockets = await listening_sockets(host, port)
    except OSError as error:
        raise PortError(problem_at(host, port, error)) from error
    for listener in sockets:
        stack.callback(listener.close)
    return sockets


def _reserve(host: str, port: int, stack: AsyncExitStack) -> int:
    """Keep a port for the workers, which gRPC opens itself, and return it. PortError if another program has it."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            reserved = socket.socket(family, kind, protocol)
            stack.callback(reserved.close)
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            reserved.bind((address[0], port, *address[2:]))
            port = int(reserved.getsockname()[1])
    except OSError as error:
        raise PortError(problem_at(host, port, error)) from error
    return port


# A worker.


def run_worker(task: Task) -> int:
    """Serve the port together with others, until the process that started this one asks for the end or has ended."""
    settings = task.configuration.settings
    logs.configure(settings.log_format, settings.log_level, task.place.number)
    try:
        return asyncio.run(_Worker(task).run())
    except (PortPolicyError, TritonError) as error:
        return logs.fail(error)


class _Worker:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._ended = asyncio.Event()
        self._gone: dict[str, asyncio.Future[list[object]]] = {}  # the end of former models, by public name
        self._capacity: int | None = None
        self._measured = task.place.measured
        self._service: Service | None = None
        self._hurrying: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Serve until the end. Return the exit status."""
        task, place, settings = self._task, self._task.place, self._task.configuration.settings
        # A supervisor may send its signals to all processes of the service: only the one that started this one heeds
        # them. What this process starts gets them as usual.
        for number in _SIGNALS:
            on_signal(number, lambda: None)
        dialogue = await Dialogue.over(socket.socket(fileno=place.dialogue))
        share = Share(place.folder, place.identity, place.workers)
        policy = port_policy(task.configuration, share, place.number)
        if policy.grpc is not None and task.grpc_port is not None:
            policy = replace(policy, grpc=(policy.grpc[0], task.grpc_port))
        worker = Worker(
            Neighbours(place.folder, place.number, place.workers),
            share,
            [socket.socket(fileno=each) for each in place.sockets],
            [socket.socket(fileno=each) for each in place.wyoming_sockets],
            place.starts,
        )
        try:
            tracing = Tracing.towards(settings.traces) if settings.traces or Tracing.in_environment() else None
        except TracesError as error:
            return logs.fail(error)
        service = self._service = Service(
            SharedTriton(dialogue, place.workers) if task.embedded else settings.triton,
            host=settings.host,
            port=settings.port,
            sessions=self._find if isinstance(task.sessions, Finding) else task.sessions,
            limits=session_limits(settings),
            grace=settings.drain_limit,
            policy=policy,
            dial=triton_dial(task.configuration),
            tracing=tracing,
            models=place.models,
            resolve_s=settings.resolve_every,
            worker=worker,
        )

        def hear(what: str, _: JsonObject) -> None:
            if what == "stop":
                self._ended.set()
            elif what == "hurry":
                self._hurrying = asyncio.ensure_future(service.hurry())
                self._ended.set()
            elif what == "refresh":
                policy.refresh()

        async def roll(question: JsonObject) -> int:
            return await self._roll(service, question, lambda: dialogue.tell("asking"))

        async def administer(question: JsonObject) -> JsonObject:
            asked = question["question"]
            assert isinstance(asked, dict)
            return await service.administration.administer(asked)

        answers: Mapping[str, Answer] = {"roll": roll, "gone": self._wait_for_former, "administer": administer}
        talking = asyncio.create_task(dialogue.run(answers, hear))
        talking.add_done_callback(lambda _: self._abandon())
        serving = asyncio.create_task(self._serve(service, dialogue))
        try:
            return await serving
        except (PortError, LinkError, TritonError) as error:
            return 1 if talking.done() else logs.fail(error)
        finally:
            self._ended.set()  # so the end of the dialogue, which follows, is no surprise
            for number in _SIGNALS:
                off_signal(number)
            dialogue.close()
            talking.cancel()
            if tracing is not None and self._hurrying is None:
                tracing.close()

    async def _serve(self, service: Service, dialogue: Dialogue) -> int:
        telling = asyncio.create_task(_tell_alive(dialogue))
        entering = asyncio.create_task(service.__aenter__())
        ending = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({entering, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done():
                entering.cancel()
                await asyncio.gather(entering, return_exceptions=True)
                return 0
            await entering
            dialogue.tell("ready", capacity=self._capacity, measured=self._measured)
            await ending
        finally:
            ending.cancel()
            if entering.done() and not entering.cancelled() and entering.exception() is None:
                await service.__aexit__(None, None, None)
            telling.cancel()
        return 0

    async def _find(self, models: Models) -> int | None:
        """Measure how many sessions there may be, unless the first worker has done so."""
        assert isinstance(self._task.sessions, Finding)
        if self._task.place.measured:
            self._capacity = self._task.place.capacity
        else:
            self._capacity, self._measured = await self._task.sessions(models), True
        return self._capacity

    async def _roll(self, service: Service, question: JsonObject, on_start: Callable[[], None]) -> int:
        """Replace a model here. Return how many sequences are still at the former one."""
        name = str(question["name"])
        pool = service.models.pools[name]
        former = pool.model
        try:
            self._gone[name] = await pool.roll(str(question["model"]), float(str(question["limit_s"])), on_start)
        except RollError as error:
            raise TritonError(str(error)) from error
        return pool.held.get(former, 0)

    async def _wait_for_former(self, question: JsonObject) -> list[str]:
        """Wait until the former model is left. Return the problems."""
        return [str(why) for why in await self._gone[str(question["name"])] if why]

    def _abandon(self) -> None:
        """End at once, because the process that started this one has ended, and Triton with it."""
        if not self._ended.is_set() and self._service is not None:
            log.error("ended, because the process that started this one has ended")
            self._hurrying = asyncio.ensure_future(self._service.hurry())
        self._ended.set()


async def _tell_alive(dialogue: Dialogue) -> None:
    """Say again and again that this process runs: while it starts, serves, and lets its sessions end."""
    while True:
        dialogue.tell("alive")
        await asyncio.sleep(ALIVE_EVERY_S)


def main() -> int:
    """Run the worker that a file describes. Return the exit status."""
    with ExitStack() as stack:
        path = Path(sys.argv[1])
        stack.callback(path.unlink, missing_ok=True)
        # The file is in a folder that only this user can open, and the parent of this process has written it.
        task: Task = pickle.loads(path.read_bytes())
    return run_worker(task)


if __name__ == "__main__":
    sys.exit(main())
