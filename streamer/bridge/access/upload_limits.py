"""How much one uploaded recording may be, and how many there may be at a time."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.limits import LARGEST_UPLOAD, LONGEST_UPLOAD_S, MOST_UPLOADS

# What an upload may take beyond the length of its recording: it may wait for a busy service.
_PATIENCE_S = 600.0
# The processor time of a decoder: the slowest formats are decoded a hundred times faster than they play.
_LEAST_CPU_S, _FASTER = 30, 20


@dataclass(frozen=True)
class UploadLimits:
    """The limits of uploads."""

    largest: int = LARGEST_UPLOAD  # bytes of a body
    longest_s: float = LONGEST_UPLOAD_S  # of audio
    most: int = MOST_UPLOADS  # at a time

    @property
    def cpu_s(self) -> int:
        """How much processor time a decoder may use."""
        return _LEAST_CPU_S + round(self.longest_s / _FASTER)

    @property
    def request_s(self) -> float:
        """How long a request may take altogether. Speech may be sent as it is spoken."""
        return self.longest_s + _PATIENCE_S
