"""Trains the model of punctuation and capitals on punctuated text, changed to what a recogniser might hear.

    python scripts/train/train_punctuation.py --text TEXT --speech train.tsv dev.tsv \\
        --bundle asr_repo/streaming_asr/1 --to asr_repo/streaming_asr/1/punctuation.safetensors --minutes 40

TEXT is a folder with the unpacked text of the language model. Sentences that were read in the manifests of speech are
left out, and so is all text that is known to be read aloud (libritts_*, ljspeech_*). Some of each source is set aside
for scripts/measure/punctuation.py. The bundle's lexicon says which words sound alike. One thread is used.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch

from streamer.engine.bundle import LEXICON_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.model_file import ModelFileError
from workshop.data.corpus import CorpusError
from workshop.language.text_sources import LeakGuard, read_transcripts
from workshop.punctuation.fitting import Fit, HeardText, fit, similar_words
from workshop.punctuation.labelled_text import MOST_WORDS, WordHabits, read_texts, tell_first_cases


def main() -> int:
    """Train and save; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder of punctuated text")
    parser.add_argument("--speech", type=Path, nargs="*", default=[], help="manifests whose texts are left out")
    parser.add_argument("--bundle", type=Path, required=True, help="folder of the lexicon and the language model")
    parser.add_argument("--to", type=Path, required=True, help="the file to write")
    parser.add_argument("--minutes", type=float, default=40.0, help="time for the fitting alone")
    parser.add_argument("--words", type=int, default=MOST_WORDS, help="the most words of each source")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tell = partial(print, flush=True)
    try:
        language = LanguageModel.load(options.bundle / LANGUAGE_FILE)
        lexicon = Lexicon.load(options.bundle / LEXICON_FILE)
        kept_out = LeakGuard([each for manifest in options.speech for each in read_transcripts(manifest)])
        texts = read_texts(options.text, kept_out, options.words, tell)
        tell(f"{texts.left_out} sentences were left out because they were read in the manifests of speech")
        tell_first_cases(texts)
        text = HeardText(texts.learnt, similar_words(texts.words, lexicon, language), options.seed)
        habits = WordHabits(texts.learnt.values(), len(texts.words))
        settings = Fit(options.minutes, seed=options.seed)
        chosen = habits.vocabulary(texts.words, frozenset(language.words), settings.vocabulary)
        vocabulary = [texts.words[number] for number in chosen]
        fit(texts.words, vocabulary, habits.of(chosen), text, settings, tell).save(options.to)
    except (CorpusError, ModelFileError, OSError) as error:
        print(f"train_punctuation: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
