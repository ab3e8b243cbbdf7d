"""Delays, times and confidences of single words, from hand-made results and alignments of both formats."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.commands.accuracy.manifest import AudioLocation, ManifestError, Utterance
from streamer.commands.accuracy.results import PartialCounts, TimedWord, TimePoint, UtteranceResult, utterance_result
from streamer.commands.accuracy.word_figures import (
    BINS,
    AlignedWord,
    ErrorSpread,
    JudgedConfidence,
    TimeOffset,
    WordDelay,
    read_alignment,
    reliability,
    summarise_delays,
    time_errors,
    word_delay,
    word_figures,
)
from tests.commands.accuracy.session_events import arrived, final, partial


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


def test_what_is_as_sure_as_it_is_right_has_no_error() -> None:
    """Honest confidences give ten bins of equal size, each as right as it says, and no error."""
    judged = [JudgedConfidence(share / 10, number < share) for share in range(1, 11) for number in range(10)]
    found = reliability(judged[::-1])
    assert found is not None
    assert found.number == 100
    assert found.error == pytest.approx(0.0)
    assert found.confidence == pytest.approx(found.right) == pytest.approx(0.55)
    assert [(each.number, round(each.confidence, 6), round(each.right, 6)) for each in found.bins] == [
        (10, share / 10, share / 10) for share in range(1, 11)
    ]


def test_the_error_is_the_mean_distance_over_the_bins() -> None:
    """The error of an overconfident recogniser is its excess; finals may be right in part."""
    found = reliability([JudgedConfidence(0.9, 0.5)] * 40)
    assert found is not None
    assert found.error == pytest.approx(0.4)
    assert len(found.bins) == BINS
    assert math.isnan(found.ranking)


def test_ranking_does_not_depend_on_the_scale() -> None:
    """The ranking is 1 if right words are always surer, and a half if chance decides or all are equally sure."""
    dice = np.random.default_rng(1)
    cases = [
        ([JudgedConfidence(0.9, True), JudgedConfidence(0.8, True), JudgedConfidence(0.1, False)], 1.0),
        ([JudgedConfidence(0.5, True), JudgedConfidence(0.5, False)], 0.5),
        ([JudgedConfidence(float(dice.random()), bool(dice.random() < 0.5)) for _ in range(4000)], 0.5),
    ]
    for judged, ranking in cases:
        found = reliability(judged)
        assert found is not None
        assert found.ranking == pytest.approx(ranking, abs=0.03)


def test_few_words_make_few_bins() -> None:
    """Without confidences there is no reliability."""
    found = reliability([JudgedConfidence(0.5, True)])
    assert found is not None
    assert len(found.bins) == 1
    assert reliability([]) is None


def test_sizes_and_signs() -> None:
    """Medians and 90th percentiles are of absolute errors; a constant shift shows in the signed median."""
    found = time_errors([TimeOffset(float(number), -50.0) for number in range(-50, 51)])
    assert found is not None
    assert found.words == 101
    assert found.start == ErrorSpread(median=25.0, p90=45.0, signed=0.0)
    assert found.end == ErrorSpread(median=50.0, p90=50.0, signed=-50.0)


def test_of_nothing_there_are_none() -> None:
    """Without words there are no time errors."""
    assert time_errors([]) is None


def test_a_delay_is_counted_from_the_words_end() -> None:
    """Delays have both clocks, and a word shown only after all audio is marked."""
    word = TimedWord("cat", TimePoint(900, 950.0), TimePoint(1200, 1300.0), TimePoint(2000, 2500.0))
    assert word_delay(600, word, audio_ms=2000) == WordDelay(
        TimePoint(300, 350.0), TimePoint(600, 700.0), TimePoint(1400, 1900.0), False
    )
    assert word_delay(600, word, audio_ms=900).at_end


def test_medians_and_percentiles() -> None:
    """The summary has medians and percentiles by either clock, and is None without delays."""
    found = [
        WordDelay(TimePoint(number, 2.0 * number), TimePoint(3 * number, 0.0), TimePoint(10 * number, 0.0), number == 3)
        for number in range(101)
    ]
    spread = summarise_delays(found)
    assert spread is not None
    assert (spread.words, spread.at_end) == (101, 1)
    assert (spread.shown, spread.stable, spread.final) == ((50, 90), (150, 270), (500, 900))
    by_wall = summarise_delays(found, wall=True)
    assert by_wall is not None
    assert by_wall.shown == (100, 180)
    assert summarise_delays([]) is None


def utterance(name: str, text: str) -> Utterance:
    return Utterance(name, "c", None, tuple(text.split()), AudioLocation(Path("unused")))


SPOKEN = [utterance("a/1.ogg", "well known man"), utterance("a/2.ogg", "yes"), utterance("a/3.ogg", "no")]


def test_json_lines(tmp_path: Path) -> None:
    """Words of an aligner are split like ours; utterances that are not aligned or differ are left out."""
    lines = [
        {"name": "a/1.ogg", "aligned": True, "words": [["Well-known", 100, 400], ["man", 600, 50]], "phones": []},
        {"name": "a/2.ogg", "aligned": False, "words": [["yes", 0, 0]]},
        {"name": "a/3.ogg", "aligned": True, "words": [["know", 0, 100]]},
        {"name": "other", "words": []},
    ]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_alignment(path, SPOKEN) == {
        "a/1.ogg": [
            AlignedWord("well", 100, 500, False),
            AlignedWord("known", 100, 500, False),
            AlignedWord("man", 600, 650),
        ]
    }


def test_ctm(tmp_path: Path) -> None:
    """CTM has seconds, with or without a confidence."""
    path = tmp_path / "dev.ctm"
    path.write_text(
        "a/2.ogg 1 0.25 0.50 YES\na/1.ogg A 0.1 0.2 well 0.9\na/1.ogg A 0.3 0.1 known 1\na/1.ogg A 1 1 man 1\n"
    )
    assert read_alignment(path, SPOKEN) == {
        "a/1.ogg": [AlignedWord("well", 100, 300), AlignedWord("known", 300, 400), AlignedWord("man", 1000, 2000)],
        "a/2.ogg": [AlignedWord("yes", 250, 750)],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no utterance of the manifest: it has nothing at all"),
        ('{"name": "x", "words": []}\n', "holds no utterance of the manifest: it has 'x', the manifest 'a/1.ogg'"),
        ('{"name": "a/1.ogg"}\n', "line 1, is neither"),
        ('{"name": "a/1.ogg", "words": [["a", 1]]}\n', "line 1, is neither"),
        ("a/1.ogg 1 0 1 well\n\na/1.ogg 1 x 1 known\n", "line 3, is neither"),
        ("a/1.ogg 1\n", "line 1, is neither"),
    ],
)
def test_a_bad_alignment_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    """An error names the file, and the line if there is one."""
    path = tmp_path / "alignment"
    path.write_text(content)
    with pytest.raises(ManifestError, match=words) as error:
        read_alignment(path, SPOKEN)
    assert str(path) in str(error.value)


def test_an_alignment_that_is_not_there(tmp_path: Path) -> None:
    """An alignment of other utterances is refused in one sentence."""
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read_alignment(tmp_path / "missing", SPOKEN)
