"""Words that sound alike."""

from __future__ import annotations

import numpy as np

from streamer.engine.language.language_model import RESERVED, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.training.punctuation.similar_words import similar_words


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
