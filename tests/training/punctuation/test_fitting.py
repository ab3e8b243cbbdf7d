"""A tiny training learns to punctuate a tiny language."""

from __future__ import annotations

import numpy as np

from streamer.engine.punctuation.mark_network import NetworkShape
from streamer.engine.punctuation.marks import Case, HeardWord, Mark
from streamer.training.punctuation.fitting import Fit, fit
from streamer.training.punctuation.heard_text import HeardText
from streamer.training.punctuation.labelled_text import UNLABELLED, number_sentences
from streamer.training.punctuation.punctuated_text import labelled_sentences
from streamer.training.punctuation.similar_words import ALIKE
from streamer.training.punctuation.word_habits import WordHabits

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
