"""Trains the neural language model that rescores words in the search, and writes `rescoring.safetensors`.

    python scripts/train/train_rescoring.py lm_text.tar.xz lm_text_modern.tar.xz --train train.tsv --dev dev.tsv \\
        --bundle asr_repo/streaming_asr/1 --minutes 30

The text is that of build_language_model.py, without the sentences of dev. The words are the most frequent ones of the
bundle's language model, so train again after building that. The script prints the perplexities of the n-gram model, of
the neural one and of both together. tune_search.py then finds the weight of the neural model. On a GPU, each word is
compared with all others instead of some, and the batches are larger.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch

from streamer.engine.language.language_model import LANGUAGE_FILE
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.model_file import ModelFileError
from workshop.data.corpus import CorpusError
from workshop.language.neural_training import SIZES, NeuralRecipe, train


def main() -> int:
    """Train the model; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", nargs="+", type=Path, help="tar archives of text files")
    parser.add_argument("--train", type=Path, help="manifest whose transcripts are one more source")
    parser.add_argument("--dev", type=Path, required=True, help="manifest that perplexities are given for")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    parser.add_argument("--output", type=Path, help="the file to write (in the bundle)")
    parser.add_argument("--minutes", type=float, default=NeuralRecipe.minutes, help="how long it is trained")
    parser.add_argument(
        "--batches", type=int, default=0, help="read this many batches instead (of 2048 words, on a GPU 16 384)"
    )
    words, vector, memory = SIZES
    parser.add_argument("--words", type=int, help=f"words that it knows ({words})")
    parser.add_argument("--vector", type=int, help=f"numbers for each word ({vector})")
    parser.add_argument("--memory", type=int, help=f"numbers that it remembers ({memory})")
    parser.add_argument(
        "--dropout",
        type=float,
        default=NeuralRecipe.dropout,
        help="share of the numbers left out at random",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=NeuralRecipe.seed)
    parser.add_argument(
        "--start",
        type=Path,
        metavar="FILE",
        help="go on with the training of this model, at half rate; or make it larger first, if larger sizes are given",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        recipe = NeuralRecipe(
            options.archives,
            options.dev,
            options.train,
            options.minutes,
            options.batches,
            options.words,
            options.vector,
            options.memory,
            options.seed,
            options.dropout,
            options.start,
            options.device,
        )
        output = options.output or options.bundle / NEURAL_FILE
        train(recipe, options.bundle / LANGUAGE_FILE, output, partial(print, flush=True))
    except (CorpusError, ModelFileError, OSError, ValueError) as error:
        print(f"train_rescoring: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
