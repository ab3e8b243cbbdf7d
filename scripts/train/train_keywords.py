"""Trains a keyword spotter on the frames of the encoder, measures it, and makes a model repository with it.

    python scripts/train/train_keywords.py --work PREPARED --to REPOSITORY [--words house,people] [--most-false 2]
    python scripts/train/train_keywords.py --trained examples/keywords --to REPOSITORY

PREPARED has the prepared and aligned `train` and `dev` (scripts/data/prepare_speech.py, scripts/data/align_speech.py).
The encoder stays as it is. The pronunciations of the words are searched in its phones, and a small network, which is
trained here, decides whether a found place is the word. One half of dev chooses a threshold for each word, the other
half measures. All of it takes about ten minutes on two cores. With --trained nothing is trained: the network is read
from a folder. Afterwards `streamer serve --repository REPOSITORY --model asr_keywords` serves the recogniser with the
keywords.
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

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.heads.keywords import KeywordNetwork, KeywordsError
from workshop.data.corpus import CorpusError
from workshop.keywords.measurement import KeywordErrors, errors, keyword_repository, with_thresholds
from workshop.keywords.training import AlignedWords, encoded, train, untrained
from workshop.language.pronunciation import Pronunciations, cmu_dictionary

WORDS = "first,last,never,nothing,something,before,again,little,house,people"
HELD_BACK = 6  # one in this many utterances of train chooses the thresholds, too


def main() -> int:
    """Train, measure and write; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--work", type=Path, help="folder of prepared and aligned speech")
    source.add_argument(
        "--trained", type=Path, metavar="FOLDER", help="use the network in this folder, without training"
    )
    parser.add_argument("--to", type=Path, required=True, help="folder that becomes the model repository")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="also write the network alone into this folder")
    parser.add_argument("--words", default=WORDS, help=f"the keywords (default: {WORDS})")
    parser.add_argument("--hours", type=float, default=16.0, help="hours of speech to learn from")
    parser.add_argument("--steps", type=int, default=650, help="steps of the training")
    parser.add_argument("--most-false", type=float, default=2.0, help="false alarms an hour that are accepted")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.trained:
        return _repository(options.trained, options.to)
    torch.set_num_threads(1)
    began, tell, words = time.process_time(), partial(print, flush=True), options.words.split(",")
    try:
        bundle = asr_repository() / "streaming_asr" / "1"
        model = AcousticNetwork.load(bundle)
        train_words = AlignedWords(options.work, "train", "train.heard.jsonl")
        dev_words = AlignedWords(options.work, "dev", "dev.phones.jsonl")
        material = encoded(train_words, train_words.chosen(words, options.hours, options.seed), words, model, tell)
        halves = [encoded(dev_words, half, words, model, tell) for half in dev_words.halves()]
    except (CorpusError, BundleError) as error:
        print(f"train_keywords: {error}", file=sys.stderr)
        return 1
    tell(f"{sum(each.hours for each in material):.1f} hours to learn from")
    held_back, learnt = material[::HELD_BACK], [each for at, each in enumerate(material) if at % HELD_BACK]
    pronunciations = Pronunciations(cmu_dictionary(), LetterToSound.load(bundle / "letters.safetensors"))
    spoken = [
        (number, tuple(model.units["phones"].index(phone) for phone in variant))
        for number, word in enumerate(words)
        for variant in pronunciations.variants(word)
    ]
    phones = cast("nn.Linear", model.encoder.outputs["phones"])
    network = train(untrained(words, spoken, phones, material), learnt, options.steps, options.seed, tell)
    network = with_thresholds(network, [*halves[0], *held_back], options.most_false)
    keyword_repository(options.to, network)
    if options.save:
        network.save(options.save)
    result = errors(network, halves[1])
    _report(result, tell=tell)
    swapped = errors(with_thresholds(network, [*halves[1], *held_back], options.most_false), halves[0])
    tell(f"the second half of dev: {_summary(result)}")
    tell(f"the halves exchanged: {_summary(swapped)}; both together: {_summary(result + swapped)}")
    tell(f"wrote {options.to}; {(time.process_time() - began) / 60:.1f} minutes of processor time")
    return 0


def _repository(trained: Path, folder: Path) -> int:
    try:
        keyword_repository(folder, KeywordNetwork.load(trained))
    except KeywordsError as error:
        print(f"train_keywords: {error}", file=sys.stderr)
        return 1
    print(f"wrote {folder}")
    return 0


def _report(result: KeywordErrors, *, tell: partial[None]) -> None:
    tell("| word | said | missed | false alarms |\n|---|---|---|---|")
    for word in sorted(result.said | result.false):
        tell(f"| {word} | {result.said[word]} | {result.said[word] - result.detected[word]} | {result.false[word]} |")


def _summary(result: KeywordErrors) -> str:
    missed, said = sum(result.said.values()) - sum(result.detected.values()), sum(result.said.values())
    return (
        f"{missed} of {said} missed ({100 * result.missed:.0f} %), {sum(result.false.values())} false alarms in "
        f"{result.hours:.2f} hours ({result.false_an_hour:.1f} an hour)"
    )


if __name__ == "__main__":
    sys.exit(main())
