"""Figures about single words, from hand-made results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.evaluate.manifest import AudioLocation, Utterance
from streamer.evaluate.measures.partial_stability import PartialCounts
from streamer.evaluate.measures.reference_alignment import AlignedWord
from streamer.evaluate.measures.time_errors import ErrorSpread
from streamer.evaluate.measures.word_figures import word_figures
from streamer.evaluate.results import UtteranceResult, utterance_result
from tests.evaluate.session_events import arrived, final, partial


def result(corpus: str, failure: str = "") -> UtteranceResult:
    """ "the cat sat" heard as "uh the bat sat"."""
    utterance = Utterance(f"{corpus}.wav", corpus, None, ("the", "cat", "sat"), AudioLocation(Path("unused")))
    told = [
        {"word": word, "start_ms": 200 * place, "end_ms": 200 * place + 150, "confidence": confidence}
        for place, (word, confidence) in enumerate([("uh", 0.1), ("the", 0.9), ("bat", 0.3), ("sat", 0.8)])
    ]
    events = arrived(
        partial("uh the bat", 500, stable=6),
        partial("uh the bat sat", 900, stable=6),
        final("uh the bat sat", confidence=0.5, words=told, audio_ms=1000),
    )
    return utterance_result(utterance, np.zeros(SAMPLE_RATE * 9 // 10, dtype=np.int16), events, failure)


def test_right_words_tell_delays_and_times() -> None:
    """Delays and times are those of right words; an inserted word shifts nothing."""
    places = [AlignedWord("the", 180, 300), AlignedWord("cat", 300, 600), AlignedWord("sat", 620, 800, alone=False)]
    found = word_figures([result("pets")], {"pets.wav": places})["pets"]
    assert found.delays is not None
    assert (found.delays.words, found.delays.at_end) == (2, 1)
    assert found.delays.shown[0] == (200 + 100) / 2
    assert found.delays.stable[0] == (200 + 200) / 2
    assert found.delays.final[0] == (700 + 200) / 2
    # "sat" is a part of an aligner's word: nobody knows where it starts.
    assert found.times is not None
    assert (found.times.words, found.times.start, found.times.end) == (
        1,
        ErrorSpread(20, 20, 20),
        ErrorSpread(50, 50, 50),
    )


def test_confidence_is_judged_without_an_alignment() -> None:
    """A word is right or wrong; a final is right as far as its words are."""
    found = word_figures([result("pets")], None)["pets"]
    assert (found.delays, found.times) == (None, None)
    assert found.words is not None
    assert [(each.confidence, each.right) for each in found.words.bins] == [(0.1, 0), (0.3, 0), (0.8, 1), (0.9, 1)]
    assert found.words.ranking == 1.0
    assert found.finals is not None
    assert (found.finals.confidence, found.finals.right) == (0.5, 0.5)
    assert found.partials == PartialCounts(shown=4)


def test_each_corpus_and_all() -> None:
    """Corpora are in the order of their names; failed sessions do not count."""
    found = word_figures([result("zoo"), result("pets"), result("pets", "It broke.")], None)
    assert list(found) == ["pets", "zoo", "all"]
    assert [figures.words.number for figures in found.values() if figures.words] == [4, 4, 8]
    assert word_figures([result("pets", "It broke.")], None) == {}
