"""Traces of real sessions, kept in memory instead of being sent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from streamer.base.codes import ErrorCode
from streamer.base.events import Recovered
from streamer.base.limits import READER
from streamer.bridge.service import Service
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.telemetry.traces import SLOW_S, Tracing
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, origin
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import SPOKEN, receive, recognise, rest, serving, session, text
from tests.bridge.session.driven_session import Driven
from tests.bridge.telemetry.exposed_figures import until_over


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Iterator[Tracing]:
    tracing = Tracing(SimpleSpanProcessor(spans))
    yield tracing
    tracing.close()


def named(spans: InMemorySpanExporter, name: str) -> list[Any]:
    """Return the finished spans with this name."""
    return [span for span in spans.get_finished_spans() if span.name == name]


async def test_a_session_is_a_trace(triton: TritonServer, spans: InMemorySpanExporter, tracing: Tracing) -> None:
    """The spans of a session lie within it, each final has its segment, and no span contains words."""
    async with serving(triton, tracing=tracing) as service:
        events = await recognise(service.url, SPOKEN[:200_000])
        async with session(service.url) as websocket:
            await websocket.send("nonsense")
            await rest(websocket)
        await until_over(service.metrics)
    done, refused = sorted(named(spans, "session"), key=lambda span: span.attributes["streamer.ended_by"] != "done")
    assert done.attributes["streamer.audio_ms"] == 6250
    assert done.attributes["audio.encoding"] == "pcm_s16le"
    assert refused.attributes["streamer.ended_by"] == "bad_json"
    assert done.context.trace_id != refused.context.trace_id

    parts: list[Any] = [span for span in spans.get_finished_spans() if span.parent is not None]
    of_done = [span for span in parts if span.context.trace_id == done.context.trace_id]
    assert all(span.parent.span_id == done.context.span_id for span in of_done)
    for span in of_done:
        assert done.start_time <= span.start_time <= span.end_time <= done.end_time
    finals = [event for event in events if event["type"] == "final"]
    segments = [span for span in of_done if span.name == "segment"]
    assert [span.attributes["streamer.segment"] for span in segments] == [final["segment"] for final in finals]
    assert [span.attributes["streamer.end_ms"] for span in segments] == [final["end_ms"] for final in finals]
    assert segments[0].attributes["streamer.requests"] > 0
    assert len(named(spans, "admission")) == 2

    words = [word for word in text(events).split() if len(word) > 4]
    told = " ".join(span.to_json() for span in spans.get_finished_spans())
    assert words
    assert not any(word in told for word in words)


@pytest.mark.usefixtures("installed_server")
async def test_the_call_of_a_reader_has_a_span(spans: InMemorySpanExporter, tracing: Tracing, tmp_path: Path) -> None:
    """Each segment that a reader reads has one, within its answer; the segment says who has read it."""
    audio = np.concatenate([say("one segment"), silence(1500), say("and another"), silence(300)]).tobytes()
    repository = exact_repository(tmp_path, reader=True)
    triton = TritonServer(repository, models=[MODEL], instances=1, slots=4, reader=repository / READER)
    async with Service(triton, port=0, tracing=tracing) as service:
        for second_pass in (READER, True):
            await recognise(service.url, audio, second_pass=second_pass)
        await until_over(service.metrics)
    whole, plain = named(spans, "session")
    segments = [(span.parent.span_id, span.attributes["streamer.read_by"]) for span in named(spans, "segment")]
    read, again = whole.context.span_id, plain.context.span_id
    assert segments == [(read, "reader"), (read, "reader"), (again, "second_pass"), (again, "second_pass")]
    calls = named(spans, "reader")
    assert [call.parent.span_id for call in calls] == [read, read]
    assert all(whole.start_time < call.start_time < call.end_time < whole.end_time for call in calls)


@pytest.mark.usefixtures("installed_server")
async def test_a_recovery_is_seen(spans: InMemorySpanExporter, tracing: Tracing, tmp_path: Path) -> None:
    """A killed Triton shows as a recovery, with its cause and gap, in the metrics and in the trace."""
    audio = say("these are a few words that are said without a pause").tobytes()
    triton = TritonServer(exact_repository(tmp_path), instances=1, slots=4)
    async with Service(triton, port=0, tracing=tracing) as service:
        async with session(service.url) as websocket:
            await websocket.send(audio)
            while (await receive(websocket))["type"] != "partial":
                pass
            os.kill(triton.pid, signal.SIGKILL)
            await websocket.send('{"type":"stop"}')
            events = await rest(websocket)
        seen = await until_over(service.metrics)
    [gap_s] = [event["gap_ms"] / 1000 for event in events if event["type"] == "recovered"]
    assert seen['streamer_recoveries_total{cause="unavailable"}'] == 1
    assert seen["streamer_recovery_gap_seconds_count"] == 1
    assert seen["streamer_recovery_gap_seconds_sum"] == pytest.approx(gap_s)
    assert 0 < seen["streamer_replayed_seconds_total"] <= len(audio) / 32_000
    assert seen['streamer_messages_total{type="recovered"}'] == 1
    assert seen['streamer_sessions_ended_total{reason="done"}'] == 1
    [recovery], [whole] = named(spans, "recovery"), named(spans, "session")
    assert recovery.attributes == {"streamer.cause": "unavailable"}
    assert (recovery.end_time - recovery.start_time) / 1e9 == pytest.approx(gap_s, abs=0.1)
    assert {event.attributes["code"] for event in whole.events} == {"unavailable"}


def test_recovery_and_failures(spans: InMemorySpanExporter, tracing: Tracing) -> None:
    """A failure is an event of the session; a recovery is a span as long as the gap; a slow request is a span."""
    driven = Driven()
    watch, now = SessionMetrics(driven.session, Metrics(tracing)), time.monotonic()
    watch.note_failure(0, "overdue", now)
    watch.note_message(Recovered(700), now + 0.7)
    watch.note_answer(SLOW_S / 2, now + 1)
    watch.note_answer(SLOW_S, now + 2)
    driven.session.vanish(ErrorCode.INTERNAL)
    watch.end(now + 3)
    [recovery], [request], [whole] = named(spans, "recovery"), named(spans, "request"), named(spans, "session")
    assert recovery.attributes == {"streamer.cause": "overdue"}
    assert (recovery.end_time - recovery.start_time) / 1e9 == pytest.approx(0.7, abs=0.01)
    assert (request.end_time - request.start_time) / 1e9 == pytest.approx(SLOW_S, abs=0.01)
    assert [(event.name, event.attributes["code"]) for event in whole.events] == [("request failed", "overdue")]
    assert whole.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("name", ["", "recogniser-3"])
def test_the_service_has_a_name(name: str, monkeypatch: pytest.MonkeyPatch, spans: InMemorySpanExporter) -> None:
    """The service's name is `streamer` unless the environment sets another."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    tracing = Tracing(SimpleSpanProcessor(spans))
    tracing.span("session", time.monotonic(), {}).end()
    tracing.close()
    [span] = spans.get_finished_spans()
    assert span.resource.attributes["service.name"] == (name or "streamer")


def test_spans_reach_a_collector() -> None:
    """With a URL, traces go there as OTLP over gRPC, at the latest at the end."""
    got: list[str] = []

    class Collector(TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: object) -> ExportTraceServiceResponse:
            got.extend(s.name for r in request.resource_spans for scope in r.scope_spans for s in scope.spans)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        tracing = Tracing.towards(f"http://127.0.0.1:{port}")
        tracing.span("session", time.monotonic(), {}).end()
        tracing.close()
    finally:
        server.stop(None).wait(60)
    assert got == ["session"]


async def test_requests_bear_the_id_of_their_session(triton: TritonServer) -> None:
    """Triton's own spans and log have the request's id, so they can be matched with the session's trace."""

    async def one(number: str) -> None:
        origin.set(f"{number}-")
        sequence = link.sequence()
        asking = asyncio.create_task(sequence.send(bytes(320)))
        await asyncio.sleep(0)
        assert any(re.fullmatch(rf"{number}-\d+", request) for request in link._waiting)
        await asking
        await sequence.send(end=True)

    async with await Link.connect(triton.grpc_address) as link:
        await asyncio.gather(one("s1"), one("s2"))


def test_a_dead_collector_holds_nobody_up() -> None:
    """Without a collector, spans are dropped, and the end does not wait for it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        program = (
            "import time; from streamer.bridge.telemetry import traces\n"
            "limit_s, traces.EXPORT_LIMIT_S = traces.EXPORT_LIMIT_S, 600\n"  # for a batch, if nothing ends it sooner
            f"tracing = traces.Tracing.towards('http://127.0.0.1:{taken.getsockname()[1]}')\n"
            "[tracing.span('session', time.monotonic(), {}).end() for _ in range(10_000)]\n"
            "traces.EXPORT_LIMIT_S = limit_s; tracing.close()"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_nothing_is_loaded_unless_asked_for() -> None:
    """Without traces the service does not import OpenTelemetry; if that is missing, a message says what to install."""
    program = (
        "import sys, streamer.bridge.service, streamer.commands.serve\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
        "sys.modules['opentelemetry'] = None\n"
        "from streamer.bridge.telemetry.traces import Tracing, TracesError\n"
        "try: Tracing.towards('http://127.0.0.1:1')\n"
        "except TracesError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'streamer-asr[traces]'" in done.stdout
