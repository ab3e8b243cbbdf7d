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
    line = LineLanguage(language, numbers, load_rescorer(BUNDLE, language) if neural else None)
    read = ["he", "lived", "in", "knew", "york", "for", "years"]
    assert line.gain(read, 3, 4, ["new"]) > 2
    assert line.gain(read, 3, 4, ["knew"]) == pytest.approx(0.0, abs=1e-5)
    assert line.gain(read, 0, 1, ["bag"]) < 0
    assert line.gain(read, 7, 7, ["the"]) < 0
    assert line.gain(["a", "b"], 0, 2, []) == pytest.approx(-line.gain([], 0, 0, ["a", "b"]), abs=1e-4)
