"""Sessions of the soak test over gRPC, as clients of Riva and Google have them: each word once, at its time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import grpc  # type: ignore[import-untyped]

from streamer.audio.decoder import SAMPLE_RATE
from streamer.bridge.grpc.messages import message_class
from streamer.wire.dialects.grpc_speech import GoogleV1Call, RivaCall
from workshop.soak.foreign_session import DONE, ForeignSession, TriedAgain, closed, endless_header

_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
# The service is full, or its recogniser is starting.
_PASSING: Final = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
_LIMIT_S: Final = 600.0
_LARGEST: Final = 1 << 20  # bytes of audio in a request


class GrpcSession(ForeignSession):
    """A session over a connection of its own."""

    service: str

    async def converse(self) -> str:
        """Speak, and listen until the end of the call."""
        package = self.service.rpartition(".")[0]
        self._request = message_class(f"{package}.StreamingRecognizeRequest")
        answer = message_class(f"{package}.StreamingRecognizeResponse").FromString
        async with grpc.aio.insecure_channel(self.netloc, _OPTIONS) as channel:
            method = channel.stream_stream(f"/{self.service}/StreamingRecognize", None, answer)
            call = method(timeout=_LIMIT_S)
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
                for place in range(*piece, _LARGEST):
                    audio = self.plan.audio[place : min(place + _LARGEST, piece[1])]
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
        if status.name in _PASSING:
            raise TriedAgain(status.name)
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


SESSIONS: Final[dict[str, type[ForeignSession]]] = {"riva": RivaSession, "google": GoogleSession}
