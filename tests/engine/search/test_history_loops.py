"""The loops that follow the words of hypotheses, and how much the beam agrees on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from streamer.engine.search.beam_search import WordAgreement
from streamer.engine.search.beams import ENDED_WORD, Beams, Histories
from streamer.engine.search.history_loops import follow_words, note_agreement, path_to
from streamer.engine.search.search import HypothesisWord

BEAM = 5
ONE, LATER, OTHER, FAR = (1, 0, 5), (1, 2, 6), (2, 0, 5), (1, 40, 45)  # the word, its start and its end
Spoken = tuple[int, int, int]
Row = tuple[int, Sequence[Spoken], float]
"""The row that it continues, the words that ended after it, and its mass."""


class Slot:
    """The histories of one slot."""

    def __init__(self) -> None:
        self.histories, self._beams = Histories(1, BEAM), Beams(1, BEAM, (0, 0))
        self.histories.reset(0)
        self._beams.reset(0)

    def follow(self, *rows: Row) -> None:
        """Follow a step with these rows."""
        records = np.zeros((1, 40), ENDED_WORD)
        count, hypotheses = 0, self._beams.hypotheses[0]
        hypotheses["total"] = 0.0
        for hypothesis, (source, words, mass) in zip(hypotheses, rows, strict=False):
            back = source
            for word in words:
                record = records[0, count]
                record["before"], record["phones"], record["probability"] = back, 1, 0.9
                record["word"], record["start"], record["end"] = word
                back, count = BEAM + count, count + 1
            hypothesis["back"], hypothesis["total"] = back, mass
        self.histories.reserve([0], count + 1)
        follow_words(self.histories.arrays, np.zeros(1, np.int64), self._beams.hypotheses, records, np.array([count]))

    def settle(self, *words: Spoken) -> list[Spoken]:
        """Follow a step with one row that has these words more. Return what was settled."""
        self.follow((0, words, 1.0))
        fresh = self.histories.arrays.shown[0]["fresh"]
        line = self.histories.arrays.line[0, :fresh]
        return [(int(one["word"]), int(one["start"]), int(one["end"])) for one in line]

    def words(self, row: int) -> list[Spoken]:
        """Return the words of a row that are not settled."""
        arrays = self.histories.arrays
        words = arrays.words[0][path_to(arrays.words[0], arrays.rows[0, row])]
        return [(int(one["word"]), int(one["start"]), int(one["end"])) for one in words]

    def note(self) -> None:
        """Note the agreement on the words of the first row."""
        arrays = self.histories.arrays
        note_agreement(arrays, 0, self._beams.hypotheses[0], path_to(arrays.words[0], arrays.rows[0, 0]))

    def share(self, word: Spoken, now: float) -> float:
        """Return the mean share of a word."""
        arrays = self.histories.arrays
        notes = arrays.notes[0, : arrays.noted[0]].tolist()
        agreement = WordAgreement([(str(number), *others) for number, *others in notes])
        return agreement.of(HypothesisWord(str(word[0]), word[1], word[2], 0.9), now)


def test_words_of_all_rows_are_settled() -> None:
    """Words with which all living rows begin are settled, with the times of the best row; the others stay open."""
    slot = Slot()
    slot.follow((0, [ONE, OTHER], 1.0), (0, [LATER], 0.5), (0, [LATER, FAR], 0.2))
    assert int(slot.histories.arrays.shown[0]["fresh"]) == 1
    assert [slot.words(row) for row in range(4)] == [[OTHER], [], [FAR], []]
    assert slot.settle() == [OTHER]
    assert slot.settle(ONE, FAR) == [ONE, FAR]
    assert slot.words(0) == []
    assert slot.settle() == []


def test_a_row_may_end_several_words_in_a_step() -> None:
    """A word that ended after another one of the same step belongs to both rows that have it."""
    slot = Slot()
    slot.follow((0, [OTHER, ONE], 1.0), (0, [ONE, LATER], 0.5))
    slot.follow((1, [FAR], 1.0), (0, [], 0.5), (1, [], 0.1))
    assert [slot.words(row) for row in range(3)] == [[ONE, LATER, FAR], [OTHER, ONE], [ONE, LATER]]


def test_words_that_no_row_has_are_dropped() -> None:
    """The places of words do not grow with the length of a segment."""
    slot = Slot()
    for number in range(200):
        slot.follow((0, [(number, number, number + 1)], 1.0), (0, [(number + 1, number, number + 1)], 0.5))
    assert slot.histories.arrays.used[0] == 3
    assert slot.histories.arrays.words.shape[1] < 20


def test_of_a_word_the_mean_is_kept() -> None:
    """The share of a word is the mean over the present step and the steps in which the word was best and open."""
    slot = Slot()
    slot.follow((0, [ONE], 1.0), (0, [OTHER], 3.0))
    slot.note()
    slot.follow((1, [], 1.0), (0, [], 1.0), (1, [], 2.0))
    slot.note()
    slot.follow((1, [], 1.0), (0, [], 3.0))
    slot.note()
    assert slot.share(ONE, 1.0) == pytest.approx((0.25 + 0.25 + 1.0) / 3)
    assert slot.share(OTHER, 1.0) == pytest.approx((0.75 + 1.0) / 2)
    assert slot.share(FAR, 1.0) == 1.0


def test_the_same_word_may_have_other_times() -> None:
    """With another start it is still the same word; with another text or place it is not."""
    slot = Slot()
    slot.follow((0, [ONE], 1.0), (0, [LATER], 1.0), (0, [OTHER], 1.0), (0, [FAR], 1.0))
    slot.note()
    assert slot.share(ONE, 0.5) == slot.share(LATER, 0.5) == 0.5


def test_rows_without_mass_do_not_count() -> None:
    """Rows that are far less likely than the likeliest do not count."""
    slot = Slot()
    slot.follow((0, [ONE], 1.0), (0, [OTHER], 1e-5))
    slot.note()
    assert slot.share(ONE, 1.0) == 1.0


def test_a_long_segment_has_a_note_for_each_word() -> None:
    """A word is searched among the last notes, and each word that could change has one."""
    slot = Slot()
    for number in range(300):
        words = [(number, 5 * number, 5 * number + 4)]
        slot.follow((0, words, 1.0), (0, [], 1.0))
        for _ in range(3):
            slot.note()
    assert slot.histories.arrays.noted[0] == 300
    assert slot.share((0, 0, 4), 1.0) == pytest.approx((3 * 0.5 + 1.0) / 4)
