"""A session of the soak test in OpenAI's realtime format."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.testing.soak.formats.foreign_session import DONE, ForeignSession, closed, plain
from streamer.wire.dialects.openai_realtime.mistakes import COMMIT_EMPTY
from streamer.wire.dialects.openai_realtime.realtime import PATH

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class RealtimeSession(ForeignSession):
    """A session in which each committed item must have one transcript, which its deltas make up."""

    async def converse(self) -> str:
        """Speak, commit between words, and end like openai-agents."""
        self._items: list[str] = []
        self._texts: dict[str, str] = {}  # the deltas of each item
        self._completed: list[str] = []
        self._failed = self._cleared = False
        url = f"ws://{self.netloc}{PATH}?intent=transcription"
        async with connect(url, compression=None, max_size=None, ping_interval=None, open_timeout=30) as websocket:
            listening = asyncio.create_task(self._listen(websocket))
            try:
                await self._speak(websocket)
                await listening
            finally:
                listening.cancel()
                websocket.transport.abort()
            self.record.close_code = websocket.close_code
            if self._cleared and not self._failed:
                return closed(DONE, "")
            return "failed" if self._failed else closed(websocket.close_code, str(websocket.close_reason))

    async def _speak(self, websocket: ClientConnection) -> None:
        settings = {"format": {"type": "audio/pcm", "rate": SAMPLE_RATE}, **self.ways}

        async def send(type: str, **content: Any) -> None:
            await websocket.send(json.dumps({"type": type, **content}))

        try:
            await send("session.update", session={"type": "transcription", "audio": {"input": settings}})
            async for piece in self.pieces():
                if piece is None:
                    await send("input_audio_buffer.commit")
                else:
                    audio = base64.b64encode(self.plan.audio[slice(*piece)]).decode()
                    await send("input_audio_buffer.append", audio=audio)
            await send("input_audio_buffer.commit")
            await send("input_audio_buffer.clear")
        except ConnectionClosed:
            pass  # the other task notes why

    async def _listen(self, websocket: ClientConnection) -> None:
        """Read events until everything is answered, or to the end."""
        try:
            while not (self._cleared and len(self._completed) == len(self._items)):
                self._take(json.loads(await websocket.recv()))
        except ConnectionClosed:
            pass

    def _take(self, event: dict[str, Any]) -> None:
        kind, item = event["type"], event.get("item_id", "")
        if kind == "input_audio_buffer.committed":
            if event["previous_item_id"] != (self._items[-1] if self._items else None):
                self.record.wrong.append(f"item {item} follows {event['previous_item_id']}, not {self._items[-1:]}")
            self._items.append(item)
        elif kind == f"{_TRANSCRIPTION}.delta":
            self._texts[item] = self._texts.get(item, "") + event["delta"]
            waiting = [self._texts[each] for each in self._texts if each not in self._completed]
            self.partial(" ".join(map(plain, waiting)))
        elif kind == f"{_TRANSCRIPTION}.completed":
            self._complete(item, event["transcript"])
        elif kind == f"{_TRANSCRIPTION}.failed":
            self._failed = True
            self._completed.append(item)
        elif kind == "input_audio_buffer.cleared":
            self._cleared = True
        elif kind == "error" and event["error"]["code"] != COMMIT_EMPTY:
            self.record.wrong.append(f"an error came: {event}")

    def _complete(self, item: str, transcript: str) -> None:
        if item in self._completed or item not in self._items:
            self.record.wrong.append(f"item {item} was completed twice, or before it was committed")
        elif self._items.index(item) != len(self._completed):
            self.record.wrong.append(f"item {item} was completed out of its order")
        if self._texts.get(item, "") != transcript:
            self.record.wrong.append(f"the deltas {self._texts.get(item, '')!r} are not the transcript {transcript!r}")
        self._completed.append(item)
        self.final_text(transcript)
