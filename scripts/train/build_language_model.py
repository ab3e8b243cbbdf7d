"""Builds the language model from text: a mixture of Kneser-Ney trigrams, with weights found on dev, pruned to a size.

    python scripts/train/build_language_model.py lm_text.tar.xz lm_text_modern.tar.xz --train train.tsv --dev dev.tsv \\
        --output asr_repo/streaming_asr/1/language.safetensors

The archives have text files. `train` and `dev` are manifests of speech. Sentences that are also in dev are not used for
training. The weights of the sources are found on every second utterance of dev. The printed perplexities are those of
the other half, and of all of dev, by corpus. They count the ends of sentences, and leave out words that are not in the
vocabulary. This takes some minutes and 4 GB of memory.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.engine.model_file import ModelFileError
from workshop.data.corpus import CorpusError
from workshop.language.language_model_building import Recipe, build


def main() -> int:
    """Build the model; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", nargs="+", type=Path, help="tar archives of text files")
    parser.add_argument("--train", type=Path, help="a manifest; its transcripts are one more source")
    parser.add_argument("--dev", type=Path, required=True, help="a manifest for finding and evaluating the weights")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("--arpa", type=Path, help="also write the model to this file, in the ARPA format")
    parser.add_argument("--vocabulary", type=int, default=Recipe.vocabulary, help="the most words")
    parser.add_argument("--megabytes", type=float, default=Recipe.megabytes, help="the largest size of the file")
    parser.add_argument(
        "--same-words",
        type=Path,
        metavar="FILE",
        help="take the words of this language model, so that its lexicon and its neural model still fit",
    )
    parser.add_argument("--without-share-alike", action="store_true", help="leave out texts under share-alike licences")
    options = parser.parse_args()
    try:
        recipe = Recipe(
            options.archives,
            options.dev,
            options.train,
            options.vocabulary,
            options.megabytes,
            share_alike=not options.without_share_alike,
            same_words=options.same_words,
        )
        build(recipe, options.output, options.arpa, partial(print, flush=True))
    except (CorpusError, ModelFileError, OSError) as error:
        print(f"build_language_model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
