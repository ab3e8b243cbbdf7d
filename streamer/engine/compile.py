"""`python -m streamer.engine.compile` compiles the loops of the search and saves them, so that each start is quick."""

from __future__ import annotations

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_search import BOUNDARY, BeamSearch


def main() -> None:
    """Run each loop of the search once, in a language of one word."""
    language = LanguageModel.build(["a"], {("a",): (-1.0, 0.0)})
    word = language.words.index("a")
    language.score([language.start], [word])
    BeamSearch(Lexicon.build([(word, (2,))], language.unigrams), language, ["", BOUNDARY, "a"], slots=1)


if __name__ == "__main__":
    main()
