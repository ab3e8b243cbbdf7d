"""Subtitles that grow while somebody speaks: each final adds its cues, and written text never changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streamer.cues import Cue, SessionEvent, make_cues
from streamer.transcript import VTT_HEADER, srt_cue, vtt_cue

_LATE_MS: Final = 500  # words arrive a little after they were spoken


class GrowingSubtitles:
    """One SRT or WebVTT document. Each method returns the text to append to it."""

    def __init__(self, format: str) -> None:
        self._format = format
        self._count = 0
        # The last cue. It waits because it is shown longer than its words, unless the next cue begins before its end.
        self._last_cue: Cue | None = None

    def begin(self) -> str:
        """Return the header of the document."""
        return VTT_HEADER if self._format == "vtt" else ""

    def add(self, final: SessionEvent) -> str:
        """Add a final of the session."""
        new = make_cues([final])
        if not new:
            return ""
        text = self._release(before_ms=new[0].start_ms)
        if new[-1].end_ms > final["end_ms"]:
            self._last_cue = new.pop()
        return text + "".join(map(self._block, new))

    def advance(self, audio_ms: int) -> str:
        """Return the cue that is complete after this much audio, of which all finals were added."""
        return self._release() if self._last_cue and audio_ms >= self._last_cue.end_ms + _LATE_MS else ""

    def end(self) -> str:
        """End the document."""
        return self._release()

    def _release(self, before_ms: int | None = None) -> str:
        cue, self._last_cue = self._last_cue, None
        if cue is None:
            return ""
        if before_ms is not None:
            cue = replace(cue, end_ms=max(cue.start_ms, min(cue.end_ms, before_ms)))
        return self._block(cue)

    def _block(self, cue: Cue) -> str:
        self._count += 1
        if self._format == "vtt":
            return f"\n{vtt_cue(cue)}"
        return ("\n" if self._count > 1 else "") + srt_cue(self._count, cue)
