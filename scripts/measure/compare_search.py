"""Our search against flashlight-text's streaming lexicon decoder: word errors and CPU time on the same emissions.

    python scripts/measure/compare_search.py --work PREPARED --cache FOLDER --arpa LANGUAGE.arpa

Both read the phone head's log-probabilities of the prepared set `dev` in steps of eight frames, with the bundle's
lexicon and language model (flashlight reads the latter as ARPA: `build_language_model.py --arpa`). The weights of each
are tuned on half of the set, at the second beam size that is asked for, and judged on the other half. CPU time is that
of the search alone, on one thread. Needs `pip install flashlight-text`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.data.corpus import CorpusError
from streamer.training.search.decoding import (
    STEP_FRAMES,
    Trial,
    described,
    error_rates,
    halves,
    mean_over_corpora,
    run_beam,
    tune,
    whole_steps,
)
from streamer.training.search.emissions import Spoken, read_emissions
from streamer.training.search.search_script import run_script, search_arguments

LN10 = 2.302585092994046
# Tokens that are this much worse than the best of a frame are not looked at by flashlight.
THRESHOLD = 15.0
# More of them give flashlight the same words at a higher price.
FLASHLIGHT_TOKENS = 8


class Flashlight:
    """flashlight-text's decoder with the same lexicon and language model."""

    def __init__(self, lexicon: Lexicon, language: LanguageModel, arpa: Path) -> None:
        from flashlight.lib.text.decoder import KenLM, SmearingMode, Trie
        from flashlight.lib.text.dictionary import Dictionary

        self._words = Dictionary(language.words)
        self._model = KenLM(str(arpa), self._words)
        self._boundary = units.PHONE_NUMBER[units.BOUNDARY]
        self._trie = Trie(len(units.PHONE_UNITS), self._boundary)
        unigrams = (language.unigrams / LN10).tolist()
        for word, phones in lexicon.pronunciations():
            self._trie.insert([*phones, self._boundary], word, unigrams[word])
        self._trie.smear(SmearingMode.MAX)

    def run(self, spoken: Sequence[Spoken], options: BeamOptions) -> Trial:
        """Decode all utterances one after the other, asking for the best hypothesis after every step."""
        from flashlight.lib.text.decoder import CriterionType, LexiconDecoder, LexiconDecoderOptions

        settings = LexiconDecoderOptions(
            beam_size=options.beam,
            beam_size_token=options.tokens,
            beam_threshold=THRESHOLD,
            lm_weight=options.language_weight * LN10,
            word_score=options.word_bonus,
            unk_score=float("-inf"),
            sil_score=0.0,
            log_add=True,
            criterion_type=CriterionType.CTC,
        )
        decoder = LexiconDecoder(settings, self._trie, self._model, self._boundary, units.BLANK, 0, [], False)
        found, frames, seconds = [], 0, 0.0
        for one in spoken:
            emissions = whole_steps(one.emissions).float()
            emissions[:, units.BLANK] -= options.blank_penalty
            started = time.process_time()
            decoder.decode_begin()
            for step in torch.split(emissions, STEP_FRAMES):
                decoder.decode_step(step.data_ptr(), STEP_FRAMES, step.shape[1])
                decoder.get_best_hypothesis()
            decoder.decode_end()
            words = decoder.get_all_final_hypothesis()[0].words
            seconds += time.process_time() - started
            found.append([self._words.get_entry(word) for word in words if word >= 0])
            frames += len(emissions)
        return Trial(found, frames, seconds)


def main() -> int:
    """Compare and print the table; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument("--arpa", type=Path, required=True, help="the bundle's language model as ARPA")
    parser.add_argument("--beams", type=int, nargs="+", default=[32, 64, 192], help="beam sizes of our search")
    parser.add_argument("--flashlight-beams", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32], help="streams at a time in our search")
    return run_script(_compare, parser)


def _compare(options: argparse.Namespace) -> None:
    try:
        for line in _table(options):
            print(line, flush=True)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: pip install flashlight-text") from error


def _table(options: argparse.Namespace) -> Iterator[str]:
    if not options.arpa.is_file():
        raise CorpusError(f"{options.arpa} is missing: scripts/train/build_language_model.py --arpa writes it")
    lexicon = Lexicon.load(options.bundle / LEXICON_FILE)
    language = LanguageModel.load(options.bundle / LANGUAGE_FILE)
    flashlight = Flashlight(lexicon, language, options.arpa)
    tuned_on, judged_on = halves(read_emissions(options.bundle, options.work, options.set, options.cache))

    def errors(trial: Trial) -> float:
        return mean_over_corpora(error_rates(tuned_on, trial.words))

    start = BeamOptions.load(options.bundle / SEARCH_FILE)
    ours = tune(
        lambda trial: errors(run_beam(tuned_on, lexicon, language, trial, options.streams[-1])),
        replace(start, beam=options.beams[1]),
    )
    theirs = tune(
        lambda trial: errors(flashlight.run(tuned_on, trial)),
        replace(start, beam=options.flashlight_beams[1], tokens=FLASHLIGHT_TOKENS),
    )
    yield f"\nour search: {described(ours)}; flashlight-text: {described(theirs)}"
    corpora = [name for name in error_rates(judged_on, [[] for _ in judged_on]) if name != "all"]
    yield "| search | " + " | ".join(corpora) + " | all | CPU a frame |"
    yield "|---|" + "---|" * (len(corpora) + 2)

    def row(name: str, trial: Trial) -> str:
        rates = error_rates(judged_on, trial.words)
        cells = [f"{rates[corpus]:.1f}" for corpus in [*corpora, "all"]]
        return f"| {name} | " + " | ".join(cells) + f" | {trial.frame_us:.0f} us |"

    for beam in options.beams:
        for streams in options.streams:
            trial = run_beam(judged_on, lexicon, language, replace(ours, beam=beam), streams)
            yield row(f"ours, beam {beam}, {streams} at a time", trial)
    for beam in options.flashlight_beams:
        yield row(f"flashlight-text, beam {beam}", flashlight.run(judged_on, replace(theirs, beam=beam)))


if __name__ == "__main__":
    sys.exit(main())
