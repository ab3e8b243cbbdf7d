"""The metrics of a service after real sessions, and their bounded series."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

import streamer
from streamer.base.codes import FailureCode
from streamer.bridge.service import Service
from streamer.bridge.telemetry.metrics import FAILURES, MESSAGES, PACES, PARTS, REASONS, UPLOAD_REASONS, Metrics
from streamer.bridge.triton.server import TritonServer
from streamer.testing.faulty_proxy import FaultyProxy
from streamer.wire.events import Unknown
from tests.bridge.descriptors import no_descriptors
from tests.bridge.service_client import SPOKEN, eventually, receive, recognise, rest, serving, session
from tests.bridge.telemetry.exposed_figures import figures, until_over

START = '{"type":"start"}'
LAG = 'streamer_lag_max_seconds{pace="ahead"}'
PACKAGE = Path(streamer.__file__).parent
# The error codes, in the places where a client's connection ends.
GIVEN = re.compile(r"\b(?:ErrorCode|QuietEnding)\.(\w+)")


async def test_figures_are_what_happened(triton: TritonServer) -> None:
    """After some sessions every count is exact, and each partial and final has its latencies."""
    audio, began = SPOKEN[:200_000], time.monotonic()
    async with serving(triton) as service:
        told = [event for events in [await recognise(service.url, audio) for _ in range(2)] for event in events]
        async with connect(service.url) as websocket:
            await websocket.send("{")
            await rest(websocket)
        async with session(service.url) as websocket:
            await websocket.send('{"type":"start"}')
            told += await rest(websocket)
        seen = await until_over(service.metrics)
    elapsed = time.monotonic() - began

    sent = Counter(event["type"] for event in told)
    assert {"partial", "final"} <= set(sent)
    for kind, number in sent.items():
        # The error for the broken JSON is not among these messages.
        assert seen[f'streamer_messages_total{{type="{kind}"}}'] == number + (kind == "error")
    assert seen['streamer_messages_total{type="ready"}'] == 3
    assert seen["streamer_sessions_opened_total"] == 3
    assert seen['streamer_sessions_ended_total{reason="done"}'] == 2
    assert seen['streamer_sessions_ended_total{reason="unexpected"}'] == 1
    assert seen['streamer_refusals_total{reason="bad_json"}'] == 1
    assert seen["streamer_received_seconds_total"] == pytest.approx(2 * len(audio) / 32_000)
    for name, kind in (("partial_latency", "partial"), ("final_latency", "final"), ("time_to_final", "final")):
        # These clients sent everything at once.
        assert seen[f'streamer_{name}_seconds_count{{pace="real_time"}}'] == 0
        assert seen[f'streamer_{name}_seconds_count{{pace="ahead"}}'] == sent[kind]
        assert 0 < seen[f'streamer_{name}_seconds_sum{{pace="ahead"}}'] < elapsed * sent[kind]
    lags = sum(seen[f'streamer_lag_seconds_count{{pace="{pace}"}}'] for pace in PACES)
    assert 2 * len(audio) / 32_000 / 1.28 <= lags <= seen["streamer_answer_seconds_count"]
    assert seen[LAG] == seen["streamer_backlog_bytes"] == seen["streamer_computing"] == 0
    assert seen["streamer_recovery_gap_seconds_count"] == 0
    assert {value for name, value in seen.items() if name.startswith("streamer_recoveries_total{")} == {0}


async def test_latencies_of_somebody_who_speaks(triton: TritonServer) -> None:
    """Live audio is measured separately, and its last word cannot be final before it was spoken."""
    audio, piece = SPOKEN[:128_000], 3_200
    async with serving(triton) as service, session(service.url, endpoint={"after_text_ms": 400}) as websocket:
        reading = asyncio.create_task(rest(websocket))
        for place in range(0, len(audio), piece):
            await websocket.send(audio[place : place + piece])
            await asyncio.sleep(piece / 32_000)
        await websocket.send('{"type":"stop"}')
        sent = Counter(event["type"] for event in await reading)
        seen = await until_over(service.metrics)
    assert seen['streamer_partial_latency_seconds_count{pace="real_time"}'] == sent["partial"] > 0
    assert seen['streamer_final_latency_seconds_count{pace="real_time"}'] == sent["final"] > 0
    late = seen['streamer_final_latency_seconds_sum{pace="real_time"}']
    assert 0 < late <= seen['streamer_time_to_final_seconds_sum{pace="real_time"}']


async def test_sessions_are_told_by_state(triton: TritonServer) -> None:
    """A connection counts from its first moment, in the state of its session."""
    async with serving(triton) as service:
        state = 'streamer_sessions_by_state{{protocol="native",state="{}"}}'.format
        async with connect(service.url), session(service.url) as websocket:
            seen = figures(service.metrics)
            assert (seen[state("opening")], seen[state("streaming")], seen[state("closed")]) == (1, 1, 0)
            assert seen["streamer_sessions"] == seen["streamer_sequences"] == 1
            await websocket.send('{"type":"stop"}')
            await rest(websocket)
        seen = await until_over(service.metrics)
        assert {value for name, value in seen.items() if name.startswith("streamer_sessions_by_state")} == {0}


async def test_what_is_behind_is_shown(triton: TritonServer) -> None:
    """Audio that comes faster than it is computed shows as lag and as backlog, and both go back to zero."""
    way = FaultyProxy(lambda: triton.grpc_address)
    await way.open()
    async with Service(way.address, port=0) as service, session(service.url) as websocket:
        way.stall()
        await websocket.send(SPOKEN[:320_000])
        await eventually(lambda: figures(service.metrics)["streamer_backlog_bytes"] > 32_000)
        await eventually(lambda: figures(service.metrics)[LAG] > 1)
        way.resume()
        await websocket.send('{"type":"flush"}')
        while (await receive(websocket))["type"] != "flushed":
            pass
        seen = figures(service.metrics)
        assert seen[LAG] == seen["streamer_backlog_bytes"] == 0
    await way.close()


def test_descriptors() -> None:
    """Open files and sockets are counted, even if no descriptor is free to count them with."""

    def told() -> dict[str, float]:
        lines = Metrics().exposition().decode().splitlines()
        return {
            name: float(value)
            for name, value in (line.split() for line in lines if line.startswith("streamer_descriptors"))
        }

    def all_taken() -> bool:
        with no_descriptors():
            figures = told()
        return figures["streamer_descriptors"] == figures["streamer_descriptors_limit"]

    before = told()["streamer_descriptors"]
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.socket())
        # Other parts of this process may close some meanwhile.
        assert before + 50 < told()["streamer_descriptors"] < before + 150
    # If one is closed meanwhile, it is free to count with. Then once more.
    assert any(all_taken() for _ in range(5))


@pytest.mark.fails_inside
def test_failures_are_counted_by_part() -> None:
    """Failures of the HTTP part also count in its own counter."""
    metrics = Metrics()
    for part in PARTS:
        metrics.failures(part).report("it failed", ValueError(part))
    told = metrics.exposition().decode()
    for part in PARTS:
        assert f'streamer_unexpected_failures_total{{part="{part}"}} 1.0' in told
    assert "streamer_http_errors_total 1.0" in told


def test_services_do_not_clash() -> None:
    """Two services in one process count separately."""
    one, other = Metrics(), Metrics()
    one.sessions_ended.labels("done").inc()
    assert b'streamer_sessions_ended_total{reason="done"} 1.0' in one.exposition()
    assert b'streamer_sessions_ended_total{reason="done"} 1.0' not in other.exposition()


def test_exposition() -> None:
    """Every metric is shown from the start, each label value with 0, so that a first event shows as a rise."""
    seen = figures(Metrics())
    for name in ("ready", "sessions", "sessions_limit", "received_seconds_total", "answer_seconds_count"):
        assert seen[f"streamer_{name}"] == 0
    assert seen['streamer_refusals_total{reason="full"}'] == 0
    assert seen['streamer_recoveries_total{cause="unavailable"}'] == 0


@pytest.mark.parametrize("name", ["refusals", "sessions_ended", "request_failures", "messages", "recoveries"])
def test_labels_are_bounded(name: str) -> None:
    """All unknown label values together make one series."""
    metrics = Metrics()
    before = set(figures(metrics))
    for number in range(100):
        getattr(metrics, name).labels(f"word_{number}").inc()
    after = figures(metrics)
    assert {re.sub(r'"\w+"', "", other) for other in set(after) - before} == set()
    assert [value for sample, value in after.items() if sample.startswith(f"streamer_{name}_total") and value] == [100]


def test_every_reason_has_its_own_count() -> None:
    """No code with which a session or an upload can end, or a request can fail, is counted as `other`."""

    def given(*parts: str) -> set[str]:
        files = [file for part in parts for file in (PACKAGE / part).rglob("*.py")]
        return {word.lower() for file in files for word in GIVEN.findall(file.read_text(encoding="utf-8"))}

    of_sessions = given("bridge/session", "bridge/access", "bridge/upstreams") - {
        "after_stop",
        "forbidden",
    }  # these end nothing
    assert {"full", "idle", "no_start", "done"} <= of_sessions <= set(REASONS)
    assert of_sessions | given("bridge/uploads", "wire/native_upload.py") <= set(UPLOAD_REASONS)
    assert set(FAILURES) == {code.value for code in FailureCode}
    assert {"partial", "final", "error"} <= set(MESSAGES)


def test_what_later_models_send_is_counted() -> None:
    """Both counters stand there from the start, and grow with what the service ignores."""
    metrics = Metrics()
    event, field = (f'streamer_unknown_event_parts_total{{part="{part}"}}' for part in ("event", "field"))
    assert (figures(metrics)[event], figures(metrics)[field]) == (0, 0)
    metrics.unknown = lambda: Counter({Unknown.FIELD: 3})
    assert (figures(metrics)[event], figures(metrics)[field]) == (0, 3)
