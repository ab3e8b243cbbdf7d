"""What a recogniser made of utterances, whichever way they went: words with their moments, failures, time it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.audio.audio_file import SAMPLE_RATE, Int16Samples
from streamer.evaluate.emission import Arrival, Emission, Final, finals
from streamer.evaluate.manifest import Utterance
from streamer.evaluate.measures.partials import NOTHING_SHOWN, Showings, showings

Progress = Callable[[Utterance, float], None]
"""Told after each utterance: which one, and its seconds."""


@dataclass(frozen=True)
class Hearing:
    """One utterance; `failure` is a sentence if its session did not come to its end, and empty otherwise."""

    utterance: Utterance
    seconds: float
    finals: tuple[Final, ...]
    failure: str = ""
    showings: Showings = NOTHING_SHOWN

    @property
    def emissions(self) -> tuple[Emission, ...]:
        """The words of all finals."""
        return tuple(emission for final in self.finals for emission in final.words)

    @property
    def words(self) -> tuple[str, ...]:
        """What was understood, normalised: all finals."""
        return tuple(emission.word for emission in self.emissions)


@dataclass(frozen=True)
class Run:
    """All utterances in the order of the manifest, and what it took: `cpu` is CPU seconds by whoever used them."""

    hearings: Sequence[Hearing]
    wall_s: float
    cpu: dict[str, float]

    @property
    def seconds(self) -> float:
        """Audio that was heard to its end."""
        return sum(hearing.seconds for hearing in self.hearings if not hearing.failure)


def heard(utterance: Utterance, samples: Int16Samples, arrivals: Sequence[Arrival], failure: str = "") -> Hearing:
    """What the events of one session come to."""
    found = tuple(finals(arrivals))
    return Hearing(utterance, len(samples) / SAMPLE_RATE, found, failure, showings(arrivals))
