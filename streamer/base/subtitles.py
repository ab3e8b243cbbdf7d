"""Subtitles that grow while somebody speaks: each final adds its cues, and written text never changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streamer.base.cues import Cue, SessionEvent, make_cues, shown_until
from streamer.base.transcript import STOP_CUE_MS, VTT_HEADER, Transcript, srt_cue, stop_text, vtt_cue

_LATE_MS: Final = 500  # words arrive a little after they were spoken


class GrowingSubtitles:
    """One SRT or WebVTT document. Each method returns the text to append to it."""

    def __init__(self, format: str) -> None:
        self.speaker_names: Sequence[str] = ()  # from the next cue on
        self._format = format
        self._count = 0
        # The last cue. It waits, because the next one may begin before its end, or so soon that both have a small gap.
        self._last_cue: Cue | None = None

    def begin(self) -> str:
        """Return the header of the document."""
        return VTT_HEADER if self._format == "vtt" else ""

    def add(self, final: SessionEvent) -> str:
        """Add a final of the session."""
        new = make_cues([final], (), self.speaker_names)
        if not new:
            return ""
        text = self._release(next_ms=new[0].start_ms)
        self._last_cue = new.pop()
        return text + "".join(map(self._block, new))

    def advance(self, audio_ms: int, next_ms: int | None = None) -> str:
        """Return the cue that is complete after this much audio. `next_ms`: the start of words that are not final."""
        if next_ms is not None:
            return self._release(next_ms)
        return self._release() if self._last_cue and audio_ms >= self._last_cue.end_ms + _LATE_MS else ""

    def rest(self) -> str:
        """Return the last cue, because nothing follows."""
        return self._release()

    def end(self, transcript: Transcript) -> str:
        """End the document. It says where it stops, if the transcript is not complete."""
        text = self.rest()
        if stopped := stop_text(transcript):
            at_ms = transcript.stopped_ms or 0
            cue = Cue(at_ms, at_ms + STOP_CUE_MS, (f"[{stopped}]",))
            text += f"\nNOTE {stopped}\n" if self._format == "vtt" else self._block(cue)
        return text

    def _release(self, next_ms: int | None = None) -> str:
        cue, self._last_cue = self._last_cue, None
        if cue is None:
            return ""
        if next_ms is not None:
            cue = replace(cue, end_ms=shown_until(cue.start_ms, cue.end_ms, next_ms))
        return self._block(cue)

    def _block(self, cue: Cue) -> str:
        self._count += 1
        if self._format == "vtt":
            return f"\n{vtt_cue(cue, (), self.speaker_names)}"
        return ("\n" if self._count > 1 else "") + srt_cue(self._count, cue, (), self.speaker_names)
