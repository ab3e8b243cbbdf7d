"""Sessions of the soak test in the formats of servers that people run themselves: each word once, and in order."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.decoder import SAMPLE_RATE
from streamer.wire.dialects import sherpa_onnx, vosk, whisperlive, whisperlivekit
from workshop.soak.foreign_session import DONE, ForeignSession, closed

_LONGEST: Final = 400_000  # bytes of samples


class SelfHostedSession(ForeignSession):
    """A session in one of these formats."""

    path: str
    reason = ""  # of the close, if a message before it has told it

    async def converse(self) -> str:
        """Speak and listen until the end of the websocket, or of the conversation."""
        url = f"ws://{self.netloc}{self.path}?{urlencode(self.query())}"
        async with connect(url, compression=None, max_size=None, ping_interval=None, open_timeout=30) as websocket:
            try:
                whole = await self.exchange(websocket)
            finally:
                websocket.transport.abort()
            self.record.close_code = websocket.close_code
            reason = self.reason or str(websocket.close_reason)
            return closed(DONE, "") if whole else closed(websocket.close_code, reason)

    def query(self) -> dict[str, Any]:
        """Return what the address says."""
        return {}

    @abstractmethod
    async def exchange(self, websocket: ClientConnection) -> bool:
        """Speak and listen. Return whether the conversation came to its end before the websocket did."""


class SideBySideSession(SelfHostedSession):
    """A session whose client speaks in one task, and listens in another one."""

    ending: str | bytes = b""
    said = False  # everything was sent

    @abstractmethod
    def take(self, text: str) -> bool:
        """Take a message. Return whether it was the last one."""

    async def begin(self, websocket: ClientConnection) -> None:
        """Say what comes before the audio."""

    def form(self, audio: bytes) -> bytes | str:
        """Return samples as the format has them."""
        return audio

    async def flush(self, websocket: ClientConnection) -> None:
        """Say that everything until here should be final, if the format can say it."""

    async def exchange(self, websocket: ClientConnection) -> bool:
        """Speak and listen."""
        speaking = asyncio.create_task(self._speak(websocket))
        listening = asyncio.create_task(self._listen(websocket))
        try:
            await speaking
            return await listening
        finally:
            listening.cancel()

    async def _speak(self, websocket: ClientConnection) -> None:
        with suppress(ConnectionClosed):  # the other task notes why
            await self.begin(websocket)
            async for piece in self.pieces():
                if piece is None:
                    await self.flush(websocket)
                # As fractions the largest piece would be longer than a message may be.
                for place in range(*(piece or (0, 0)), _LONGEST):
                    end = min(place + _LONGEST, piece[1] if piece else 0)
                    await websocket.send(self.form(self.plan.audio[place:end]))
            self.said = True
            await websocket.send(self.ending)

    async def _listen(self, websocket: ClientConnection) -> bool:
        try:
            while not self.take(str(await websocket.recv())):
                pass
            return True
        except ConnectionClosed:
            return False


class SherpaSession(SideBySideSession):
    """A session in which segments are numbered one after another, and the last message says so."""

    path = sherpa_onnx.PATH
    ending = sherpa_onnx.END
    _segment = 0
    _rest = b""

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return self.ways

    def form(self, audio: bytes) -> bytes:
        """Return whole samples as fractions."""
        return _floats(self, audio)

    def take(self, text: str) -> bool:
        """Take a result."""
        if text == sherpa_onnx.ENDED:
            return True
        result = sherpa_onnx.Result.of_text(text)
        if result.segment != self._segment:
            self.record.wrong.append(f"segment {result.segment} came after {self._segment - 1}")
        if result.is_final:
            self._segment += 1
            self.final_text(result.text)
        else:
            self.partial(result.text)
        return False


class VoskSession(SelfHostedSession):
    """A session in which each message has one answer, and the next one is sent only after it."""

    path = vosk.PATH

    async def exchange(self, websocket: ClientConnection) -> bool:
        """Speak, and read the answer to each message."""
        try:
            await websocket.send(json.dumps({"config": {"sample_rate": SAMPLE_RATE, **self.ways}}))
            async for piece in self.pieces():
                await websocket.send('{"reset" : 1}' if piece is None else self.plan.audio[slice(*piece)])
                self._read(str(await websocket.recv()))
            await websocket.send('{"eof" : 1}')
            self._read(str(await websocket.recv()))
            await websocket.wait_closed()
        except ConnectionClosed:
            pass
        return False

    def _read(self, answer: str) -> None:
        content = json.loads(answer)
        if "partial" in content:
            self.partial(content["partial"])
            return
        best = content["alternatives"][0] if "alternatives" in content else content
        words = [
            {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}
            for word in best.get("result", ())
        ]
        if [word["word"] for word in words] != best["text"].split():
            self.record.wrong.append(f"the words of {best['text']!r} are {words}")
        if words:
            self.final(words)


class WhisperLiveSession(SideBySideSession):
    """A session in which each completed segment comes in a list, perhaps several times."""

    path = whisperlive.PATH
    ending = whisperlive.END
    _rest = b""
    _last_start = -1.0

    async def begin(self, websocket: ClientConnection) -> None:
        """Send the options."""
        await websocket.send(json.dumps({"uid": "soak", "word_timestamps": True, **self.ways}))

    def form(self, audio: bytes) -> bytes:
        """Return samples as the client said."""
        return audio if self.ways.get("audio_format") == "int16" else _floats(self, audio)

    def take(self, text: str) -> bool:
        """Take a list of segments."""
        for segment in json.loads(text).get("segments", ()):
            if not segment["completed"]:
                self.partial(segment["text"].strip())
            elif float(segment["start"]) > self._last_start:
                self._last_start = float(segment["start"])
                self.final([_of_texts(word) for word in segment["words"]])
        return False


class WhisperLiveKitSession(SideBySideSession):
    """A session in which lines come as a whole state, or each once."""

    path = whisperlivekit.PATH

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return self.ways

    async def exchange(self, websocket: ClientConnection) -> bool:
        """Speak and listen."""
        self._lines = 0
        return await super().exchange(websocket)

    def take(self, text: str) -> bool:
        """Take a state, or what is new in it."""
        state = json.loads(text)
        if state.get("type") in ("config", "ready_to_stop"):
            return bool(state["type"] != "config")
        new = state.get("new_lines", ()) if state.get("type") == "diff" else state["lines"][self._lines :]
        for line in new:
            self._lines += 1
            self.final_text(line["text"])
        self.partial(state["buffer_transcription"])
        return False


def _floats(session: Any, audio: bytes) -> bytes:
    """Return whole samples as fractions, and keep the rest in the session."""
    audio = session._rest + audio
    whole = len(audio) - len(audio) % 2
    session._rest = audio[whole:]
    return (np.frombuffer(audio[:whole], "<i2").astype("<f4") / 32_768).tobytes()


def _of_texts(word: dict[str, Any]) -> dict[str, Any]:
    """Return a word of WhisperLive, whose times are texts."""
    start, end = (round(1000 * float(word[name])) for name in ("start", "end"))
    return {"word": word["word"].strip(), "start_ms": start, "end_ms": end}


SESSIONS: Final[dict[str, type[ForeignSession]]] = {
    "sherpa_onnx": SherpaSession,
    "vosk": VoskSession,
    "whisperlive": WhisperLiveSession,
    "whisperlivekit": WhisperLiveKitSession,
}
