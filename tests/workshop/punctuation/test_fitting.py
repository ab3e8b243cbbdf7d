"""A tiny training learns to punctuate a tiny language, heard with errors, pauses and words that sound alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from streamer.engine.language.language_model import RESERVED, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.text.marks import Case, HeardWord, Mark
from streamer.engine.text.punctuation_model import NetworkShape
from workshop.punctuation.fitting import (
    ALIKE,
    END,
    NOTHING,
    Fit,
    HeardPiece,
    HeardText,
    Hearing,
    best_offsets,
    fit,
    similar_words,
)
from workshop.punctuation.labelled_text import (
    UNLABELLED,
    LabelledText,
    WordHabits,
    labelled_sentences,
    number_sentences,
)

SENTENCES = ("Ann went home.", "So, the cat saw Ann.", "Where is the cat?", "The cat is home, but Ann saw it.")


def test_a_few_steps_learn_marks_and_capitals() -> None:
    """The model learns marks and capitals of sentences in a new order."""
    dice = np.random.default_rng(0)
    numbers: dict[str, int] = {}
    drawn = dice.choice(SENTENCES, 400)
    text = number_sentences((each for line in drawn for each in labelled_sentences(line)), numbers)
    text.begins[1:] = np.minimum(text.begins[1:], 1)
    text.cases[text.begins > 0] = UNLABELLED
    words = list(numbers)
    similar = np.tile(np.arange(len(words), dtype=np.int32)[:, None], ALIKE)
    habits = WordHabits([text], len(words))
    told: list[str] = []
    shape = NetworkShape(16, 24, ((-2, -1, 0, 1), (-2, -1, 0, 1)))
    settings = Fit(minutes=1, most_steps=150, rows=2, places=128, affix_rows=20, shape=shape)
    chosen = habits.vocabulary(words, set(words), 100)
    vocabulary = [words[number] for number in chosen]
    heard = HeardText({"text": text}, similar, 0)
    model = fit(words, vocabulary, habits.of(chosen), heard, settings, told.append)
    said = ["where", "is", "the", "cat", "ann", "went", "home", "so", "the", "cat", "saw", "ann"]
    [found] = model.read([[*(HeardWord(word) for word in said[:-1]), HeardWord(said[-1], 900)]])
    marks = {said[place]: word.mark for place, word in enumerate(found) if word.mark is not Mark.NONE}
    assert marks == {"cat": Mark.QUESTION, "home": Mark.FULL_STOP, "so": Mark.COMMA, "ann": Mark.FULL_STOP}
    within = {said[place]: found[place].case for place in (2, 3, 5, 6, 9, 10, 11)}
    assert within == {**dict.fromkeys(within, Case.LOWER), "ann": Case.FIRST}
    assert "step 150" in told[-1]


def test_a_mark_that_is_found_too_rarely_gets_more() -> None:
    """A mark that is set too rarely gets the offset with the best F1; a mark with a good F1 gets none."""
    torch.manual_seed(0)
    labels = torch.randint(3, (3000,))
    scores = torch.nn.functional.one_hot(labels, 3) * 2.0 + torch.randn(3000, 3)
    scores[:, 1] -= 1.0
    labels[:50] = UNLABELLED
    offsets = best_offsets(scores, labels)
    assert offsets[0] == 0
    assert 0.5 < offsets[1] < 1.6
    assert offsets[2] < 0.4


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


def test_similar_words_differ_in_a_phone_or_two() -> None:
    """Homophones come most often, unlike words never, and a word without neighbours stays itself."""
    spoken = {"write": (1, 2, 3), "right": (1, 2, 3), "rice": (1, 2, 4), "banana": (5, 6, 7, 6, 7, 6)}
    language = LanguageModel.build(list(spoken), {(word,): (-1.0, 0.0) for word in spoken})
    numbers = {word: number + len(RESERVED) for number, word in enumerate(spoken)}
    lexicon = Lexicon.build([(numbers[word], way) for word, way in spoken.items()], np.zeros(10, dtype=np.float32))
    words = ["banana", "right", "unheard", "write", "rice"]
    alike = similar_words(words, lexicon, language)
    found = {word: [words[other] for other in row] for word, row in zip(words, alike.tolist(), strict=True)}
    assert set(found["banana"]) == {"banana"}
    assert set(found["unheard"]) == {"unheard"}
    assert set(found["write"]) <= {"right", "rice"}
    assert found["write"].count("right") > found["write"].count("rice")
    assert set(found["rice"]) <= {"right", "write"}
