"""Subtitles that grow while somebody speaks: each final adds its cues, and what was written never changes."""

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
        self._written = 0
        # Shown longer than its words so that it can be read, unless the next cue begins before its end.
        self._held: Cue | None = None

    def begin(self) -> str:
        """The header of the document."""
        return VTT_HEADER if self._format == "vtt" else ""

    def add(self, final: SessionEvent) -> str:
        """Add a final of the session."""
        new = make_cues([final])
        if not new:
            return ""
        text = self._released(before_ms=new[0].start_ms)
        if new[-1].end_ms > final["end_ms"]:
            self._held = new.pop()
        return text + "".join(map(self._block, new))

    def heard(self, audio_ms: int) -> str:
        """This much audio was recognised, and all finals of it were added."""
        return self._released() if self._held and audio_ms >= self._held.end_ms + _LATE_MS else ""

    def end(self) -> str:
        """End the document."""
        return self._released()

    def _released(self, before_ms: int | None = None) -> str:
        held, self._held = self._held, None
        if held is None:
            return ""
        if before_ms is not None:
            held = replace(held, end_ms=max(held.start_ms, min(held.end_ms, before_ms)))
        return self._block(held)

    def _block(self, cue: Cue) -> str:
        self._written += 1
        if self._format == "vtt":
            return f"\n{vtt_cue(cue)}"
        return ("\n" if self._written > 1 else "") + srt_cue(self._written, cue)
