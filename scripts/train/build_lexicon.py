"""Trains the letter-to-sound model on CMUdict, and writes the lexicon of the language model's words.

    python scripts/train/build_lexicon.py [--bundle asr_repo/streaming_asr/1]

The script reads `language.safetensors` of the bundle, and writes `letters.safetensors` and `lexicon.safetensors` beside
it. A word has all of its pronunciations in CMUdict. Pronunciations of other words are made from known words, or guessed
from the letters. The printed errors of guesses are those of words that were not used for training.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.engine.model_file import ModelFileError
from workshop.data.corpus import CorpusError
from workshop.language.lexicon_building import build
from workshop.language.pronunciation import cmu_dictionary


def main() -> int:
    """Build both files; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    parser.add_argument("--letters-only", action="store_true", help="write only letters.safetensors")
    options = parser.parse_args()
    try:
        build(options.bundle, cmu_dictionary(), partial(print, flush=True), letters_only=options.letters_only)
    except (CorpusError, ModelFileError) as error:
        print(f"build_lexicon: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
