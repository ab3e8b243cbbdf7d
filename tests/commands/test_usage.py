"""The command `usage`, and the service that keeps the file: real services with keys, restarts and kills."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.access.keys import make_key
from streamer.bridge.telemetry.metrics import MOST_KEYS, Metrics
from streamer.bridge.telemetry.usage import Usage, UsageFile
from streamer.bridge.triton.server import TritonServer
from streamer.commands.cli import run
from tests.bridge.service_client import SPOKEN, START, eventually, receive, recognise, rest, text
from tests.bridge.telemetry.exposed_figures import figures
from tests.redis_server import RedisServer, redis_server
from tests.serve_process import Serving, serving

SECONDS = 2.0
AUDIO = SPOKEN[: int(SECONDS * 32_000)]


@pytest.fixture
def store() -> Iterator[RedisServer]:
    """A store that is empty."""
    with redis_server() as running:
        yield running


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    return exact_triton


class Place:
    """A folder with keys of alice and bob, and the file of usage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.keys = folder, folder / "usage.json", folder / "keys"
        made = {name: make_key(name) for name in ("alice", "bob")}
        self.secrets = {name: key.secret for name, key in made.items()}
        self.keys.write_text("".join(f"{key.line}\n" for key in made.values()))

    @contextmanager
    def serving(self, triton: TritonServer, *arguments: str) -> Iterator[Serving]:
        """A service with the keys and the file."""
        access = ["--keys", str(self.keys), "--usage-file", str(self.file), "--open-metrics"]
        with serving("--triton", triton.grpc_address, *access, *arguments) as served:
            yield served

    def url(self, served: Serving, name: str = "alice") -> str:
        """The address for the holder of this key."""
        return f"{served.url}?key={self.secrets[name]}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def usage(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What the command prints as JSON."""
    capsys.readouterr()
    assert run(["usage", *arguments, "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


async def refused(url: str) -> dict[str, Any]:
    """The error of a session that is refused."""
    async with connect(url) as websocket:
        with suppress(ConnectionClosed):  # the service may be faster
            await websocket.send(START)
        return await receive(websocket)


async def test_usage_survives_a_restart(place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Metrics, log and file have the same figures by key, and another service goes on with them."""
    for _ in range(2):
        with place.serving(triton, "--per-key", "1") as served:
            assert text(await recognise(place.url(served), AUDIO))
            async with connect(place.url(served, "bob")) as websocket:
                await websocket.send(START)
                assert (await receive(websocket))["type"] == "ready"
                assert (await refused(place.url(served, "bob")))["code"] == "too_many_sessions"
            assert (await refused(f"{served.url}?key=unknown"))["code"] == "unauthorized"
            await eventually(lambda: 'streamer_key_refusals_total{key="bob"} 1.0' in served.exposition)
            exposed = served.exposition
            assert served.end() == 0
        for name, sessions, seconds, refusals in (("alice", 1, SECONDS, 0), ("bob", 1, 0, 1)):
            for metric, value in (("sessions", sessions), ("received_seconds", seconds), ("refusals", refusals)):
                assert re.search(rf'^streamer_key_{metric}_total{{key="{name}"}} {value:.1f}$', exposed, re.MULTILINE)
        [line] = [line for line in served.lines if " ended " in line and "key=alice" in line]
        assert re.search(r"info ended session=\w+ key=alice reason=done audio_ms=2000$", line)
        # The second connection of bob might have resumed the first one's session, so it had one of its own.
        assert any(re.search(r" ended .*key=bob reason=too_many_sessions audio_ms=0$", line) for line in served.lines)
    both = {"sessions": 2, "audio_s": 2 * SECONDS, "refusals": 0}
    content = usage(capsys, str(place.file))
    assert content["keys"]["alice"]["month"] == both
    assert content["keys"]["bob"]["month"] == {"sessions": 2, "audio_s": 0, "refusals": 2}
    assert content["day"].startswith(content["month"])


async def test_a_quota_survives_a_restart(place: Place, triton: TritonServer) -> None:
    """The audio of the last hour counts after a restart: a key that has used it up is refused at once."""
    arguments = ("--audio-per-key", "3")
    with place.serving(triton, *arguments) as served:
        assert (await recognise(place.url(served), AUDIO))[-1]["type"] == "done"
        assert served.end() == 0
    with place.serving(triton, *arguments) as served:
        async with connect(place.url(served)) as websocket:
            await websocket.send(START)
            await websocket.send(AUDIO)
            assert (await rest(websocket))[-1]["code"] == "audio_used_up"
        assert served.end() == 0
    with place.serving(triton, *arguments) as served:
        error = await refused(place.url(served))
        assert error["code"] == "audio_used_up"
        assert re.search(r"3 s of audio, the maximum for an hour; continue in 3[56]\d\d s", error["message"])
        assert (await recognise(place.url(served, "bob"), AUDIO))[-1]["type"] == "done"


async def test_a_killed_service(place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str]) -> None:
    """What was written before the kill is there, and the next service gets the file."""
    with place.serving(triton) as served:
        await recognise(place.url(served), AUDIO)
        until = time.monotonic() + 60
        while not place.file.exists() or not usage(capsys, str(place.file))["keys"]:
            assert time.monotonic() < until
            await asyncio.sleep(0.2)
        served.end(signal.SIGKILL)
    with place.serving(triton) as served:
        await recognise(place.url(served), AUDIO)
        assert served.end() == 0
    assert usage(capsys, str(place.file))["keys"]["alice"]["month"]["sessions"] == 2


async def test_a_full_disk(place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The service serves on and says once that it cannot write; with room again, nothing is missing."""
    with place.serving(triton) as served:
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        await recognise(place.url(served), AUDIO)
        await asyncio.to_thread(served.wait_for, "usage not written, it is kept in memory")
        assert text(await recognise(place.url(served), AUDIO))
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await asyncio.to_thread(served.wait_for, "usage written again")
        assert served.end() == 0
    assert sum("usage not written" in line for line in served.lines) == 1
    assert usage(capsys, str(place.file))["keys"]["alice"]["day"]["audio_s"] == 2 * SECONDS


def test_two_services(place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one is refused before it starts anything."""
    with place.serving(triton):
        assert run(["serve", "--keys", str(place.keys), "--usage-file", str(place.file)]) == 2
    assert "usage.json belongs to another service that runs now: give each" in capsys.readouterr().err


def test_what_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged file and a service without keys have a sentence each; neither starts anything."""
    assert run(["serve", "--usage-file", str(place.file)]) == 2
    assert "--usage-file has what each key uses: give --keys too." in capsys.readouterr().err
    place.file.write_text("{")
    assert run(["serve", "--keys", str(place.keys), "--usage-file", str(place.file)]) == 2
    assert "usage.json is damaged" in capsys.readouterr().err
    for file, words in ((place.file, "is damaged"), (place.folder / "none", "cannot be read: No such file")):
        assert run(["usage", str(file)]) == 1
        assert words in capsys.readouterr().err


async def test_a_rotated_key(place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Another key of the same name counts in the same line; a name that is gone keeps its own."""
    with place.serving(triton) as served:
        await recognise(place.url(served), AUDIO)
        await recognise(place.url(served, "bob"), AUDIO)
        new = make_key("alice")
        place.keys.write_text(f"{new.line}\n")
        await recognise(f"{served.url}?key={new.secret}", AUDIO)
        assert served.end() == 0
    keys = usage(capsys, str(place.file))["keys"]
    assert {name: periods["month"]["sessions"] for name, periods in keys.items()} == {"alice": 2, "bob": 1}


async def test_the_service_is_asked(
    place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str], store: RedisServer
) -> None:
    """Without a file, a bridge says what all have counted, also one that has ended; without the store, what it has."""
    with place.serving(triton, *store.options) as first:
        own = ["--keys", str(place.keys), "--open-metrics", *store.options, "--workers", "2"]
        with serving("--triton", triton.grpc_address, *own) as second:
            await recognise(place.url(second), AUDIO)
            await recognise(place.url(second, "bob"), AUDIO)
            assert second.end() == 0
        await recognise(place.url(first), AUDIO)
        for _ in range(100):
            keys = usage(capsys, "--control", str(first.control))["keys"]
            if keys["alice"]["day"]["sessions"] == 2:
                break
            await asyncio.sleep(0.2)
        assert {name: each["month"]["sessions"] for name, each in keys.items()} == {"alice": 2, "bob": 1}
        assert keys["alice"]["month"]["audio_s"] == 2 * SECONDS
        store.kill()
        for _ in range(100):
            await asyncio.sleep(0.2)
            status = run(["usage", "--control", str(first.control)])
            shown = capsys.readouterr()
            if status == 1 and "alice" in shown.out:  # the file is written every ten seconds
                break
        assert "streamer: The store is away, so this is what this bridge has in its file.\n" in shown.err
        assert "bob" not in shown.out
        assert first.end() == 0


def test_nobody_knows_the_usage(
    place: Place, triton: TritonServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A service that keeps nothing says so, and without a service a sentence says what was tried."""
    with serving("--triton", triton.grpc_address, "--keys", str(place.keys), "--workers", "2") as served:
        assert run(["usage", "--control", str(served.control)]) == 1
        assert "does not keep what keys use: start it with --usage-file, or with --store." in capsys.readouterr().err
    assert run(["usage", "--control", str(tmp_path / "nothing")]) == 1
    assert "no answer at " in capsys.readouterr().err


def write(path: Path, moment: str, **keys: Usage) -> None:
    file = UsageFile(path)
    file.settle(keys, {}, datetime.fromisoformat(moment).replace(tzinfo=timezone.utc).timestamp())
    file.write(file.record.text())
    file.close()


def test_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table, CSV and JSON of two files together, for a day and its month."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write(one, "2026-10-30T12:00", alice=Usage(2, 3600.0, 1))
    write(one, "2026-10-31T12:00", alice=Usage(1, 61.5, 0))
    write(two, "2026-10-31T12:00", alice=Usage(1, 1.0, 0), bob=Usage(0, 0.0, 4))
    assert run(["usage", str(one), str(two), "--day", "2026-10-31"]) == 0
    assert capsys.readouterr().out == (
        "                               2026-10-31                          2026-10\n"
        "key        sessions      audio   refusals   sessions      audio   refusals\n"
        "alice             2    0:01:02          0          4    1:01:02          1\n"
        "bob               0    0:00:00          4          0    0:00:00          4\n"
        "all keys          2    0:01:02          4          4    1:01:02          5\n"
    )
    assert run(["usage", str(one), str(two), "--day", "2026-10-31", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "period,key,sessions,audio_s,refusals",
        "2026-10-31,alice,2,62.5,0",
        "2026-10-31,bob,0,0.0,4",
        "2026-10,alice,4,3662.5,1",
        "2026-10,bob,0,0.0,4",
    ]
    content = usage(capsys, str(one), "--day", "2026-10-30")
    assert content["keys"]["alice"]["day"] == {"sessions": 2, "audio_s": 3600, "refusals": 1}
    assert run(["usage", str(one), "--day", "2025-01-01"]) == 0
    assert capsys.readouterr().out == "No key has used anything on 2025-01-01 or in 2025-01.\n"
    with pytest.raises(SystemExit):
        run(["usage", str(one), "--day", "yesterday"])
    assert "must be a day such as 2026-10-31, not 'yesterday'" in capsys.readouterr().err


def test_labels_are_bounded() -> None:
    """The first names have series of their own, the rest is `other`; nothing is lost."""
    metrics = Metrics()
    for number in range(2 * MOST_KEYS):
        metrics.usage_of(f"key-{number}").sessions += 1
    metrics.usage_of("").sessions += 1
    seen = {name: value for name, value in figures(metrics).items() if name.startswith("streamer_key_sessions_total")}
    assert len(seen) == MOST_KEYS + 1
    assert seen['streamer_key_sessions_total{key="other"}'] == MOST_KEYS
    assert sum(seen.values()) == 2 * MOST_KEYS
