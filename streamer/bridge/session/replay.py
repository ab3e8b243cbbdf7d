"""What a stream's model says, on the clock of the session: one replay, however many sequences it takes.

Pure. A sequence that is lost is followed by one that begins at the last cut and hears the audio since then again.
Its samples, times and segments count from its own beginning, and it says again what was said of that audio: here they
are shifted, and what was told is dropped. A final and its cut come in one answer, so no final can come twice: what was
told of the running segment is partials and where speech began and ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamer.audio.sample_converter import SAMPLE_RATE

Event = dict[str, Any]
# What the model says at a cut of what it knew there, and takes as options of a new sequence.
_STATE = ("speaking", "begins")
# What it says of a segment that it has not ended.
_OF_SEGMENTS = ("partial", "speech")


class Replay:
    """The events of one stream, in order, each once."""

    def __init__(self) -> None:
        self.cut = 0  # the sample from which on audio may be needed again
        self.heard = 0  # samples that were acknowledged, by whichever sequence
        self.replayed = 0  # and by the present one
        self.resume: dict[str, Any] = {}  # options with which a sequence goes on at the cut
        self._offset = 0  # where the present sequence began
        self._first = 0  # its first segment
        self._segments = 0  # finals told
        self._ended_ms = 0  # the end of the last word of a final
        self._again = False  # the running segment was begun by a sequence that is lost
        self._partial_ms = -1  # what the last partial of the running segment had heard
        self._begun_ms = -1  # and one before it was begun again, without a final
        self._ended = 0  # finals told at the last cut
        self._final: Event | None = None  # the one that the next cut ends
        self._stable = ""  # what it promised
        self._speaking = False  # what was told last,
        self._speaking_at_cut = False  # and before the running segment,
        self._changes = 0  # and how often it changed in it
        self._known = False  # what the present sequence said of it
        self._skip = 0  # changes that it says again

    def restart(self) -> None:
        """The next events are those of a new sequence, which begins at the cut."""
        self._offset = self.replayed = self.cut
        self._first = self._segments
        self._again = True
        self._known, self._skip = self._speaking_at_cut, self._changes

    def take(self, events: Iterable[Mapping[str, Any]], *, leaving: bool = False) -> list[Event]:
        """The events of one answer: what of them is for the client, in the session's times.

        `leaving`: if there is a cut among them, another sequence goes on there, and has to tell itself what follows.
        """
        events = list(events)
        cuts = [index for index, event in enumerate(events) if event["type"] == "cut"]
        end = cuts[-1] if leaving and cuts else len(events)
        for event in events:
            if event["type"] == "heard":
                self.replayed = self._offset + event["sample"]
                self.heard = max(self.heard, self.replayed)
        told = (
            self._take(event) for index, event in enumerate(events) if index <= end or event["type"] not in _OF_SEGMENTS
        )
        return [event for event in told if event is not None]

    def _take(self, event: Mapping[str, Any]) -> Event | None:
        kind = event["type"]
        if kind == "cut":
            self._end_segment(event)
        elif kind == "flushed":
            self.resume = {}
            return {**event, "audio_ms": _ms(self.replayed)}
        elif kind == "partial":
            return self._partial(self._shifted(event))
        elif kind == "final":
            final = self._final = self._shifted(event)
            self._segments = final["segment"] + 1
            self._ended_ms = max(self._ended_ms, final["end_ms"])
            return final
        elif kind == "speech":
            return self._speech({**event, "at_ms": self._at(event["at_ms"])})
        # What else a model says, or a later one adds, is not for clients.
        return None

    def _at(self, milliseconds: int) -> int:
        """A time of the present sequence on the session's clock, to the millisecond that a single one would tell."""
        # Samples are rounded down to milliseconds, which is not the same from another zero. Times count from the start
        # of their segment, but for what ends with the audio.
        if milliseconds == _ms(self.replayed - self._offset):
            return _ms(self.replayed)
        return milliseconds + _ms(self.cut) - _ms(self.cut - self._offset)

    def _shifted(self, event: Mapping[str, Any]) -> Event:
        shifted = {**event, "segment": self._first + event["segment"]}
        if "audio_ms" in event:
            shifted["audio_ms"] = self._at(event["audio_ms"])
        words = (shifted, *({**word} for word in event.get("words", ())))
        for word in words:
            for name in ("start_ms", "end_ms"):
                if name in word:
                    # A model knows only its own finals: that no time is before the last of them is seen to here.
                    word[name] = max(self._at(word[name]), self._ended_ms)
        if len(words) > 1:
            shifted["words"] = list(words[1:])
        return shifted

    def _partial(self, partial: Event) -> Event | None:
        if self._again and (partial["audio_ms"] <= self._partial_ms or not partial["text"].startswith(self._stable)):
            return None
        if self._again:
            partial["stable"] = max(partial["stable"], len(self._stable))
        self._partial_ms = partial["audio_ms"]
        self._stable = partial["text"][: partial["stable"]]
        return {**partial, "audio_ms": max(partial["audio_ms"], self._begun_ms)}

    def _speech(self, speech: Event) -> Event | None:
        speaking = speech["state"] == "start"
        if speaking == self._known:
            return None
        self._known = speaking
        if self._skip:
            self._skip -= 1
            return None
        if speaking == self._speaking:
            return None
        self._speaking = speaking
        self._changes += 1
        return speech

    def _end_segment(self, cut: Mapping[str, Any]) -> None:
        self.cut = self._offset + cut["sample"]
        if self._final is not None:
            # A client that has to begin anew, because the service itself was, goes on with the sound from here.
            self._final["cut_ms"], self._final = _ms(self.cut), None
        self.resume = {name: cut[name] for name in _STATE if name in cut}
        # Where the longest segment was cut before its first word, the same segment hears that word once more.
        self._begun_ms = max(self._begun_ms, self._partial_ms) if self._segments == self._ended else -1
        self._ended = self._segments
        self._again, self._partial_ms, self._stable = False, -1, ""
        self._speaking_at_cut, self._changes, self._skip = self._speaking, 0, 0


def _ms(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
