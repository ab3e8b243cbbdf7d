"""Deepgram's format of uploaded recordings: `POST /v1/listen`. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streamer.text.joining import joined
from streamer.wire.dialects.deepgram_live import DeepgramLive
from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.dialects.deepgram_results import alternative, model_info, seconds, uuid_of
from streamer.wire.dialects.spoken_language import Languages
from streamer.wire.errors import bad
from streamer.wire.events import Final as FinalMessage
from streamer.wire.events import ServerMessage, Word
from streamer.wire.upload import JSON, Problem, UploadFormat

_DIGITS: Final = 4  # of a confidence that is the mean of others


class DeepgramRecorded(UploadFormat):
    """An upload with Deepgram's options, which are those of its live format."""

    protocol = "deepgram"

    def __init__(self, models: Mapping[str, Languages] = {}, request_id: str = "", created: str = "") -> None:
        """`models`: the service's models by public name. `request_id` and `created`: as in `Opening`."""
        super().__init__()
        self._models = models
        self._request_id = request_id
        self._created = created
        self._options = DeepgramOptions((), models)
        self._hash = hashlib.sha256()
        self._body_begun = False
        self._channels = 1
        self._finals: list[FinalMessage] = []

    def query(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take the options of the query. Raise WireError if one is not valid."""
        options = self._options = DeepgramOptions(pairs, self._models)
        self.take("model", options.model)
        self.take("language", options.language)
        for name in ("multichannel", "written", "dictation"):
            self.take(name, json.dumps(options.session()[name]))
        if options.hotwords:
            self.take("hotwords", json.dumps(options.hotwords))
        if options.utterances:
            self.take("endpoint", json.dumps({"after_text_ms": options.split_ms}))
        if options.samples is not None:
            self.take("encoding", options.samples.encoding)
            self.take("sample_rate", str(options.samples.sample_rate))
            self.take("channels", str(options.samples.channels))

    def field(self, name: str, value: str, *, late: bool) -> None:
        """Ignore a field of a form: all options are in the query."""

    def settle(self) -> None:
        """Note that no more options can come."""

    def look(self, data: bytes) -> None:
        """Refuse JSON with an address of a recording, whatever the content type of the request is."""
        if not self._body_begun and data.lstrip()[:1] == b"{":
            why = "The service fetches no address for a client: send the recording itself as the body."
            raise bad("unsupported", why)
        self._body_begun = True
        self._hash.update(data)

    @property
    def streams(self) -> bool:
        """False: the answer is one document."""
        return False

    def start(self, channels: int) -> str:
        """Return the `start` of the session, for decoded audio with this number of channels."""
        self._channels = channels
        return super().start(channels)

    def add(self, message: ServerMessage) -> None:
        """Add a message to the transcript."""
        super().add(message)
        if isinstance(message, FinalMessage):
            self._finals.append(message)

    def event(self, message: ServerMessage) -> bytes:
        """Return nothing: this format has no events."""
        return b""

    def last_event(self, problem: Problem | None) -> bytes:
        """Return nothing: this format has no events."""
        return b""

    def document(self) -> tuple[str, str]:
        """Return the type and the text of the whole answer."""
        uuid, info = model_info(self._options.model)
        results: dict[str, Any] = {
            "channels": [{"alternatives": [self._alternative(number)]} for number in range(self._channels)]
        }
        if self._options.utterances:
            finals = sorted(self._finals, key=lambda final: (final.start_ms, final.channel or 0))
            results["utterances"] = [self._utterance(number, final) for number, final in enumerate(finals)]
        metadata = {
            "transaction_key": "deprecated",
            "request_id": self._request_id,
            "sha256": self._hash.hexdigest(),
            "created": self._created,
            "duration": seconds(self.transcript.duration_ms),
            "channels": self._channels,
            "models": [uuid],
            "model_info": {uuid: info},
        }
        return JSON, json.dumps({"metadata": metadata, "results": results}, ensure_ascii=False) + "\n"

    def refusal(self, problem: Problem) -> tuple[int, str]:
        """Return the status and the JSON of an answer without a transcript."""
        return DeepgramLive.refusal(problem.code, problem.message, problem.status, self._request_id)

    def _alternative(self, channel: int) -> dict[str, Any]:
        finals = [final for final in self._finals if (final.channel or 0) == channel]
        words = [word for final in finals for word in final.words or ()]
        text = joined(final.text for final in finals)
        return alternative(text, _confidence(words), words, punctuated=self._options.punctuated)

    def _utterance(self, number: int, final: FinalMessage) -> dict[str, Any]:
        words = final.words or ()
        transcript = alternative(final.text, final.confidence, words, punctuated=self._options.punctuated)
        return {
            "start": seconds(final.start_ms),
            "end": seconds(final.end_ms),
            "confidence": final.confidence,
            "channel": final.channel or 0,
            "transcript": final.text,
            "words": transcript["words"],
            "id": uuid_of(f"{self._request_id} {number}"),
        }


def _confidence(words: Sequence[Word]) -> float:
    """Return the mean confidence of the words."""
    return round(sum(word.confidence or 0.0 for word in words) / len(words), _DIGITS) if words else 0.0
