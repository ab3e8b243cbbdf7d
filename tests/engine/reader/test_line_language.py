"""What the language models think of other words in a line."""

from __future__ import annotations

import pytest

from streamer.engine.bundle import load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.reader.line_language import LineLanguage
from tests.project import BUNDLE


@pytest.mark.parametrize("neural", [False, True], ids=["trigram", "neural"])
def test_likely_words_are_likelier(neural: bool) -> None:
    """Each language model prefers the words that people say, wherever in the line they stand."""
    language = LanguageModel.load(BUNDLE / LANGUAGE_FILE)
    numbers = {word: number for number, word in enumerate(language.words)}
    models = LineLanguage(language, numbers, load_rescorer(BUNDLE, language) if neural else None)
    read = models.line(["he", "lived", "in", "knew", "york", "for", "years"])
    assert read.gain(3, 4, ["new"]) > 2
    assert read.gain(3, 4, ["knew"]) == pytest.approx(0.0, abs=1e-5)
    assert read.gain(0, 1, ["bag"]) < 0
    assert read.gain(7, 7, ["the"]) < 0
    two, none = models.line(["a", "b"]), models.line([])
    assert two.gain(0, 2, []) == pytest.approx(-none.gain(0, 0, ["a", "b"]), abs=1e-4)


def test_what_is_asked_does_not_change_what_is_asked_next() -> None:
    """Each answer has the same bits as that of a line that nobody has asked before."""
    language = LanguageModel.load(BUNDLE / LANGUAGE_FILE)
    numbers = {word: number for number, word in enumerate(language.words)}
    models = LineLanguage(language, numbers, load_rescorer(BUNDLE, language))
    words = ["the", "air", "was", "clear", "and", "heady", "as", "wine"]
    changes = [(5, 6, ["heavy"]), (0, 1, ["their"]), (8, 8, ["too"]), (2, 4, []), (5, 6, ["heavy"])]
    asked = models.line(words)
    assert [asked.gain(*change) for change in changes] == [models.line(words).gain(*each) for each in changes]
