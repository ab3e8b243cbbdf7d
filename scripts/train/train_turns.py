"""Train the turn model: whether somebody who pauses after these words has said what they wanted to say.

    python scripts/train/train_turns.py --text TEXT --speech train.tsv dev.tsv \\
        --to asr_repo/streaming_asr/1/turns.safetensors --minutes 8

TEXT is a folder with the unpacked text of the language model. Sentences that were read in the manifests of speech are
left out, and so is all text that is known to be read aloud (libritts_*, ljspeech_*). One thread is used.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch

from streamer.training.data.corpus import CorpusError
from streamer.training.language.text_sources import LeakGuard, read_transcripts
from streamer.training.turns.fitting import Fit, fit
from streamer.training.turns.turn_text import read_turn_text


def main() -> int:
    """Train and save; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder of punctuated text")
    parser.add_argument("--speech", type=Path, nargs="*", default=[], help="manifests whose texts are left out")
    parser.add_argument("--to", type=Path, required=True, help="the file to write")
    parser.add_argument("--minutes", type=float, default=8.0, help="time for the fitting alone")
    parser.add_argument("--words", type=int, default=800_000, help="the most words of each source")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tell = partial(print, flush=True)
    try:
        kept_out = LeakGuard([each for manifest in options.speech for each in read_transcripts(manifest)])
        text = read_turn_text(options.text, kept_out, options.words, tell)
        fit(text, Fit(options.minutes, seed=options.seed), tell).save(options.to)
    except (CorpusError, OSError) as error:
        print(f"train_turns: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
