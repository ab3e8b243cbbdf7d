"""Writes the average of the weights of several models.

    python scripts/train/average_models.py OUTPUT RUN/averaged:0.6 asr_repo/streaming_asr/1:0.4       acoustic models
    python scripts/train/average_models.py OUTPUT.safetensors NEW.safetensors:0.8 OLD.safetensors:0.2  language models

Each model has its share after a colon. The models must come from the same first weights: the average of two models that
never had anything in common recognises nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.model_file import ModelFileError
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.neural_network import NeuralNetwork
from workshop.weights import averaged


def main() -> int:
    """Do what the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the bundle or file to write")
    parser.add_argument(
        "models",
        type=_with_share,
        nargs="+",
        metavar="MODEL:SHARE",
        help="bundles of acoustic models, or files of neural language models",
    )
    options = parser.parse_args()
    paths, shares = zip(*options.models, strict=True)
    try:
        files = [path.suffix == Path(NEURAL_FILE).suffix for path in paths]
        if all(files):
            _of_language(paths, shares).save(options.output)
        elif any(files):
            raise ValueError("a bundle and a file of a language model have no average")
        else:
            averaged([AcousticNetwork.load(path) for path in paths], shares).save(options.output)
    except (BundleError, ModelFileError, OSError, ValueError) as error:
        print(f"average_models: {error}", file=sys.stderr)
        return 1
    print(f"wrote {options.output}")
    return 0


def _of_language(paths: Sequence[Path], shares: Sequence[float]) -> NeuralNetwork:
    models = [NeuralNetwork.load(path) for path in paths]
    if len({model.vocabulary for model in models}) > 1:
        raise ValueError("the models were trained for different words")
    return averaged(models, shares)


def _with_share(text: str) -> tuple[Path, float]:
    path, _, share = text.rpartition(":")
    try:
        return Path(path), float(share)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a model and its share, like RUN/averaged:0.5") from None


if __name__ == "__main__":
    sys.exit(main())
