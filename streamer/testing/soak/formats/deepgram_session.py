"""A session of the soak test in Deepgram's live format."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.testing.soak.formats.foreign_session import ForeignSession, closed
from streamer.testing.soak.formats.recorded import endless_header
from streamer.wire.dialects.deepgram_live import PATH

_CLOSE = '{"type":"CloseStream"}'
_FINALIZE = '{"type":"Finalize"}'
_ROUNDING_S = 0.002


class DeepgramSession(ForeignSession):
    """A session in which finals must cover the audio without a gap, and each `Finalize` must get an answer."""

    async def converse(self) -> str:
        """Speak, finalize between words, and close the stream."""
        container = self.plan.options["container"]
        audio = {} if container else {"encoding": "linear16", "sample_rate": str(SAMPLE_RATE)}
        url = f"ws://{self.netloc}{PATH}?{urlencode({**self.ways, **audio})}"
        async with connect(url, compression=None, max_size=None, ping_interval=None, open_timeout=30) as websocket:
            listening = asyncio.create_task(self._listen(websocket))
            try:
                finalized = await self._speak(websocket, endless_header() if container else b"")
                answers, covered_s = await listening
            finally:
                listening.cancel()
                websocket.transport.abort()
            ended = closed(websocket.close_code, str(websocket.close_reason))
            self.record.close_code = websocket.close_code
            if ended == "done":
                self._check(finalized, answers, covered_s)
            return ended

    async def _speak(self, websocket: ClientConnection, header: bytes) -> int:
        """Send everything, and return the number of `Finalize`."""
        finalized = 0
        try:
            if header:
                await websocket.send(header)
            async for piece in self.pieces():
                if piece is None:
                    finalized += 1
                    await websocket.send(_FINALIZE)
                else:
                    await websocket.send(self.plan.audio[slice(*piece)])
            await websocket.send(_CLOSE)
        except ConnectionClosed:
            pass  # the other task notes why
        return finalized

    async def _listen(self, websocket: ClientConnection) -> tuple[int, float]:
        """Read messages to the end. Returns how many `Finalize` were answered, and the seconds that finals cover."""
        answers, covered_s = 0, 0.0
        try:
            while True:
                message: dict[str, Any] = json.loads(await websocket.recv())
                if message["type"] != "Results":
                    if message["type"] not in ("Metadata", "SpeechStarted", "UtteranceEnd"):
                        self.record.wrong.append(f"an unexpected message came: {message}")
                    continue
                alternative = message["channel"]["alternatives"][0]
                if abs(message["start"] - covered_s) > _ROUNDING_S:
                    self.record.wrong.append(f"results begin at {message['start']} s, not at {covered_s:.3f} s")
                if message["is_final"]:
                    covered_s = message["start"] + message["duration"]
                    self.final([_word(word) for word in alternative["words"]])
                    answers += bool(message["from_finalize"])
                else:
                    self.partial(alternative["transcript"])
        except ConnectionClosed:
            return answers, covered_s

    def _check(self, finalized: int, answers: int, covered_s: float) -> None:
        if answers != finalized:
            self.record.wrong.append(f"{finalized} finalizes got {answers} answers")
        if abs(covered_s - self.record.sent / self.plan.bytes_per_ms / 1000) > _ROUNDING_S:
            self.record.wrong.append(f"the finals cover {covered_s:.3f} s of the audio")


def _word(word: dict[str, Any]) -> dict[str, Any]:
    return {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}
