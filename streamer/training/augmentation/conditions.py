"""How often and how strongly speech is changed in training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """The chance of each change for a row, and the sizes of the masks in its features."""

    room: float = 0.08
    line: float = 0.12
    noise: float = 0.35
    synthetic_rooms: float = 0.0  # the share of synthetic rooms, because there are few recordings
    telephones: float = 0.0  # the share of telephone lines: 8 kHz and 8 bits
    voices: float = 0.0  # the chance of another length of the vocal tract
    widest_voice: float = 0.12  # the most by which it is longer or shorter
    bands: int = 2
    widest_band: int = 12  # mels
    stretches: int = 2
    longest_share: float = 0.1  # the longest masked stretch, as a share of the row
    longest_stretch: int = 32  # features of 10 ms


CONDITIONS = {
    "usual": Conditions(),
    "hard": Conditions(
        room=0.2,
        line=0.16,
        noise=0.45,
        synthetic_rooms=0.7,
        telephones=0.5,
        widest_band=18,
        stretches=4,
        longest_share=0.08,
        longest_stretch=48,
    ),
    "varied": Conditions(
        room=0.4,
        line=0.12,
        noise=0.4,
        synthetic_rooms=0.5,
        telephones=0.4,
        voices=0.6,
        widest_band=18,
        stretches=4,
        longest_share=0.08,
        longest_stretch=48,
    ),
}
