"""Runs well-behaved live sessions beside the attackers, and checks that they get all their words in time."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from streamer.base.limits import READER
from workshop.attack.attack import Target
from workshop.soak.session_plan import Speech, draw_speech, origin

CHUNK_S = 0.1
CHUNK = 3200  # bytes
PAUSE_S = 0.5
# A bystander that is refused, because attackers use all slots, tries again for this long.
ENTER_LIMIT_S = 90.0
END_LIMIT_S = 90.0
TWICE_OF = 4  # one of this many sessions has a second pass
TRIED_AGAIN = (OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, EOFError, asyncio.TimeoutError)


@dataclass
class Witness:
    """The observations of all bystanders."""

    sessions: int = 0
    words: int = 0
    lost: int = 0
    crossed: int = 0
    recovered: int = 0
    read_by: Counter[str] = field(default_factory=Counter)  # what read the finals of those with a second pass
    kept_out: Counter[str] = field(default_factory=Counter)  # refused attempts to open a session, by reason
    entering_s: float = 0.0  # the longest time until a session was open
    late: list[tuple[float, float]] = field(default_factory=list)  # when a partial arrived, and how late it was
    complaints: list[str] = field(default_factory=list)


class Bystanders:
    """Runs a few sessions at a time, one after another, until a condition ends."""

    def __init__(self, url: str, key: str, target: Target, seed: int, witness: Witness) -> None:
        """`target` knows which faults were caused on purpose, and gets the tokens of these sessions."""
        self._url, self._key, self._target, self._seed, self._witness = url, key, target, seed, witness
        self._number = 0

    async def run(self, at_a_time: int, go_on: Callable[[], bool]) -> None:
        """Start sessions while `go_on` is true, and wait for the end of all of them."""

        async def one_after_another() -> None:
            while go_on():
                self._number += 1
                await self._session(self._number)

        await asyncio.gather(*(one_after_another() for _ in range(at_a_time)))

    async def _session(self, number: int) -> None:
        rng = random.Random(f"{self._seed} bystander {number}")
        speech = draw_speech(number, rng.randrange(5, 16), rng)
        # Half of those whose words are read again want a reader for it.
        second_pass = (READER if number % (2 * TWICE_OF) == 0 else True) if number % TWICE_OF == 0 else False
        entered = await self._enter(number, second_pass=second_pass)
        if entered is None:
            return
        websocket, token = entered
        self._target.tokens.append(token)
        events: list[dict[str, Any]] = []
        async with websocket:
            began = time.monotonic()
            # The partials of a session wait for its own second pass, which is slow here.
            timed = not second_pass
            listening = asyncio.create_task(self._listen(websocket, began, events, timed=timed))
            try:
                await self._speak(websocket, speech, began)
                await asyncio.wait_for(listening, END_LIMIT_S)
            except (*TRIED_AGAIN,) as error:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
                events.append({"type": "lost", "why": repr(error)})
        self._check(number, speech, events, websocket.close_code, began)

    async def _enter(self, number: int, *, second_pass: bool | str) -> tuple[ClientConnection, str] | None:
        """Open a session, and return its connection and token."""
        began = time.monotonic()
        while True:
            why = ""
            try:
                headers = {"Authorization": f"Bearer {self._key}"}
                websocket = await connect(
                    self._url, additional_headers=headers, compression=None, ping_interval=None, open_timeout=15
                )
                await websocket.send(json.dumps({"type": "start", "live": True, "second_pass": second_pass}))
                event = json.loads(await asyncio.wait_for(websocket.recv(), ENTER_LIMIT_S))
                if event["type"] == "ready":
                    self._witness.entering_s = max(self._witness.entering_s, time.monotonic() - began)
                    return websocket, event["token"]
                why = event.get("code", event["type"])
                await websocket.close()
            except TRIED_AGAIN as error:
                why = type(error).__name__
            self._witness.kept_out[why] += 1
            if time.monotonic() - began > ENTER_LIMIT_S:
                self._witness.complaints.append(
                    f"session {number} could not start within {ENTER_LIMIT_S:g} s; the last reason was {why}"
                )
                return None
            await asyncio.sleep(PAUSE_S)

    async def _speak(self, websocket: ClientConnection, speech: Speech, began: float) -> None:
        audio = speech.audio.tobytes()
        for number, place in enumerate(range(0, len(audio), CHUNK), 1):
            await asyncio.sleep(began + number * CHUNK_S - time.monotonic())
            await websocket.send(audio[place : place + CHUNK])
        await websocket.send('{"type":"stop"}')

    async def _listen(
        self, websocket: ClientConnection, began: float, events: list[dict[str, Any]], *, timed: bool
    ) -> None:
        try:
            async for text in websocket:
                now, event = time.monotonic(), json.loads(text)
                events.append(event)
                if event["type"] == "partial" and timed and not self._target.was_disturbed(began, now):
                    self._witness.late.append((now, now - began - event["audio_ms"] / 1000))
        except ConnectionClosed:
            pass

    def _check(self, number: int, speech: Speech, events: list[dict[str, Any]], code: int | None, began: float) -> None:
        witness, expected = self._witness, [word.text for word in speech.words]
        recognised = [word for event in events if event["type"] == "final" for word in event["text"].split()]
        witness.sessions += 1
        witness.words += len(recognised)
        witness.recovered += sum(event["type"] == "recovered" for event in events)
        witness.read_by.update(event["read_by"] for event in events if "read_by" in event)
        crossed = [word for word in recognised if (whose := origin(word)) is None or whose[0] != speech.voice]
        witness.crossed += len(crossed)
        last = events[-1] if events else {"type": "nothing"}
        failed = last.get("code") == "failed" and self._target.was_disturbed(began, time.monotonic())
        if failed:  # the recogniser failed for too long because of a fault on purpose; the words so far must be right
            expected = expected[: len(recognised)]
        if recognised != expected:
            witness.lost += len(set(expected) - set(recognised))
            witness.complaints.append(f"session {number} said {' '.join(expected)!r} but got {' '.join(recognised)!r}")
        if not failed and (last["type"], code) != ("done", 1000):
            witness.complaints.append(f"session {number} ended with {last} and close code {code}")
