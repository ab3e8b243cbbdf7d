"""Text as it would be heard: errors, pauses and ends of segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from streamer.training.punctuation.heard_text import END, NOTHING, HeardPiece, HeardText, Hearing
from streamer.training.punctuation.labelled_text import UNLABELLED, LabelledText
from streamer.training.punctuation.similar_words import ALIKE

EXACT = Hearing(clean_share=1.0, timeless_share=1.0, ending_share=0.0)
WORDS = 40


def text(sentences: int = 300) -> LabelledText:
    """Sentences of five words: a comma after the second, and a full stop or question mark at the end."""
    dice = np.random.default_rng(0)
    words = dice.integers(WORDS, size=5 * sentences).astype(np.int32)
    marks = np.tile(np.array([0, 1, 0, 0, 2, 0, 1, 0, 0, 3], dtype=np.int8), sentences // 2)
    begins = np.tile(np.array([1, 0, 0, 0, 0], dtype=np.int8), sentences)
    begins[0] = 2
    return LabelledText(words, marks, np.zeros_like(marks), begins)


def itself(words: int = WORDS) -> npt.NDArray[np.int32]:
    """No word sounds like another."""
    return np.tile(np.arange(words, dtype=np.int32)[:, None], ALIKE)


def pieces(hearing: Hearing, similar: npt.NDArray[np.int32] | None = None, number: int = 200) -> list[HeardPiece]:
    """Pieces of the text above."""
    heard = HeardText({"text": text()}, itself() if similar is None else similar, 0, hearing)
    return [heard.piece() for _ in range(number)]


def test_exact_hearing_gives_the_text_itself() -> None:
    """Exact hearing gives pieces of the text, without pauses."""
    whole = "".join(map(chr, text().words))
    for piece in pieces(EXACT):
        assert "".join(map(chr, piece.words)) in whole
        assert not piece.pauses.any()


def test_wrong_words_sound_alike_and_tell_no_capital() -> None:
    """Wrong words keep their marks and lose their capitals."""
    other = ((itself() + 1) % WORDS).astype(np.int32)
    hearing = Hearing(substituted=0.5, dropped=0, inserted=0, clean_share=0, timeless_share=1, ending_share=0)
    found = pieces(hearing, other)
    unlabelled = np.concatenate([piece.cases == UNLABELLED for piece in found])
    assert 0.1 < unlabelled.mean() < 0.5
    marks = np.concatenate([piece.marks for piece in found])
    assert (marks[unlabelled] != 0).mean() == pytest.approx((marks[~unlabelled] != 0).mean(), abs=0.05)


def test_a_lost_word_leaves_its_mark_to_the_word_before() -> None:
    """Nearly as many marks remain, of fewer words."""
    hearing = Hearing(substituted=0, dropped=0.6, inserted=0, clean_share=0, timeless_share=1, ending_share=0)
    marks = np.concatenate([piece.marks for piece in pieces(hearing)])
    assert (marks != 0).mean() > 0.43


def test_added_words_have_no_mark() -> None:
    """Added words have neither a mark nor a capital."""
    hearing = Hearing(substituted=0, dropped=0, inserted=0.8, clean_share=0, timeless_share=1, ending_share=0)
    for piece in pieces(hearing, number=50):
        assert not piece.marks[piece.cases == UNLABELLED].any()


def test_pauses_are_longer_after_marks() -> None:
    """Pauses are longer after marks, and unknown before the first word."""
    found = pieces(Hearing(clean_share=1, timeless_share=0, hesitant_share=0, ending_share=0))
    pauses = np.concatenate([piece.pauses[1:] for piece in found])
    marks = np.concatenate([piece.marks[:-1] for piece in found])
    means = [pauses[marks == mark].mean() for mark in range(3)]
    assert means[0] < means[1] < means[2]
    assert not any(piece.pauses[0] for piece in found)


def test_segments_mostly_end_with_a_sentence() -> None:
    """The end stands after the last word, with the pause that ended it."""
    found = pieces(Hearing(clean_share=1, ending_share=1))
    assert all(piece.words[-1] == END and piece.pauses[-1] > 0 for piece in found)
    last = [int(piece.marks[-2]) for piece in found if len(piece.words) > 7]
    assert 0.6 < np.mean([mark in (2, 3) for mark in last]) < 0.95


def test_a_row_is_full_of_pieces_with_gaps() -> None:
    """The gap between two pieces has no words and no labels."""
    row = HeardText({"text": text()}, itself(), 0).row(256, 6)
    assert {len(values) for values in vars(row).values()} == {256}
    nothing = row.words == NOTHING
    assert (row.marks[nothing] == UNLABELLED).all()
    lengths = [len(run) for run in "".join("." if each else "x" for each in nothing).split("x") if run]
    assert min(lengths[:-1]) == 6
