"""The format of WhisperLiveKit: the whole state after each change, or only what is new in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamer.base.events import Done, Partial, ServerMessage
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode
from streamer.wire.native import encode

PATH: Final = "/asr"
MODES: Final = ("full", "diff")
# A message of the mode `full` has at most these last lines. In the mode `diff` each line comes once.
MOST_LINES: Final = 300
_SPEAKER: Final = 1  # the number of the only one


class WhisperLiveKit(AudioFirst):
    """One websocket of a client of WhisperLiveKit."""

    protocol = "whisperlivekit"
    path = PATH
    written = True

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._diff = dict(opening.query).get("mode") == MODES[1]
        self._lines: list[JsonObject] = []
        self._number = 0  # of messages in the mode `diff`
        self._shown = 0  # lines that the client has, in the mode `diff`
        self._ended = False

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return {}

    def greet(self) -> Iterator[Step]:
        """Say at once that audio must come as samples of 16 bits: clients wait for this."""
        yield Reply(encode({"type": "config", "useAudioWorklet": True, "mode": MODES[self._diff]}))

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio. An empty message is its end; texts are ignored."""
        if self._ended or isinstance(message, str):
            return
        if message:
            yield from self.hear(message)
            return
        self._ended = True
        if not self.running:
            yield Reply(_READY_TO_STOP)
        yield from self.end()
        yield Hangup(CloseCode.DONE)

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the state after each change, and at the end that the client may close."""
        if isinstance(message, Partial):
            yield self._state(message.text, message.audio_ms)
        elif isinstance(message, FinalMessage):
            times = {"start": self._time(message.start_ms), "end": self._time(message.end_ms)}
            self._lines.append({"speaker": _SPEAKER, "text": message.text, **times})
            yield self._state("", message.audio_ms)
        elif isinstance(message, Done) and self._ended:
            yield _READY_TO_STOP

    # Inside

    def _state(self, unfinished: str, audio_ms: int) -> str:
        pruned = max(0, len(self._lines) - MOST_LINES)
        del self._lines[:pruned]
        head: JsonObject = {}
        lines: JsonObject = {"lines": self._lines}
        if self._diff:
            self._number += 1
            head = {"type": "snapshot" if self._number == 1 else "diff", "seq": self._number}
            if self._number > 1:
                new = self._lines[self._shown - pruned :]
                lines = {"n_lines": len(self._lines), **({"new_lines": new} if new else {})}
                lines |= {"lines_pruned": pruned} if pruned else {}
            self._shown = len(self._lines)
        behind_s = max(0, self.sent_ms - self.base_ms - audio_ms) / 1000
        return encode(
            {
                **head,
                "status": "active_transcription" if self._lines or unfinished else "no_audio_detected",
                **lines,
                "buffer_transcription": unfinished,
                "buffer_diarization": "",
                "buffer_translation": "",
                "remaining_time_transcription": behind_s,
                "remaining_time_transcription_processing": behind_s,
                "remaining_time_transcription_policy": 0.0,
                "remaining_time_diarization": 0.0,
            }
        )

    def _time(self, at_ms: int) -> str:
        hundredths = round((self.base_ms + at_ms) / 10)
        minutes, hundredths = divmod(hundredths, 6000)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{hundredths // 100:02d}.{hundredths % 100:02d}"


_READY_TO_STOP: Final = encode({"type": "ready_to_stop"})
