"""Trains a small Zipformer-2 with CTC on a small vocabulary, with the code of icefall, and writes a public model.

    git clone https://github.com/k2-fsa/icefall
    python scripts/train/train_zipformer2.py icefall --work PREPARED --corpus NAME --to FOLDER [--minutes 12]

PREPARED has the prepared `train` (scripts/data/prepare_speech.py). The recordings of one of its corpora are used. One
in ten is held back: beside the model, FOLDER gets these as held-back/*.flac, with their words in held-back.tsv, and as
many of the others as learnt/*.flac and learnt.tsv. Every word of the corpus is a token, so this is for a few hundred
words at most. Ctrl-C ends the training early. docs/how-to/own-training.md has an example.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]

from workshop.data.corpus import Corpus, CorpusError
from workshop.zipformer2 import SAMPLE_RATE, CtcTraining, RecipeError, Spoken, tokens_of

MOST_WORDS = 500
HELD_BACK = 10  # one in this many recordings is held back
SILENCE_S = 0.8  # added to written recordings, because the network learns from recordings with silence at their end


def main() -> int:
    """Train and export; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("icefall", type=Path, help="a clone of icefall")
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--corpus", required=True, help="the corpus to learn from, as in the table of the speech")
    parser.add_argument("--to", type=Path, required=True, help="folder that becomes the model")
    parser.add_argument("--minutes", type=float, default=12.0, help="processor time for the training (12)")
    parser.add_argument("--longest", type=float, default=12.0, help="seconds of the longest recording to take (12)")
    parser.add_argument(
        "--fixed-front", action="store_true", help="do not train the first layers: several times faster"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tell = partial(print, flush=True)
    try:
        corpus = Corpus(options.work, "train")
        chosen = [one for one in corpus.utterances if one.corpus == options.corpus and one.seconds <= options.longest]
        recordings = [Spoken(corpus.samples(one), tuple(one.text.split())) for one in chosen if one.text]
        tokens = tokens_of(recordings)
        if not 1 < len(tokens) <= MOST_WORDS:
            raise CorpusError(
                f"{options.corpus} has {len(tokens) - 1} words in {options.work}; 1 to {MOST_WORDS} can be"
            )
        learnt = [one for number, one in enumerate(recordings) if number % HELD_BACK]
        minutes = sum(len(one.samples) for one in learnt) / SAMPLE_RATE / 60
        training = CtcTraining(options.icefall, tokens, options.seed, fixed_front=options.fixed_front)
        tell(f"{len(learnt)} recordings, {minutes:.0f} minutes; {len(tokens) - 1} words; {training.parameters} weights")
        try:
            training.train(learnt, 60 * options.minutes, tell)
        except KeyboardInterrupt:
            tell("interrupted: the model is what it has learnt so far")
    except (CorpusError, RecipeError) as error:
        print(f"train_zipformer2: {error}", file=sys.stderr)
        return 1
    training.export(options.to)
    _write(recordings[::HELD_BACK], options.to, "held-back")
    _write(recordings[1::HELD_BACK], options.to, "learnt")
    tell(f"the model is in {options.to}")
    return 0


def _write(recordings: list[Spoken], folder: Path, name: str) -> None:
    """Write recordings and a manifest for `streamer evaluate`."""
    (folder / name).mkdir(exist_ok=True)
    lines = ["file\ttext\n"]
    for number, spoken in enumerate(recordings):
        path = folder / name / f"{number:03}.flac"
        samples = np.pad(spoken.samples, (0, int(SILENCE_S * SAMPLE_RATE)))
        soundfile.write(path, samples, SAMPLE_RATE)
        lines.append(f"{path.relative_to(folder)}\t{' '.join(spoken.words)}\n")
    (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
