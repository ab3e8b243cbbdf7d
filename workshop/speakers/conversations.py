"""Makes conversations from recordings of single speakers. The same seed gives the same conversation.

Who speaks when follows from where each voice is put: the recordings are cut at the first and last sound in them, and
pauses inside them of less than half a second belong to the turn. The measure of sound is the energy of the recording
alone, so nothing that is measured takes part in the reference.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.commands.accuracy.manifest import Utterance

RATE: Final = 16_000
_FRAME: Final = 320
_QUIET_DB: Final = 30.0  # a frame that is this much quieter than the loud ones of its recording has no voice
_SHORT_PAUSE: Final = 25  # frames: a shorter pause belongs to the turn
_SHORT_SOUND: Final = 3  # frames: a shorter sound is no voice
_SHORTEST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 2.0
_OVERLAPPING: Final = 0.15  # the share of turns that begin before the last one is over
_LONGEST_OVERLAP_S: Final = 1.0
_SAME_AGAIN: Final = 0.15  # the share of turns after which the same voice goes on
_LEVELS_DB: Final = 3.0  # a voice is louder or softer by at most this
_NOISE: Final = 4.0  # the standard deviation of the noise below it all, in steps of 16 bits

Int16Samples = NDArray[np.int16]


@dataclass(frozen=True)
class SpokenTurn:
    """The time from `start_s` to `end_s`, in which this speaker speaks."""

    start_s: float
    end_s: float
    speaker: str


@dataclass(frozen=True)
class Conversation:
    """A recording of several voices, and who speaks when. Turns of two voices may overlap."""

    name: str
    samples: Int16Samples
    turns: tuple[SpokenTurn, ...]

    @property
    def speakers(self) -> list[str]:
        """The names of those who speak."""
        return sorted({turn.speaker for turn in self.turns})

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / RATE


def voices_of(utterances: Sequence[Utterance], fewest: int = 4) -> dict[str, list[Utterance]]:
    """Return the recordings of each speaker who has at least `fewest` of them."""
    voices: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        if utterance.speaker is not None:
            voices.setdefault(f"{utterance.corpus}/{utterance.speaker}", []).append(utterance)
    return {name: own for name, own in voices.items() if len(own) >= fewest}


def make_conversation(voices: Mapping[str, Sequence[Utterance]], count: int, seconds: float, seed: int) -> Conversation:
    """Return a conversation of `count` of these voices, of at least this length. Every voice speaks twice or more."""
    chance = random.Random(f"{seed} {count}")
    speakers = chance.sample(sorted(voices), count)
    levels = {speaker: 10 ** (chance.uniform(-_LEVELS_DB, _LEVELS_DB) / 20) for speaker in speakers}
    ahead = {speaker: chance.sample(list(voices[speaker]), len(voices[speaker])) for speaker in speakers}
    order = [*speakers, *chance.sample(speakers, count)]
    pieces: list[tuple[int, Int16Samples]] = []
    turns: list[SpokenTurn] = []
    end, last, number = RATE // 2, "", 0
    while end < seconds * RATE or number < len(order):
        others = [speaker for speaker in speakers if speaker != last] or speakers
        again = last and chance.random() < _SAME_AGAIN
        speaker = order[number] if number < len(order) else last if again else chance.choice(others)
        number += 1
        own = ahead[speaker]
        own.append(own.pop(0))  # after the last one, the first one comes again
        recording, sounds = _spoken(own[-1].samples())
        if not len(sounds):
            continue
        gap_s = chance.uniform(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S)
        if speaker != last and turns and chance.random() < _OVERLAPPING:
            gap_s = -chance.uniform(0.1, min(_LONGEST_OVERLAP_S, len(recording) / RATE / 2))
        start = max(0, end + int(gap_s * RATE))
        pieces.append((start, (recording * levels[speaker]).clip(-32768, 32767).astype(np.int16)))
        turns += [SpokenTurn((start + a) / RATE, (start + b) / RATE, speaker) for a, b in sounds]
        end, last = max(end, start + len(recording)), speaker
    mixed = np.random.default_rng(seed).normal(0, _NOISE, end + RATE)
    for start, piece in pieces:
        mixed[start : start + len(piece)] += piece
    samples = mixed.round().clip(-32768, 32767).astype(np.int16)
    return Conversation(f"{count} voices, seed {seed}", samples, tuple(sorted(turns, key=lambda turn: turn.start_s)))


def _spoken(samples: Int16Samples) -> tuple[Int16Samples, list[tuple[int, int]]]:
    """Return a recording from its first sound to its last one, and the samples between which there is sound."""
    frames = samples[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME).astype(np.float64)
    if not len(frames):
        return samples, []
    energy = 10 * np.log10((frames**2).mean(1) + 1.0)
    spans = _spans(energy > np.percentile(energy, 95) - _QUIET_DB)
    spans = [(start, end) for start, end in spans if end - start >= _SHORT_SOUND]
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start - joined[-1][1] < _SHORT_PAUSE:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    if not joined:
        return samples, []
    first, last = joined[0][0] * _FRAME, joined[-1][1] * _FRAME
    return samples[first:last], [(start * _FRAME - first, end * _FRAME - first) for start, end in joined]


def _spans(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
