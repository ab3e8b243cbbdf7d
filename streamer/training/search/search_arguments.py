"""The command line of scripts that search cached emissions: their common arguments and their error messages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from streamer.engine.model_file import ModelFileError
from streamer.engine.models.acoustic_model import BundleError
from streamer.training.data.corpus import CorpusError


def search_arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments that all of these scripts have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--cache", type=Path, required=True, help="folder in which emissions are kept")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    parser.add_argument("--set", default="dev", help="the prepared set")
    return parser


def run_script(work: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> int:
    """Do the work on one thread, because CPU time is measured for one thread. Returns the exit status."""
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        work(options)
    except (BundleError, CorpusError, ModelFileError, OSError, ValueError) as error:
        print(f"{Path(parser.prog).stem}: {error}", file=sys.stderr)
        return 1
    return 0
