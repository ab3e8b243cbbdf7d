"""How large and how long one uploaded recording may be, and how many uploads there may be at a time."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.limits import LARGEST_UPLOAD, LONGEST_UPLOAD_S, MOST_UPLOADS

# An upload may take this much longer than its recording, because it may wait for a busy service.
_EXTRA_S = 600.0
# The processor time of a decoder: a minimum, and the seconds of audio for each further second. Even the slowest formats
# are decoded a hundred times faster than they play.
_LEAST_CPU_S, _AUDIO_S_PER_CPU_S = 30, 20


@dataclass(frozen=True)
class UploadLimits:
    """The limits of uploads."""

    largest: int = LARGEST_UPLOAD  # bytes of a body
    longest_s: float = LONGEST_UPLOAD_S  # of audio
    most: int = MOST_UPLOADS  # at a time

    @property
    def cpu_s(self) -> int:
        """The processor time that a decoder may use."""
        return _LEAST_CPU_S + round(self.longest_s / _AUDIO_S_PER_CPU_S)

    @property
    def request_s(self) -> float:
        """The time that a request may take altogether. Speech may be sent as it is spoken."""
        return self.longest_s + _EXTRA_S
