"""Wyoming, by which Home Assistant speaks with programs for voice: events over a bare connection, no websocket. Pure.

An event is a line of JSON, then more JSON and a payload, as long as that line says. The bytes of a connection may be
divided anywhere, and a payload is passed on as it comes, so nothing is kept but an incomplete head.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from streamer import __version__
from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, ServerMessage
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL, LANGUAGE, LARGEST_MESSAGE, MOST_CHANNELS, SAMPLE_RATES
from streamer.wire.dialects.audio_first import SAMPLE_RATE, AudioFirst
from streamer.wire.dialects.dialect import Hangup, Languages, Opening, Reply, Step, session_language
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.options import hints

# The longest line of an event, and the longest JSON behind it.
LONGEST_LINE: Final = 64 * 1024
WIDTHS: Final = (1, 4)  # bytes of a sample: the fewest and the most
# What the service does with the data of `transcribe`: a page shows this, and a test compares both.
TRANSCRIBE: Final = {
    "language": "what is spoken; without `name`, the first model that has it. What no model has is an `error`",
    "name": "the public name of a model; any other name is ignored",
    "transcript_names": "hotwords",
    "transcript_terms": "hotwords, after the names",
    "vad_sensitivity": "ignored: the client says when the command ends",
    "context": "ignored",
}
_USUAL: Final = (SAMPLE_RATE, 2, 1)  # rate, width and channels
_ENGLISH: Final = ("en",)  # what a model without a choice has


class Event(NamedTuple):
    """An event but for its payload."""

    kind: object
    data: JsonObject


class Wyoming(AudioFirst):
    """One connection of a client, which may speak several commands, one after another."""

    protocol = "wyoming"
    path = ""  # it has a port instead
    idle_s = 300.0
    written = True

    def __init__(self, opening: Opening) -> None:
        self._head = bytearray()  # of the event that comes now, as far as it has come
        self._line: JsonObject | None = None  # of an event whose data has not come yet
        self._data_bytes = 0  # of this event
        self._payload_bytes = 0  # still to come
        self._is_audio = False  # the payload that comes is
        self._wanted: JsonObject = {}  # options of the next command
        self._format = _USUAL
        self._speaking = False  # a command has begun
        self._texts: list[str] = []  # of the finals of this command
        super().__init__(opening)

    def options(self) -> JsonObject:
        """Return the options of the next session. Chunks cannot be taken back, so they are finals."""
        return {**self._wanted, "partials": False}

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take bytes of the connection, which may end anywhere within an event."""
        assert isinstance(message, bytes), "there are no texts without a websocket"
        rest = message
        try:
            while rest:
                if self._payload_bytes:
                    payload, rest = rest[: self._payload_bytes], rest[self._payload_bytes :]
                    self._payload_bytes -= len(payload)
                    if self._is_audio:
                        yield from self.hear(payload)
                    continue
                rest = self._complete(rest)
                if (event := self._next_event()) is not None:
                    yield from self._take(event)
        except WireError as wrong:
            yield from map(Reply, self.fail(wrong.code, wrong.message))
            yield Hangup(CloseCode.REFUSED)

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield a chunk for each final, and the whole text at the end."""
        if isinstance(message, FinalMessage):
            if message.text:
                if not self._texts:
                    yield write("transcript-start")
                yield write("transcript-chunk", text=f" {message.text}" if self._texts else message.text)
                self._texts.append(message.text)
        elif isinstance(message, Done):
            yield from self._answer()
        elif isinstance(message, Error) and message.fatal:
            yield from self.fail(message.code, message.message)

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason why the connection is closed."""
        yield error(code, message)

    # Inside: events

    def _complete(self, data: bytes) -> bytes:
        """Add what is missing of the line or the data that comes now. Return the rest, which is not of it."""
        line_ends = data.find(b"\n") + 1 or len(data)
        length = line_ends if self._line is None else self._data_bytes - len(self._head)
        self._head += data[:length]
        if self._line is None and len(self._head) > LONGEST_LINE:
            raise bad(ErrorCode.TOO_LARGE, f"The line of an event must have at most {LONGEST_LINE} bytes.")
        return data[length:]

    def _next_event(self) -> Event | None:
        """Return the event that is complete but for its payload, with all of its data; None if there is none yet."""
        if self._line is None:
            if not self._head.endswith(b"\n"):
                return None
            self._line = _object(self._head, "An event must begin with a line that is a JSON object")
            self._data_bytes = _length(self._line, "data_length", LONGEST_LINE)
            self._head.clear()
        if len(self._head) < self._data_bytes:
            return None
        line, self._line = self._line, None
        within = line.get("data")
        data: JsonObject = within if isinstance(within, dict) else {}
        if self._data_bytes:
            data |= _object(self._head, "The data of an event must be a JSON object")
            self._head.clear()
        event = Event(line.get("type"), data)
        self._payload_bytes = _length(line, "payload_length", LARGEST_MESSAGE)
        self._is_audio = event.kind == "audio-chunk"
        return event

    def _take(self, event: Event) -> Iterator[Step]:
        kind, data = event
        if kind == "describe":
            yield Reply(write("info", **describe(self._models)))
        elif kind == "ping":
            text = data.get("text")
            yield Reply(write("pong", text=text if isinstance(text, str) else None))
        elif kind == "transcribe":
            self._configure(data)
        elif kind == "audio-start":
            yield from self._stop()  # of a command that its client has not ended
            self._begin(data)
        elif kind == "audio-chunk":
            if not self._speaking:
                self._begin(data)
            self._check_format(data)
        elif kind == "audio-stop":
            yield from self._stop()

    # Inside: commands

    def _configure(self, data: JsonObject) -> None:
        """Take what the next command asks for. Raise WireError if no model has its language."""
        wanted: JsonObject = {}
        names = (data.get("transcript_names"), data.get("transcript_terms"))
        if hotwords := hints(entry for entries in names if isinstance(entries, list) for entry in entries):
            wanted["hotwords"] = hotwords
        name, language = data.get("name"), data.get("language")
        if isinstance(name, str) and name in self._models:
            wanted["model"] = name
        if isinstance(language, str) and language:
            wanted["model"], wanted["language"] = self._model_for(language, wanted.get("model"))
        self._wanted = wanted
        self.check()

    def _model_for(self, language: str, named: object) -> tuple[str, str]:
        """Return the first model that has the language, and its own name for it."""
        names = [DEFAULT_MODEL, *self._models] if named is None else [str(named)]
        refusal: WireError | None = None
        for name in names:
            languages = self._models.get(name, ())
            if languages is None and name != names[0]:
                continue  # it is not loaded, so nobody knows what it has
            try:
                return name, session_language("language", [language], languages)
            except WireError as wrong:
                refusal = refusal or wrong
        assert refusal is not None
        raise refusal

    def _begin(self, data: JsonObject) -> None:
        """Begin a command, whose audio has the format of this data."""
        self._format = _format(data, _USUAL)
        self.restart()
        rate, width, channels = self._format
        self.change_rate(rate, channels, width)
        self.check()
        self._speaking, self._texts = True, []

    def _check_format(self, data: JsonObject) -> None:
        if (format := _format(data, self._format)) != self._format:
            what = "'rate', 'width' and 'channels' must stay the same until 'audio-stop'"
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"{what}: {self._format} became {format}.")

    def _stop(self) -> Iterator[Step]:
        """End the command. The answer comes with the end of its session, or at once if there was no audio."""
        if not self._speaking:
            return
        self._speaking = False
        if self.running:
            yield from self.end()
        else:
            yield from map(Reply, self._answer())

    def rest(self) -> Iterator[Step]:
        """End the command, because its client sends nothing."""
        return self._stop()

    def _answer(self) -> Iterator[str]:
        if not self._texts:
            yield write("transcript-start")
        yield write("transcript", text=" ".join(self._texts))
        yield write("transcript-stop")


def write(kind: str, **data: object) -> str:
    """Write an event without a payload, in the form in which the original sends it. It is ASCII."""
    line: JsonObject = {"type": kind, "version": __version__}
    if not data:
        return json.dumps(line) + "\n"
    text = json.dumps(data)
    return json.dumps({**line, "data_length": len(text)}) + "\n" + text


def error(code: ErrorCode, message: str) -> str:
    """Write the event that says why something cannot be served. The connection is closed after it."""
    return write("error", text=message, code=str(code))


def describe(models: Mapping[str, Languages]) -> JsonObject:
    """Return what the service can do. Home Assistant offers the languages of all models; unknown ones are left out."""
    artifacts = []
    for name, languages in models.items():
        names = _ENGLISH if languages == () else [each for each in languages or () if each != LANGUAGE]
        artifacts.append({**_artifact(name, f"The model {name}"), "languages": names})
    program = _artifact("streamer", "Speech recognition that writes while you speak")
    others: JsonObject = {kind: [] for kind in ("tts", "handle", "intent", "wake", "mic", "snd")}
    return {"asr": [{**program, "models": artifacts, "supports_transcript_streaming": True}], **others}


def _artifact(name: str, description: str) -> JsonObject:
    return {
        "name": name,
        "attribution": {"name": "Streamer", "url": ""},
        "installed": True,
        "description": description,
        "version": __version__,
    }


def _object(text: bytes | bytearray, right: str) -> JsonObject:
    """Read JSON that must be an object. Raise WireError if it is not."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise bad(ErrorCode.BAD_JSON, f"{right}.")
    return content


def _length(event: JsonObject, name: str, most: int) -> int:
    length = event.get(name)
    if length is None:
        return 0
    if type(length) is not int or not 0 <= length <= most:
        raise bad(ErrorCode.TOO_LARGE, f"'{name}' must be 0 to {most}, not {quote(length)}.")
    return length


def _format(data: JsonObject, usual: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return rate, width and channels. What is not given is as usual."""
    bounds = {"rate": SAMPLE_RATES, "width": WIDTHS, "channels": (1, MOST_CHANNELS)}
    values = []
    for (name, (least, most)), otherwise in zip(bounds.items(), usual, strict=True):
        value = data.get(name)
        value = otherwise if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'{name}' must be {least} to {most}, not {quote(value)}.")
        values.append(value)
    rate, width, channels = values
    return rate, width, channels
