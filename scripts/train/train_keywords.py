"""Trains a keyword spotter on the frames of the encoder, measures it, and makes a model repository with it.

    python scripts/train/train_keywords.py --work PREPARED --to REPOSITORY [--words up,down] [--minutes 0.8]

PREPARED has the prepared and aligned `train` and `dev` (scripts/data/prepare_speech.py, scripts/data/align_speech.py).
All of it takes less than five minutes of processor time on one core. The encoder stays as it is. Afterwards
`streamer serve --repository REPOSITORY --model asr_keywords` serves the recogniser with the keywords.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import nn

from streamer.engine.bundle import load_speech_encoder
from streamer.engine.models.acoustic_model import BundleError
from streamer.training.data.corpus import CorpusError
from streamer.training.keywords.keyword_training import train
from streamer.training.keywords.material import AlignedWords, encoded
from streamer.training.keywords.measurement import KeywordErrors, errors, with_threshold
from streamer.training.keywords.repository import keyword_repository
from streamer.triton.repository import asr_repository

WORDS = "up,down,left,right,off,go,back,home,light,call"
BATCH = 32
HELD_BACK = 6  # one in so many utterances chooses the threshold


def main() -> int:
    """Train, measure and write; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--to", type=Path, required=True, help="folder that becomes the model repository")
    parser.add_argument("--words", default=WORDS, help=f"the keywords (default: {WORDS})")
    parser.add_argument("--hours", type=float, default=2.0, help="hours of speech to learn from")
    parser.add_argument("--measured-hours", type=float, default=0.5, help="hours of other speech to measure with")
    parser.add_argument("--minutes", type=float, default=0.8, help="minutes of processor time for the training")
    parser.add_argument("--most-false", type=float, default=20.0, help="false alarms an hour that are accepted")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    begun, tell, words = time.process_time(), partial(print, flush=True), options.words.split(",")
    try:
        encoder = load_speech_encoder(asr_repository() / "streaming_asr" / "1", slots=BATCH)
        known = AlignedWords(options.work, "train", "train.heard.jsonl")
        other = AlignedWords(options.work, "dev", "dev.phones.jsonl")
        material = encoded(known, known.chosen(words, options.hours, options.seed), words, encoder, BATCH, tell)
        measured = other.chosen(words, options.measured_hours, options.seed)
        tests = encoded(other, measured, words, encoder, BATCH, tell)
    except (CorpusError, BundleError) as error:
        print(f"train_keywords: {error}", file=sys.stderr)
        return 1
    tell(f"{sum(each.hours for each in material):.2f} hours to learn from")
    held_back, learnt = material[::HELD_BACK], [each for at, each in enumerate(material) if at % HELD_BACK]
    phones = cast("nn.Linear", encoder.model.encoder.outputs["phones"].float())
    network = train(learnt, words, phones, options.minutes, options.seed, tell)
    network = with_threshold(network, held_back, options.most_false)
    keyword_repository(options.to, network)
    _report(errors(network, tests), network.threshold, tell=tell)
    tell(f"wrote {options.to}; {(time.process_time() - begun) / 60:.1f} minutes of processor time")
    return 0


def _report(found: KeywordErrors, threshold: float, *, tell: partial[None]) -> None:
    tell("| word | said | missed | false alarms |\n|---|---|---|---|")
    for word, said in sorted(found.said.items()):
        tell(f"| {word} | {said} | {said - found.told[word]} | {found.false[word]} |")
    tell(
        f"{found.hours:.2f} hours of other speech, threshold {threshold:g}: {found.false_an_hour:.1f} false alarms "
        f"an hour, {100 * found.missed:.0f} % missed"
    )


if __name__ == "__main__":
    sys.exit(main())
