"""Compiles the loops of the search and of readers, and fills the cache for a bundle, so that each start is quick.

    python -m streamer.engine.compile [FOLDER]

Without the folder of a bundle, its first start fills the cache.
"""

from __future__ import annotations

import sys
from pathlib import Path

from streamer.engine.bundle import load_recogniser
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.reader.alignment import Aligner
from streamer.engine.search.beam_search import BOUNDARY, BeamSearch
from streamer.engine.search.rescoring import run_loops_once


def main() -> None:
    """Run each loop once, in a language of one word, and load the bundle."""
    language = LanguageModel.build(["a"], {("a",): (-1.0, 0.0)})
    word = language.words.index("a")
    language.score([language.start], [word])
    lexicon, units = Lexicon.build([(word, (2,))], language.unigrams), ["", BOUNDARY, "a"]
    BeamSearch(lexicon, language, units, slots=1)
    Aligner(lexicon, language.words, units)
    run_loops_once(beam=1)
    for folder in sys.argv[1:]:
        load_recogniser(Path(folder), slots=1)


if __name__ == "__main__":
    main()
