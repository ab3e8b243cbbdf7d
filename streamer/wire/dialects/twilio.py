"""The format of Twilio's media streams: a call as base64 in JSON. Twilio takes no words, so they go elsewhere. Pure.

A stream has the voice of the caller, or both directions, which are two channels. Its chunks say when they were heard:
late ones are put into their places, and lost ones become silence. `<Parameter>`s whose names begin with `streamer_` are
options of the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import ServerMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import SAMPLE_RATES
from streamer.wire.dialects.audio_first import OPTIONS, AudioFirst
from streamer.wire.dialects.client_values import any_part, command_of, samples
from streamer.wire.dialects.dialect import Aside, Hangup, Opening, Step
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import close_reason
from streamer.wire.upload import option_of_text

PATH: Final = "/twilio"
INBOUND, OUTBOUND = "inbound", "outbound"
TRACKS: Final = (INBOUND, OUTBOUND)
PREFIX: Final = "streamer_"  # of parameters that are options
ENCODINGS: Final = {"audio/x-mulaw": "mulaw", "audio/x-alaw": "alaw"}
USUAL_ENCODING: Final = "audio/x-mulaw"
RATE: Final = 8000
_SILENCE: Final = {"mulaw": b"\xff", "alaw": b"\xd5"}
# How far the audio may be behind a chunk that came too early, before what is missing counts as lost.
REORDER_MS: Final = 100
MOST_EARLY: Final = 50  # chunks that wait for it
# How far one direction may be ahead of the other one, before the other one counts as silent.
LEAD_MS: Final = 300
LONGEST_GAP_MS: Final = 5000  # a longer one has only so much silence
LONGEST_BACK_MS: Final = 2000  # a chunk that is older than this belongs to a clock that was set back
_NEW_SAMPLES: Final = 16  # a chunk with fewer was heard before


class Twilio(AudioFirst):
    """One websocket of Twilio, which is one stream of a call."""

    protocol = "twilio"
    path = PATH
    written = True
    telephone = True
    successive = False
    encoding = "mulaw"
    sample_rate = RATE

    def __init__(self, opening: Opening) -> None:
        self.about: Mapping[str, object] = {}
        self._parameters: JsonObject = {}
        self._tracks: dict[str, Track] = {}
        self._origin_ms: int | None = None
        self._ended = False
        super().__init__(opening)

    def options(self) -> JsonObject:
        """Return the options of the session: those of the parameters, and a channel for each direction."""
        channels = max(1, len(self._tracks))
        return {**self._parameters, "channels": channels, "multichannel": channels > 1}

    # What Twilio sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take a message. Messages of other kinds are ignored."""
        if self._ended or isinstance(message, bytes):
            return
        content = command_of(message)
        if content is None:
            yield self._refused("A message must be a JSON object with an 'event'.")
            return
        event = content.get("event")
        try:
            if event == "start" and not self.running:
                yield self._begin(any_part(content, "start"))
            elif event == "media":
                if not self.running:
                    yield self._begin({})
                yield from self._take(any_part(content, "media"))
            elif event == "dtmf" and self.running:
                dtmf = any_part(content, "dtmf")
                yield Aside("dtmf", {"digit": str(dtmf.get("digit", ""))[:8], "track": str(dtmf.get("track", ""))[:16]})
            elif event == "stop":
                yield from self.rest()
        except WireError as wrong:
            yield self._refused(wrong.message)

    def rest(self) -> Iterator[Step]:
        """End the session, with all audio that has come."""
        self._ended = True
        yield from self._release(last=True)
        yield from self.end()

    # What Twilio gets: nothing

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    # Inside

    def _begin(self, start: JsonObject) -> Step:
        """Return the start of the session that this describes. Raise WireError if it cannot be served."""
        form = any_part(start, "mediaFormat")
        encoding, rate = form.get("encoding") or USUAL_ENCODING, form.get("sampleRate") or RATE
        if not isinstance(encoding, str) or encoding not in ENCODINGS:
            right = " or ".join(ENCODINGS)
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'encoding' must be {right}, not {quote(encoding)}.")
        if not isinstance(rate, int) or not SAMPLE_RATES[0] <= rate <= SAMPLE_RATES[1]:
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'sampleRate' must be a number such as {RATE}, not {quote(rate)}.")
        self.encoding, self.sample_rate = ENCODINGS[encoding], rate
        said = start.get("tracks")
        names = [track for track in TRACKS if isinstance(said, list) and track in said] or [INBOUND]
        self._tracks = {name: Track(rate, _SILENCE[self.encoding]) for name in names}
        parameters = any_part(start, "customParameters")
        for name, value in parameters.items():
            option = name.removeprefix(PREFIX)
            if option != name and option in OPTIONS and value not in ("", None):  # a template leaves it empty
                self._parameters[option] = option_of_text(option, str(value))
        sids = {"call_sid": "callSid", "stream_sid": "streamSid", "account_sid": "accountSid"}
        self.about = {
            **{name: str(start[key])[:64] for name, key in sids.items() if key in start},
            "tracks": names,
            "parameters": {name: str(value) for name, value in parameters.items() if not name.startswith(PREFIX)},
        }
        begin = self._next_start()
        self.running = True
        return begin

    def _take(self, media: JsonObject) -> Iterator[Step]:
        """Take a chunk of audio."""
        track = self._tracks.get(str(media.get("track", next(iter(self._tracks)))))
        at_ms = _milliseconds(media.get("timestamp"))
        if track is None:
            return
        chunk = samples("payload", media.get("payload"))
        if at_ms is not None and self._origin_ms is None:
            self._origin_ms = at_ms
        place = None if at_ms is None else (at_ms - (self._origin_ms or 0)) * self.sample_rate // 1000
        track.add(chunk, place)
        yield from self._release(last=False)

    def _release(self, *, last: bool) -> Iterator[Step]:
        """Yield the audio that both directions have. With `last`, yield all of it."""
        tracks = list(self._tracks.values())
        if not tracks:
            return
        if last:
            for track in tracks:
                track.settle(0)
        end = max(track.end for track in tracks)
        for track in tracks:
            track.fill(end if last else end - LEAD_MS * self.sample_rate // 1000)
        size = min(len(track.ready) for track in tracks)
        parts = [track.take(size) for track in tracks]
        if len(parts) > 1:
            audio = bytearray(len(parts) * len(parts[0]))
            for number, part in enumerate(parts):
                audio[number :: len(parts)] = part
            parts = [bytes(audio)]
        if parts[0]:
            yield parts[0]

    def _refused(self, why: str) -> Hangup:
        self._ended = True
        return Hangup(CloseCode.REFUSED, close_reason(why))


class Track:
    """The audio of one direction, put in order by the places of its chunks. A sample is one byte."""

    def __init__(self, rate: int, silence: bytes) -> None:
        self.ready = bytearray()  # in order, and not taken yet
        self.end = 0  # the place behind it
        self._silence = silence
        self._per_ms = rate / 1000
        self._moved = 0  # what is subtracted from places, because a gap was too long or a clock was set back
        self._early: list[tuple[int, bytes]] = []  # chunks behind a gap, in order

    def add(self, chunk: bytes, place: int | None) -> None:
        """Take a chunk that begins at this place; without one, it follows what came before."""
        if place is None:
            place = self._moved + max([self.end, *(at + len(early) - self._moved for at, early in self._early)])
        elif self.end - (place - self._moved) > LONGEST_BACK_MS * self._per_ms:
            self._moved = place - self.end
        self._early.append((place, chunk))
        self._early.sort(key=lambda each: each[0])
        self.settle(MOST_EARLY)

    def settle(self, most: int) -> None:
        """Put chunks into their places, as far as nothing is missing before them, until at most so many wait."""
        while self._early:
            at, chunk = self._early[0]
            gap = at - self._moved - self.end
            # Times are rounded: less than half a chunk is no gap.
            if gap > len(chunk) // 2:
                last, latest = self._early[-1]
                behind = last + len(latest) - self._moved - self.end
                if behind < REORDER_MS * self._per_ms and len(self._early) <= most:
                    return
                silence = min(gap, round(LONGEST_GAP_MS * self._per_ms))
                self._moved += gap - silence
                self._append(self._silence * silence)
            del self._early[0]
            if gap + len(chunk) >= min(_NEW_SAMPLES, len(chunk)):
                self._append(chunk)

    def fill(self, end: int) -> None:
        """Add silence up to this place, if no audio has come until there."""
        if self.end < end:
            self.settle(0)
            self._append(self._silence * (end - self.end))

    def take(self, size: int) -> bytes:
        """Return the next samples."""
        taken = bytes(self.ready[:size])
        del self.ready[:size]
        return taken

    def _append(self, audio: bytes) -> None:
        self.ready += audio
        self.end += len(audio)


def _milliseconds(value: object) -> int | None:
    """Return a time of Twilio, which is text; None if it is none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 13 else None
