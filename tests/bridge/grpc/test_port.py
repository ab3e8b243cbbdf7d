"""The port for gRPC, with real calls and a real service: refusals, faults, limits, keys, and the shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import grpc
import numpy as np
import pytest

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.quotas import Caller, Denied, QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.server import BridgeServer, PortError
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.access.bare_port import ALICE, listening
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.grpc.conftest import ANY, SESSIONS
from tests.bridge.grpc.grpc_client import (
    LINEAR,
    RIVA,
    SERVICES,
    TALK,
    V1,
    V2,
    Client,
    Held,
    audio_of,
    finals,
    first,
    message,
    pieces,
    refusal,
    text_of,
)
from tests.bridge.service_client import PATIENCE_S, eventually, serving
from tests.bridge.uploads.uploading import post, recording
from tests.bridge.upstreams.opened_models import models_at
from tests.project import ROOT


def figures(service: ExactService) -> str:
    """Return the metrics."""
    return post(service.url, "/metrics", method="GET")[2].decode()


def running(text: str, protocol: str, number: int = 1) -> bool:
    """Return whether the metrics show this many sessions in this format."""
    return f'{{protocol="{protocol}",state="streaming"}} {number}.0' in text


def free(service: ExactService) -> bool:
    """Return whether no session has a slot."""
    return int(json.loads(post(service.url, "/readyz", method="GET")[2])["sequences"]) == 0


# Refusals


@pytest.mark.parametrize(
    ("service", "requests", "sentence"),
    [
        (V1, [], "must have a configuration"),
        (RIVA, [b"\xff\xff"], "no message of this method"),
        (V2, [audio_of(V2, b"sound")], "must have a configuration"),
        (V1, [first(V1, {**LINEAR, "language_code": "de"})], "'language_code' must be en"),
        (V1, [first(V1, {**LINEAR, "encoding": 4}), audio_of(V1, bytes(100))], "'encoding' must be one of"),
        (
            V1,
            [first(V1, {**LINEAR, "sample_rate_hertz": 0}), audio_of(V1, bytes(100))],
            "'sample_rate_hertz' is needed",
        ),
        (RIVA, [first(RIVA, {**LINEAR, "sample_rate_hertz": 5}), audio_of(RIVA, bytes(100))], "sample_rate"),
        (RIVA, [first(RIVA, {}), audio_of(RIVA, b"no recording at all")], "recording"),
        (RIVA, [first(RIVA), audio_of(RIVA, bytes(100)), first(RIVA)], "Only the first request"),
        (V2, [first(V2), audio_of(V2, bytes(100)), b"\xff\xff"], "no message of this method"),
    ],
)
def test_what_cannot_be_served(client: Client, service: str, requests: list[Any], sentence: str) -> None:
    """A mistake of the client is INVALID_ARGUMENT with a sentence, as the vendors have it."""
    code, details = refusal(client.call(service, requests))
    assert code == "INVALID_ARGUMENT"
    assert sentence in details


def test_recordings_that_cannot_be_served(client: Client) -> None:
    """The same for a recording: one elsewhere, none at all, and one that cannot be decoded."""
    elsewhere = message(V1, "RecognizeRequest", config=LINEAR, audio={"uri": "gs://bucket/talk.wav"})
    for ask, sentence in (
        (lambda: client.unary(V1, "Recognize", elsewhere), "fetches no recording"),
        (lambda: client.recognise(V2, b""), "has no audio"),
        (lambda: client.recognise(RIVA, b"RIFF" + bytes(50), {}), "recording"),
    ):
        code, details = refusal(lambda ask=ask: [ask()])
        assert (code, sentence in details) == ("INVALID_ARGUMENT", True), details


def test_an_unknown_method(client: Client) -> None:
    """What is not served is UNIMPLEMENTED."""
    call = client.channel.unary_unary(f"/{V1}/RecognizeLater")
    with pytest.raises(grpc.RpcError) as error:
        call(b"", timeout=PATIENCE_S)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_client_that_sends_no_audio(client: Client) -> None:
    """It gets no results, and that is no failure."""
    assert refusal(client.call(V1, [first(V1)])) == ("OK", "")


async def test_a_full_service(exact: ExactService, client: Client) -> None:
    """A call for which there is no slot is RESOURCE_EXHAUSTED. The others go on."""
    await eventually(lambda: free(exact))
    held = [Held(first(RIVA), audio_of(RIVA, say("here").tobytes())) for _ in range(SESSIONS)]
    others = [client.call(RIVA, each) for each in held]
    await eventually(lambda: running(figures(exact), "riva", SESSIONS))
    last = client.call(RIVA, [first(RIVA), audio_of(RIVA, say("here").tobytes())])
    assert (await asyncio.to_thread(refusal, last))[0] == "RESOURCE_EXHAUSTED"
    for each in held:
        each.end.set()
    assert [text_of(finals(await asyncio.to_thread(list, call))) for call in others] == ["here"] * SESSIONS
    await eventually(lambda: free(exact))


async def test_limits_of_waiting() -> None:
    """A call without a request, and one without audio, end when their limits have passed."""
    policy = PortPolicy(grpc=ANY, handshake_s=0.3)
    server = BridgeServer("127.0.0.1", 0, models_at(), Metrics(), Limits(idle_s=0.6), policy)
    await server.start()
    try:
        with Client(server.grpc_port) as client:
            for requests, sentence in (((), "No request came within"), ((first(V1),), "No audio came within")):
                held = Held(*requests)
                code, details = await asyncio.to_thread(refusal, client.call(V1, held))
                held.end.set()
                assert (code, sentence in details) == ("OUT_OF_RANGE", True)
    finally:
        await server.stop()


async def test_a_service_that_is_not_ready() -> None:
    """It is UNAVAILABLE, so clients try again."""
    async with listening(grpc=ANY) as server:
        with Client(server.grpc_port) as client:
            call = client.call(V1, [first(V1), audio_of(V1, bytes(100))])
            assert (await asyncio.to_thread(refusal, call))[0] == "UNAVAILABLE"


# Keys, quotas and TLS


async def test_keys(keys: KeyFile) -> None:
    """A key is metadata, in one of two places. Without it nothing is read or told."""
    async with listening(AccessRules(keys), grpc=ANY) as server:
        with Client(server.grpc_port) as client:

            def ask(*metadata: tuple[str, str]) -> list[str]:
                request = message(RIVA, "RivaSpeechRecognitionConfigRequest")
                return [
                    refusal(client.call(V1, [first(V1), audio_of(V1, bytes(100))], metadata))[0],
                    refusal(lambda: [client.unary(RIVA, "GetRivaSpeechRecognitionConfig", request, metadata)])[0],
                ]

            for metadata in ((), (("authorization", "Bearer wrong"),)):
                assert await asyncio.to_thread(ask, *metadata) == ["UNAUTHENTICATED"] * 2
            for name, value in (("authorization", f"Bearer {ALICE.secret}"), ("x-goog-api-key", ALICE.secret)):
                assert await asyncio.to_thread(ask, (name, value)) == ["UNAVAILABLE", "OK"]


async def test_quotas() -> None:
    """The sessions of an address are limited as everywhere, from the call on."""
    access = AccessRules(quotas=QuotaLimits(per_address=1))
    async with listening(access, grpc=ANY) as server:
        with Client(server.grpc_port) as client:
            held = Held(first(V1))
            waiting = client.call(V1, held)
            await eventually(lambda: not _may_enter(access))
            assert (await asyncio.to_thread(refusal, client.call(V1, [first(V1)])))[0] == "RESOURCE_EXHAUSTED"
            waiting.cancel()
            held.end.set()
            await eventually(lambda: _may_enter(access))


def _may_enter(access: AccessRules) -> bool:
    try:
        access.quotas.check(Caller("127.0.0.1"))
    except Denied:
        return False
    return True


async def test_tls(authority: Authority) -> None:
    """The certificate is that of the other port, and a renewed one is used without a restart."""
    certificate = Certificate(authority.chain, authority.key)
    async with listening(grpc=ANY, certificate=certificate) as server:

        def ask(root: bytes) -> str:
            credentials = grpc.ssl_channel_credentials(root)
            with Client(server.grpc_port, credentials, "localhost") as client:
                return refusal(client.call(V1, [], timeout=10))[0]

        old = authority.root.read_bytes()
        assert await asyncio.to_thread(ask, old) == "INVALID_ARGUMENT"
        other = Authority(authority.root.parent)
        certificate.refresh()
        assert await asyncio.to_thread(ask, other.root.read_bytes()) == "INVALID_ARGUMENT"
        assert await asyncio.to_thread(ask, old) in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


# Faults


@pytest.mark.parametrize("end", ["cancel", "deadline", "connection"])
async def test_a_client_that_leaves(exact: ExactService, end: str) -> None:
    """A cancelled call, one whose deadline passes, and a lost connection end the session."""
    with Client(exact.grpc_port) as client:
        await eventually(lambda: free(exact))
        held = Held(first(V1), audio_of(V1, say("somebody speaks").tobytes()))
        call = client.call(V1, held, timeout=5.0 if end == "deadline" else PATIENCE_S)
        await eventually(lambda: running(figures(exact), "google"))
        if end == "cancel":
            call.cancel()
        elif end == "connection":
            client.channel.close()
        await eventually(lambda: running(figures(exact), "google", 0))
        assert (await asyncio.to_thread(refusal, call))[0] in ("CANCELLED", "DEADLINE_EXCEEDED")
        held.end.set()
    await eventually(lambda: free(exact))


async def test_a_client_that_leaves_a_recording_half_decoded(exact: ExactService) -> None:
    """The decoder ends with its call."""
    wav = recording(np.tile(TALK, 20))
    with Client(exact.grpc_port) as client:
        held = Held(first(RIVA, {}), *(audio_of(RIVA, piece) for piece in pieces(wav[: len(wav) // 2], 64_000)))
        call = client.call(RIVA, held)
        await eventually(lambda: running(figures(exact), "riva"))
        call.cancel()
        held.end.set()
        await eventually(lambda: running(figures(exact), "riva", 0))
    await eventually(lambda: free(exact))


async def test_a_killed_triton_is_a_pause(exact: ExactService, client: Client) -> None:
    """In the middle of a call: no word is lost or doubled."""
    requests = [first(V1), *(audio_of(V1, piece) for piece in pieces(TALK))]
    half = len(requests) // 2
    go_on = threading.Event()

    def sent() -> Iterator[Any]:
        yield from requests[:half]
        assert go_on.wait(PATIENCE_S)
        yield from requests[half:]

    call = client.call(V1, sent(), timeout=2 * PATIENCE_S)
    await eventually(lambda: running(figures(exact), "google"))
    await asyncio.to_thread(exact.kill_recogniser)
    go_on.set()
    assert text_of(finals(await asyncio.to_thread(list, call))) == "hello world goodbye"
    await eventually(lambda: post(exact.url, "/readyz", method="GET")[0] == 200)


def not_read(service: ExactService) -> int:
    """Return how many sessions have ended because their clients did not read."""
    counted = re.search(r'streamer_sessions_ended_total\{reason="not_read"\} (\d+)', figures(service))
    return int(counted[1]) if counted else 0


# A client that does not read takes so little that its first response waits for it: neither the pace of the machine nor
# the number of responses decides when the service notices it.
AHEAD = 5


def unread(client: Client) -> Any:
    """Begin a call whose responses are more than a client takes that does not read."""
    return client.call(V1, [first(V1), audio_of(V1, say("nobody reads this").tobytes())])


async def test_a_client_that_does_not_read(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session ends and gives its slot back, and its connection is cut: it holds no place among the calls."""
    monkeypatch.setattr("streamer.bridge.dialects.dialect_client.SEND_LIMIT_S", 0.5)
    before = not_read(exact)
    states: list[Any] = []
    with Client(exact.grpc_port, ahead=AHEAD) as client:
        client.channel.subscribe(states.append)
        call = unread(client)
        await eventually(lambda: not_read(exact) == before + 1)
        await eventually(lambda: free(exact))
        await eventually(lambda: grpc.ChannelConnectivity.READY in states[:-1])  # and not any more
        responses: list[Any] = []
        with pytest.raises(grpc.RpcError) as error:
            await asyncio.to_thread(lambda: responses.extend(call))
    assert error.value.code() is not grpc.StatusCode.OK


async def test_another_call_of_a_client_that_does_not_read(
    exact: ExactService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on to its end, and the connection is cut after it."""
    before = not_read(exact)
    states: list[Any] = []
    with Client(exact.grpc_port, ahead=AHEAD) as client:
        other = Held(first(V1), audio_of(V1, say("hello").tobytes()))
        going_on = client.call(V1, other)
        await eventually(lambda: running(figures(exact), "google"))
        client.channel.subscribe(states.append)
        with monkeypatch.context() as patch:
            patch.setattr("streamer.bridge.dialects.dialect_client.SEND_LIMIT_S", 0.5)
            call = unread(client)
            await eventually(lambda: not_read(exact) == before + 1)
        other.end.set()
        assert text_of(finals(await asyncio.to_thread(list, going_on))) == "hello"
        await eventually(lambda: grpc.ChannelConnectivity.READY in states[:-1])
        call.cancel()


class Asking:
    """A client of HTTP/2 that has no call, and asks whether the service is there."""

    _PREFACE, _SETTINGS, _PING, _GO_AWAY = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 4, 6, 7
    _ACKNOWLEDGED = 1

    def __init__(self, port: int | None) -> None:
        assert port is not None
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(self._PREFACE + self._frame(self._SETTINGS, b""))

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self) -> str:
        """Ask, and return the last word of the service if it has said it, and otherwise nothing."""
        self._socket.sendall(self._frame(self._PING, bytes(8)))
        while True:
            head = self._file.read(9)
            content = self._file.read(int.from_bytes(head[:3], "big"))
            if head[3] == self._GO_AWAY:
                return content[8:].decode()
            if head[3] == self._PING and head[4] & self._ACKNOWLEDGED:
                return ""

    def _frame(self, kind: int, content: bytes) -> bytes:
        return len(content).to_bytes(3, "big") + bytes([kind]) + bytes(5) + content


def test_a_client_that_asks_whether_the_service_is_there(exact: ExactService) -> None:
    """It is answered as often as clients are set to ask at most, without a call, too."""
    with Asking(exact.grpc_port) as asking:
        for _ in range(6):
            assert asking.ask() == ""
            time.sleep(0.6)  # the shortest time that grpcio takes is 1 s


def test_a_client_that_asks_all_the_time(exact: ExactService, client: Client) -> None:
    """It is cut soon, and others are served."""
    with Asking(exact.grpc_port) as asking:
        assert "too_many_pings" in [asking.ask() for _ in range(5)]
    assert text_of(finals(client.stream(RIVA, TALK))) == "hello world goodbye"


async def test_the_shutdown(exact_triton: TritonServer) -> None:
    """What was said is final before the calls end with UNAVAILABLE; one without a session ends at once."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(serving(exact_triton, policy=PortPolicy(grpc=ANY)))
        with Client(service.grpc_port) as client:
            busy = Held(first(V1), audio_of(V1, say("heard").tobytes()))
            waiting = Held(first(V1))
            said, silent = client.call(V1, busy), client.call(V1, waiting)
            await eventually(lambda: running(service.metrics.exposition().decode(), "google"))
            leaving = asyncio.create_task(stack.aclose())
            response = await asyncio.to_thread(next, said)
            ends = [await asyncio.to_thread(refusal, call) for call in (said, silent)]
            busy.end.set()
            waiting.end.set()
            await leaving
    assert text_of(response.results) == "heard"
    assert [code for code, _ in ends] == ["UNAVAILABLE"] * 2
    assert all("shutting down" in details for _, details in ends)


# The port


async def test_metrics(exact: ExactService, client: Client) -> None:
    """Sessions, refusals and audio are counted by format."""

    def count(name: str, protocol: str) -> float:
        [line] = [each for each in figures(exact).splitlines() if each.startswith(f'{name}{{protocol="{protocol}"}}')]
        return float(line.rpartition(" ")[2])

    names = ("streamer_protocol_sessions_total", "streamer_protocol_refusals_total", "streamer_protocol_messages_total")
    before = {(name, protocol): count(name, protocol) for name in names for protocol in ("riva", "google")}
    await asyncio.to_thread(client.stream, RIVA, TALK)
    await asyncio.to_thread(refusal, client.call(V2, []))
    after = {key: count(*key) - value for key, value in before.items()}
    assert (after[names[0], "riva"], after[names[0], "google"]) == (1, 0)
    assert (after[names[1], "riva"], after[names[1], "google"]) == (0, 1)
    assert after[names[2], "riva"] > 1


# Ends a connection with a reason that looks like a line of the log.
_HOSTILE = """
import asyncio, socket
from tests.bridge.access.bare_port import listening

def frame(kind, content):
    return len(content).to_bytes(3, "big") + bytes((kind, 0)) + bytes(4) + content

async def main():
    async with listening(grpc=("127.0.0.1", 0)) as server:
        with socket.create_connection(("127.0.0.1", server.grpc_port)) as client:
            goodbye = frame(7, bytes(7) + b"\\x02" + b"why not\\nE0101 a line of mine")
            client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, b"") + goodbye)
            client.shutdown(socket.SHUT_WR)
            await asyncio.to_thread(lambda: [*iter(lambda: client.recv(4096), b"")])

asyncio.run(main())
"""


def test_what_a_client_cannot_write_into_the_log() -> None:
    """The reason with which it ends its connection."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    command = [sys.executable, "-c", _HOSTILE]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert "a line of mine" not in done.stderr


async def test_a_port_that_is_in_use() -> None:
    """The service does not start, and says which port it is."""
    async with listening(grpc=ANY) as server:
        assert server.grpc_port is not None
        policy = PortPolicy(grpc=("127.0.0.1", server.grpc_port))
        other = BridgeServer("127.0.0.1", 0, models_at(), Metrics(), policy=policy)
        with pytest.raises(PortError, match=f"Port {server.grpc_port} of 127.0.0.1 is already in use"):
            await other.start()
        await other.stop()


async def test_no_port_without_the_setting() -> None:
    """A service does not listen for gRPC by itself."""
    async with listening() as server:
        assert server.grpc_port is None


async def test_health_and_reflection(exact: ExactService, client: Client) -> None:
    """A probe learns whether the service takes sessions, and a tool what is spoken here."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    serving = health_pb2.HealthCheckResponse.ServingStatus.Value("SERVING")

    def status(port: int | None, service: str) -> int:
        with Client(port) as asking:
            request = health_pb2.HealthCheckRequest(service=service)
            return int(health_pb2_grpc.HealthStub(asking.channel).Check(request, timeout=PATIENCE_S).status)

    for service in ("", *SERVICES):
        await eventually(lambda service=service: status(exact.grpc_port, service) == serving)  # type: ignore[misc]
    database = ProtoReflectionDescriptorDatabase(client.channel)
    names = await asyncio.to_thread(database.get_services)
    assert set(SERVICES) < set(names)
    files = [await asyncio.to_thread(database.FindFileContainingSymbol, name) for name in names]
    assert all(name.startswith(file.package) for name, file in zip(names, files, strict=True))
    async with listening(grpc=ANY) as server:
        assert await asyncio.to_thread(status, server.grpc_port, V1) != serving


async def test_without_the_packages_for_health(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says in a sentence what is left out, and how to add it."""
    monkeypatch.setitem(sys.modules, "grpc_health.v1", None)
    caplog.set_level(logging.INFO, "streamer")
    async with listening(grpc=ANY) as server:
        assert server.grpc_port
    assert any("pip install 'streamer-asr[grpc]'" in record.getMessage() for record in caplog.records)


async def test_packages_for_health_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The service starts without them, and the log says why."""

    class Misfit(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise TypeError("protobuf is too old")

    monkeypatch.setitem(sys.modules, "grpc_health.v1", Misfit("grpc_health.v1"))
    async with listening(grpc=ANY) as server:
        assert server.grpc_port
    assert any("do not fit" in record.getMessage() for record in caplog.records)
