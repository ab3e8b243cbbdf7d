"""Sessions of the soak test in the formats of other services and over HTTP: each word once, in order, at its time."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import grpc  # type: ignore[import-untyped]
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.text import either
from streamer.bridge.grpc.messages import message_class
from streamer.wire import native_upload
from streamer.wire.dialects import deepgram, openai_upload
from streamer.wire.dialects.deepgram import PATH
from streamer.wire.dialects.grpc_speech import GoogleV1Call, RivaCall
from streamer.wire.dialects.openai_realtime import PATH as REALTIME_PATH
from streamer.wire.dialects.openai_settings import COMMIT_EMPTY
from workshop.soak import calls, self_hosted_formats, voice_agents
from workshop.soak.foreign_session import (
    BOUNDARY,
    DONE,
    PASSING,
    UPLOADS,
    ForeignSession,
    TriedAgain,
    closed,
    endless_header,
    file_of,
    form_around,
    plain,
    post,
)
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_check import Verdict, count, word_times
from workshop.soak.session_plan import SessionPlan

# A session of the soak test in Deepgram's live format.

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


# A session of the soak test in OpenAI's realtime format.

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


class RealtimeSession(ForeignSession):
    """A session in which each committed item must have one transcript."""

    async def converse(self) -> str:
        """Speak, commit between words, and end like openai-agents."""
        self._items: list[str] = []
        self._texts: dict[str, str] = {}  # the deltas of each item
        self._completed: list[str] = []
        self._failed = self._cleared = False
        url = f"ws://{self.netloc}{REALTIME_PATH}?intent=transcription"
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
        self._completed.append(item)
        self.final_text(transcript)


# Sessions of the soak test that send a recording over HTTP, in the native format, OpenAI's or Deepgram's.

Word = dict[str, Any]


class UploadSession(ForeignSession):
    """A session with one request. The file is cut into pieces in the proportions of the plan."""

    async def converse(self) -> str:
        """Send the recording, and read the answer."""
        path, kind, before, after = self._request()
        status, content = await post(self.netloc, path, kind, self._body(before, after))
        answer = content.decode()
        if status in PASSING or b"event: error" in content:
            code = _error(answer)
            if code == "failed":
                return "failed"
            raise TriedAgain(code)
        if status != 200:
            return f"status {status} {answer[:200]}"
        self._read(answer)
        self.record.close_code = 1000
        return "done"

    async def _body(self, before: bytes, after: bytes) -> AsyncIterator[bytes]:
        file, length = file_of(self.plan), len(self.plan.audio)
        if before:
            yield before
        place = 0
        async for piece in self.pieces():
            end = len(file) * piece[1] // length if piece is not None else place
            if end > place:
                yield file[place:end]
                place = end
        if after:
            yield after

    def _request(self) -> tuple[str, str, bytes, bytes]:
        """Return the path, the type of the body, and the bytes before and after the file."""
        if self.plan.kind == "openai_file":
            form = f"multipart/form-data; boundary={BOUNDARY}"
            return openai_upload.PATH, form, *form_around({"model": "whisper-1", **self.ways})
        path = deepgram.PATH if self.plan.kind == "deepgram_file" else native_upload.PATH
        return f"{path}?{urlencode(self.ways)}", "audio/wav", b"", b""

    def _read(self, answer: str) -> None:
        """Note the words of the answer."""
        ways = self.ways
        if self.plan.kind == "deepgram_file":
            [channel] = json.loads(answer)["results"]["channels"]
            self.final([_of_seconds(word) for word in channel["alternatives"][0]["words"]])
        elif self.plan.kind == "openai_file":
            self._read_openai(answer, ways)
        elif ways.get("format") == "json":
            for segment in json.loads(answer)["segments"]:
                self.final(segment["words"])
        else:
            lines = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith(("data: ", "{"))]
            for event in map(json.loads, lines):
                if event["type"] == "final":
                    self.final(event["words"])
                elif event["type"] == "partial":
                    self.partial(event["text"])

    def _read_openai(self, answer: str, ways: dict[str, Any]) -> None:
        if ways.get("stream"):
            events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
            deltas = "".join(event["delta"] for event in events if event["type"] == "transcript.text.delta")
            if events[-1]["text"] != deltas:
                self.record.wrong.append(f"the deltas {deltas!r} are not the text {events[-1]['text']!r}")
            self.final_text(deltas)
        elif ways["response_format"] == "text":
            self.final_text(answer)
        elif ways["response_format"] == "json":
            self.final_text(json.loads(answer)["text"])
        else:
            self.final([_of_seconds(word) for word in json.loads(answer)["words"]])


def _of_seconds(word: Word) -> Word:
    return {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}


def _error(answer: str) -> str:
    """Return the code of a refusal in any of these formats. It is the whole answer, or an event after others."""
    _, event, data = answer.partition("event: error\n")
    line = data.splitlines()[0] if event else answer
    error = json.loads(line[line.index("{") :])
    if "err_msg" in error:
        return "failed" if "recogniser failed" in error["err_msg"] else str(error["err_code"])
    return str(error.get("error", error)["code"])


# Sessions of the soak test over gRPC, as clients of Riva and Google have them.

_CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
# The service is full, or its recogniser is starting.
_PASSING_STATUSES: Final = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
# What the asyncio client of grpcio says in place of the status, if a call is refused while it writes.
_STATUS_LOST: Final = "Internal error from Core"
_CALL_LIMIT_S: Final = 600.0
_LARGEST_PIECE: Final = 1 << 20  # bytes of audio in a request


class GrpcSession(ForeignSession):
    """A session over a connection of its own."""

    service: str

    async def converse(self) -> str:
        """Speak, and listen until the end of the call."""
        package = self.service.rpartition(".")[0]
        self._request = message_class(f"{package}.StreamingRecognizeRequest")
        answer = message_class(f"{package}.StreamingRecognizeResponse").FromString
        async with grpc.aio.insecure_channel(self.netloc, _CHANNEL_OPTIONS) as channel:
            method = channel.stream_stream(f"/{self.service}/StreamingRecognize", None, answer)
            call = method(timeout=_CALL_LIMIT_S)
            listening = asyncio.create_task(self._listen(call))
            try:
                await self._speak(call)
                await listening
            finally:
                listening.cancel()
                call.cancel()
            return self._end(await call.code(), await call.details())

    def finish_here(self) -> Any:
        """Return the request that makes everything up to here final; None if the format has none."""
        return None

    async def _speak(self, call: Any) -> None:
        container = self.plan.options.get("container", "")
        config: dict[str, Any] = {"language_code": "en-US", "enable_word_time_offsets": True}
        if not container:
            config |= {"encoding": 1, "sample_rate_hertz": SAMPLE_RATE}
        first = self._request(streaming_config={"config": config, **self.ways})
        with suppress(grpc.RpcError, asyncio.InvalidStateError):  # the other task notes why
            await call.write(first.SerializeToString())
            if container:
                await call.write(self._request(audio_content=endless_header()).SerializeToString())
            async for piece in self.pieces():
                if piece is None:
                    request = self.finish_here()
                    if request is not None:
                        await call.write(request.SerializeToString())
                    continue
                for place in range(*piece, _LARGEST_PIECE):
                    audio = self.plan.audio[place : min(place + _LARGEST_PIECE, piece[1])]
                    await call.write(self._request(audio_content=audio).SerializeToString())
            await call.done_writing()

    async def _listen(self, call: Any) -> None:
        with suppress(grpc.RpcError):  # its status is looked at later
            while (response := await call.read()) is not grpc.aio.EOF:
                texts = []
                for result in response.results:
                    if result.is_final:
                        self.final([self._word(word) for word in result.alternatives[0].words])
                    else:
                        texts.append(result.alternatives[0].transcript)
                if texts:
                    self.partial("".join(texts).strip())

    def _word(self, word: Any) -> dict[str, Any]:
        begin, end = word.start_time, word.end_time
        if self.service == GoogleV1Call.path:
            begin, end = begin.ToMilliseconds(), end.ToMilliseconds()
        return {"word": word.word, "start_ms": begin, "end_ms": end}

    def _end(self, status: Any, details: str) -> str:
        if status is grpc.StatusCode.OK:
            self.record.close_code = DONE
            return closed(DONE, "")
        if "recogniser failed" in details:
            return "failed"
        if status.name in _PASSING_STATUSES:
            raise TriedAgain(status.name)
        if details == _STATUS_LOST and not self.heard:
            raise TriedAgain("status lost")
        return f"status {status.name} {details}"


class RivaSession(GrpcSession):
    """A session of a client of Riva, whose flushes end the utterance."""

    service = RivaCall.path

    def finish_here(self) -> Any:
        """Return the request that ends the utterance."""
        return self._request(runtime_config={"force_eou": "true"})


class GoogleSession(GrpcSession):
    """A session of a client of Google's Speech-to-Text."""

    service = GoogleV1Call.path


_GRPC_SESSIONS: Final[dict[str, type[ForeignSession]]] = {"riva": RivaSession, "google": GoogleSession}


SESSIONS: dict[str, type[ForeignSession]] = {
    "deepgram": DeepgramSession,
    "openai_realtime": RealtimeSession,
    **self_hosted_formats.SESSIONS,
    **voice_agents.SESSIONS,
    **calls.SESSIONS,
    **_GRPC_SESSIONS,
    **dict.fromkeys(UPLOADS, UploadSession),
}


async def run_foreign(plan: SessionPlan, url: str, began: float, grpc_port: int = 0) -> SessionRecord:
    """Carry out a plan, and return the record. `grpc_port`: where the service speaks gRPC."""
    address = f"grpc://127.0.0.1:{grpc_port}" if plan.kind in _GRPC_SESSIONS else url
    return await SESSIONS[plan.kind](plan, address, began).run()


def check_foreign(record: SessionRecord, *, disturbed: bool) -> Verdict:
    """Check everything about a session. `disturbed`: there was a fault during the session or just before."""
    verdict, plan = Verdict(), record.plan
    verdict.broken += record.wrong
    ends = plan.ends | ({"failed"} if disturbed else set())
    if record.ended not in ends:
        verdict.broken.append(f"it ended with {record.ended!r} instead of {either(sorted(ends))}")
    [speech] = plan.speeches
    finals = [event for _, event in record.events]
    words = [word for final in finals for word in final["words"]]
    # If the client has gone in the middle, no words are owed to it.
    owed_ms = record.sent / plan.bytes_per_ms if record.ended == "done" else 0.0
    count([word["word"] for word in words], speech.words, owed_ms, verdict, exact=True)
    if all("start_ms" in word for word in words):
        verdict.broken += word_times(finals, speech.words, plan.late_ms)
    return verdict
