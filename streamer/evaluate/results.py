"""The results of recognising the utterances of a manifest: words with their times, failures, and the time it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.audio.audio_file import SAMPLE_RATE, Int16Samples
from streamer.evaluate.manifest import Utterance
from streamer.evaluate.measures.end_delays import EndDelay
from streamer.evaluate.measures.partial_stability import NOTHING_SHOWN, PartialCounts, count_partials
from streamer.evaluate.word_timing import TimedEvent, TimedFinal, TimedWord, timed_finals

ProgressCallback = Callable[[Utterance, float], None]
"""Called after each utterance with its length in seconds."""


class Unavailable(Exception):
    """The recordings cannot be recognised here; the message says why."""


@dataclass(frozen=True)
class UtteranceResult:
    """The result of one utterance. `failure` is a sentence if its session failed, otherwise empty."""

    utterance: Utterance
    seconds: float
    finals: tuple[TimedFinal, ...]
    failure: str = ""
    partials: PartialCounts = NOTHING_SHOWN
    end_delay: EndDelay | None = None  # only if the audio was sent as fast as it was spoken

    @property
    def timed_words(self) -> tuple[TimedWord, ...]:
        """The words of all finals, with their times."""
        return tuple(word for final in self.finals for word in final.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The normalised words of all finals."""
        return tuple(timed_word.word for timed_word in self.timed_words)


@dataclass(frozen=True)
class EvaluationRun:
    """The results of all utterances in the order of the manifest, and the time it took.

    `cpu` has CPU seconds by the name of what used them.
    """

    results: Sequence[UtteranceResult]
    wall_s: float
    cpu: dict[str, float]

    @property
    def seconds(self) -> float:
        """The seconds of audio that were recognised without a failure."""
        return sum(result.seconds for result in self.results if not result.failure)


def utterance_result(
    utterance: Utterance,
    samples: Int16Samples,
    events: Sequence[TimedEvent],
    failure: str = "",
    end_delay: EndDelay | None = None,
) -> UtteranceResult:
    """Return the result of an utterance from the events of its session."""
    finals = tuple(timed_finals(events))
    return UtteranceResult(utterance, len(samples) / SAMPLE_RATE, finals, failure, count_partials(events), end_delay)
