"""Live sessions at the pace of speech beside an attack: how late their partials are. `streamer load` measures more."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

BYTES_PER_S = 32_000
# Half a step, so that the length of a frame does not hide when a step is complete.
FRAME_S = 0.16
FRAME = int(FRAME_S * BYTES_PER_S)
READY_LIMIT_S = 30.0
END_LIMIT_S = 60.0
POLL_S = 0.5
LAG = re.compile(r'^streamer_lag_max_seconds\{pace="real_time"\} (\S+)$', re.MULTILINE)


@dataclass
class LiveSession:
    """Sends the same audio again and again at the pace of speech, until `end` is called."""

    second_pass: bool = False
    delays: list[tuple[float, float]] = field(default_factory=list)  # when a partial arrived, and how late it was
    words: list[str] = field(default_factory=list)  # the words of the finals
    read_by: Counter[str] = field(default_factory=Counter)  # what read the finals, with a second pass
    ended: str = ""  # "done", or the reason for another end
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: asyncio.Task[None] | None = None

    async def begin(self, url: str, audio: bytes, offset: int = 0) -> None:
        """Open the session and start sending at this offset of the audio. ConnectionError if it is refused."""
        websocket = await connect(url, compression=None)
        await websocket.send(json.dumps({"type": "start", "live": True, "second_pass": self.second_pass}))
        event = await _next_event(websocket)
        if event["type"] != "ready":
            await websocket.wait_closed()
            raise ConnectionError(f"a session was refused: {event.get('code', event['type'])}")
        self._sending = asyncio.create_task(self._send(websocket, audio, offset))

    async def end(self) -> None:
        """Stop sending, and wait for the last words."""
        self._stop.set()
        if self._sending is not None:
            await self._sending

    async def _send(self, websocket: ClientConnection, audio: bytes, offset: int) -> None:
        began = time.monotonic()
        receiving = asyncio.create_task(self._receive(websocket, began))
        try:
            number = 0
            while not self._stop.is_set() and not receiving.done():
                number += 1
                # A frame is complete when its last sample was spoken.
                await asyncio.sleep(began + number * FRAME_S - time.monotonic())
                at = (offset + number * FRAME) % (len(audio) - FRAME) // 2 * 2
                await websocket.send(audio[at : at + FRAME])
            await websocket.send('{"type":"stop"}')
            await asyncio.wait({receiving}, timeout=END_LIMIT_S)
        except ConnectionClosed:
            await asyncio.wait({receiving}, timeout=END_LIMIT_S)
        finally:
            receiving.cancel()
            await websocket.close()
        self.ended = self.ended or f"close {websocket.close_code}"

    async def _receive(self, websocket: ClientConnection, began: float) -> None:
        with suppress(ConnectionClosed):
            async for text in websocket:
                event = json.loads(text)
                if event["type"] == "partial":
                    now = time.monotonic()
                    self.delays.append((now, now - began - event["audio_ms"] / 1000))
                elif event["type"] == "final":
                    self.words += event["text"].split()
                    if "read_by" in event:
                        self.read_by[event["read_by"]] += 1
                elif event["type"] in ("done", "error"):
                    self.ended = event.get("code", "done")


@dataclass
class LagWatch:
    """Polls the service for the lag of the session that is furthest behind."""

    url: str
    lags: list[tuple[float, float]] = field(default_factory=list)

    async def watch(self) -> None:
        """Poll the service until cancelled."""
        while True:
            lag = await asyncio.to_thread(self._look)
            self.lags.append((time.monotonic(), lag))
            await asyncio.sleep(POLL_S)

    def most(self, since: float, until: float) -> float:
        """Return the largest lag between these times."""
        return max((lag for at, lag in self.lags if since <= at <= until), default=0.0)

    def _look(self) -> float:
        with urllib.request.urlopen(page(self.url, "/metrics"), timeout=10) as answer:
            match = LAG.search(answer.read().decode())
        return float(match[1]) if match else 0.0


@dataclass(frozen=True)
class Period:
    """The delays of a number of sessions between two times."""

    sessions: int
    delays_s: Sequence[float]
    lag_s: float

    def quantile(self, part: float) -> float:
        """Return the delay within which this part of the partials arrived."""
        ordered = sorted(self.delays_s)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")

    def line(self, name: str) -> str:
        """Return a line of the table with HEADS."""
        figures = (f"{self.quantile(part):.3f}" for part in (0.5, 0.95, 0.99))
        cells = (name, str(self.sessions), str(len(self.delays_s)), *figures, f"{self.lag_s:.2f}")
        return "| " + " | ".join(cells) + " |"


HEADS = "| | sessions | partials | p50 s | p95 s | p99 s | lag at most s |\n| --- |" + 6 * " ---: |"


async def open_sessions(
    url: str, audio: bytes, number: int, over_s: float, *, second_pass: bool = False
) -> list[LiveSession]:
    """Start this many sessions, spread evenly over these seconds. ConnectionError if one is refused."""
    sessions = [LiveSession(second_pass) for _ in range(number)]

    async def join(index: int) -> None:
        await asyncio.sleep(index * over_s / number)
        await sessions[index].begin(url, audio, index * len(audio) // number)

    refused = [error for error in await asyncio.gather(*map(join, range(number)), return_exceptions=True) if error]
    if refused:
        await asyncio.gather(*(session.end() for session in sessions))
        raise refused[0]
    return sessions


def period(sessions: Iterable[LiveSession], lag: LagWatch, since: float, until: float) -> Period:
    """Return the delays of these sessions between these times."""
    all_of_them = list(sessions)
    delays = [late for session in all_of_them for at, late in session.delays if since <= at <= until]
    return Period(len(all_of_them), delays, lag.most(since, until))


def page(url: str, path: str) -> str:
    """Return the address of a page of the service whose websocket has this URL."""
    return url.replace("ws", "http", 1).rpartition("/v1/")[0] + path


async def _next_event(websocket: ClientConnection) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(await asyncio.wait_for(websocket.recv(), READY_LIMIT_S))
    return event
