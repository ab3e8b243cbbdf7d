"""Deepgram's live format: the websocket `/v1/listen`. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.dialects.deepgram_results import ChannelResults, seconds
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Dialect, Hangup, Opening, Reply, Step, start
from streamer.wire.errors import CloseCode
from streamer.wire.events import (
    Done,
    Error,
    Flushed,
    Heard,
    Partial,
    ServerMessage,
    Speech,
    SpeechState,
)
from streamer.wire.events import (
    Final as FinalMessage,
)
from streamer.wire.native import LONGEST_TEXT, encode
from streamer.wire.upload import Problem

PATH: Final = "/v1/listen"
MESSAGES: Final = ("KeepAlive", "Finalize", "CloseStream", "Configure")
# The closes that Deepgram's clients know: no audio for too long, and audio that cannot be decoded.
SILENT: Final = (1011, "NET-0001")
UNDECODABLE: Final = (1008, "DATA-0000")
_ERROR_CODES: Final = {400: "Bad Request", 401: "INVALID_AUTH", 403: "INSUFFICIENT_PERMISSIONS"}
_ERROR_CODES_FROM_500: Final = "SERVICE_UNAVAILABLE"
# Deepgram has no status of its own for these codes.
_STATUSES: Final = {"full": 429, "busy": 429}
_BAD_RECORDINGS: Final = (415, 422)
_CLIENT_FAULTS: Final = (CloseCode.TOO_FAST, CloseCode.BAD_MESSAGE, CloseCode.BAD_AUDIO)
# Clients receive these codes unchanged. Any other code becomes one that says who is at fault, service or client.
_KEPT_CLOSES: Final = (CloseCode.REFUSED, CloseCode.TOO_LARGE, CloseCode.FAILED, CloseCode.TRY_LATER)


class DeepgramLive(Dialect):
    """One live session of a client of Deepgram."""

    protocol = "deepgram"
    subprotocols = ("token", "bearer")
    idle_s = 10.0

    def __init__(self, opening: Opening) -> None:
        options = self._options = DeepgramOptions(opening.query, opening.models)
        self._request_id = opening.request_id
        self._created = opening.created
        self.headers = {"dg-request-id": opening.request_id}
        self.container = options.samples is None
        self.separate = options.multichannel
        self._channels: list[ChannelResults] = []
        if options.samples is not None:
            samples = options.samples
            audio = {"encoding": samples.encoding, "sample_rate": samples.sample_rate}
            self._start = self._begin(samples.channels, audio)
            self.slots = samples.channels if options.multichannel else 1
        else:
            self._start = self._begin(1, {})
        # The header of a container says how many channels it has, so a session for each channel waits for it.
        self._started = not (self.container and options.multichannel)
        self._waiting_flushes = 0  # flushes that the client asked for before the start of the session
        self._flushes = 0  # the number of flushes without an answer
        self._hash = hashlib.sha256()
        self._received = False
        self._stopped = False
        self._undecodable = False
        self._audio_ms = 0  # the length of the recognised audio
        self._error = ""  # the code of the error that ended the session

    @staticmethod
    def refusal(code: str, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        status = 400 if status in _BAD_RECORDINGS else _STATUSES.get(code, status)
        kind = _ERROR_CODES.get(status, code.upper())
        kind = "TOO_MANY_REQUESTS" if status == 429 else _ERROR_CODES_FROM_500 if status >= 500 else kind
        return status, encode({"err_code": kind, "err_msg": message, "request_id": request_id}) + "\n"

    # What the client sends

    def greet(self) -> Iterable[Step]:
        """Start the session, unless it must wait for the header of a container."""
        return (self._start,) if self._started else ()

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take a message of the client. Ignore everything after `CloseStream`."""
        if self._stopped:
            return
        if isinstance(message, str):
            yield from self._command(message)
        elif message:
            self._received = True
            self._hash.update(message)
            yield message
        else:
            yield from self._stop()

    def opened(self, channels: int) -> Iterator[Step]:
        """Start the session if it waits for the number of channels."""
        if not self._started:
            self._started = True
            yield self._begin(channels, {})
            yield from [FLUSH] * self._waiting_flushes

    def waiting(self) -> Iterable[Step]:
        """Keep the session open if it has started."""
        return (KEEPALIVE,) if self._started else ()

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session. A recording that its own client has cut off counts as complete."""
        if not self._started:
            yield Hangup(*UNDECODABLE)
            return
        self._undecodable = not (self._stopped and problem.code == "damaged_audio")
        yield STOP

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        self._audio_ms = max(self._audio_ms, getattr(message, "audio_ms", 0))
        if isinstance(message, (Partial, FinalMessage, Speech)):
            yield from self._write_result(self._channels[message.channel or 0], message)
        elif isinstance(message, Heard):
            for channel in self._channels:
                yield from channel.heard(message.audio_ms)
                yield from channel.utterance_end(message.audio_ms)
        elif isinstance(message, Flushed):
            self._flushes -= 1
            for channel in self._channels:
                yield from channel.flushed(message.audio_ms)
                yield from channel.utterance_end(message.audio_ms)
        elif isinstance(message, Done):
            yield from self._finish(message.audio_ms)
        elif isinstance(message, Error) and message.fatal:
            self._error = message.code
            for channel in self._channels:
                yield from channel.release()
            if message.code == "odd_bytes":  # the client has ended its audio, so the transcript is complete
                yield from self._finish(self._audio_ms)

    def _write_result(self, channel: ChannelResults, message: Partial | FinalMessage | Speech) -> Iterator[str]:
        if isinstance(message, Partial):
            yield from channel.utterance_end(message.start_ms)
            yield from channel.partial(message)
        elif isinstance(message, FinalMessage):
            yield from channel.utterance_end(message.start_ms)
            yield from channel.final(message, hold=self._flushes > 0)
            yield from channel.utterance_end(message.audio_ms)
        elif message.state is SpeechState.START:
            yield from channel.utterance_end(message.at_ms)
            yield from channel.speech_started(message.at_ms)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        if self._undecodable:
            return UNDECODABLE
        if self._error == "no_start" and self._received:  # the audio had no header
            return UNDECODABLE
        if self._error in ("idle", "no_start"):
            return SILENT
        if code == CloseCode.DONE or self._error == "odd_bytes":
            return CloseCode.DONE, ""
        if code in _KEPT_CLOSES:
            return code, reason
        return (CloseCode.REFUSED if code in _CLIENT_FAULTS else CloseCode.FAILED), reason

    # Inside

    def _begin(self, channels: int, audio: dict[str, Any]) -> str:
        options = self._options
        after_ms = options.after_text_ms
        text = start(
            **audio,
            **options.session(),
            channels=channels,
            partials=options.interim_results,
            partial_words=options.interim_results,
            speech=options.vad_events,
            second_pass=True,  # these clients do not see which words are stable before their final
            endpoint={} if after_ms is None else {"after_text_ms": after_ms},
        )
        total = channels if options.multichannel else 1
        self._channels = [ChannelResults(number, total, options, self._request_id) for number in range(total)]
        return text

    def _command(self, text: str) -> Iterator[Step]:
        try:
            command = json.loads(text) if len(text) <= LONGEST_TEXT else None
        except (ValueError, RecursionError):
            command = None
        kind = command.get("type") if isinstance(command, dict) else None
        if kind == "KeepAlive":
            yield from (KEEPALIVE,) if self._started else ()
        elif kind == "Finalize":
            self._flushes += 1
            if self._started:
                yield FLUSH
            else:
                self._waiting_flushes += 1
        elif kind == "CloseStream":
            yield from self._stop()
        elif kind == "Configure":
            assert isinstance(command, dict)
            yield Reply(self._configure(command))
        else:
            why = f"A text message must be a JSON object whose 'type' is one of {', '.join(MESSAGES)}."
            yield Reply(encode({"type": "Error", "variant": "SchemaError", "description": why, "message": why}))

    def _stop(self) -> Iterator[Step]:
        self._stopped = True
        if not self._started and not self._received:
            yield from self.opened(1)
        yield STOP

    def _configure(self, command: dict[str, Any]) -> str:
        """Return the answer to a change of options: a success only if the running session has these options already."""
        keyterms = command.get("keyterms")
        same = keyterms is None or (isinstance(keyterms, list) and tuple(keyterms) == self._options.keyterms)
        if same and not command.get("features"):
            success = {"type": "ConfigureSuccess", "request_id": self._request_id}
            return encode(success if keyterms is None else {**success, "keyterms": keyterms})
        why = "The options of a running session cannot be changed: open another session with the new options."
        failure = {"type": "ConfigureFailure", "request_id": self._request_id, "code": "UNSUPPORTED"}
        return encode({**failure, "description": why})

    def _finish(self, audio_ms: int) -> Iterator[str]:
        for channel in self._channels:
            yield from channel.finish(audio_ms)
        if not self._undecodable:
            yield encode(
                {
                    "type": "Metadata",
                    "transaction_key": "deprecated",
                    "request_id": self._request_id,
                    "sha256": self._hash.hexdigest(),
                    "created": self._created,
                    "duration": seconds(audio_ms),
                    "channels": len(self._channels),
                }
            )
