"""Compares our search with flashlight-text's streaming lexicon decoder: word errors and CPU time on the same emissions.

Both use the same lexicon and language model. The weights of each search are tuned on one half of the set, with the
second of the given beam sizes, and evaluated on the other half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.data.corpus import CorpusError
from streamer.training.search.corpus_errors import error_rates, halves, mean_over_corpora
from streamer.training.search.emission_cache import EmittedUtterance, read_emissions
from streamer.training.search.search_trials import STEP_FRAMES, Trial, run_beam, whole_steps
from streamer.training.search.weight_tuning import described, tune

LN10 = 2.302585092994046
# Flashlight ignores tokens whose score is lower than the best of the frame by more than this.
THRESHOLD = 15.0
# With more tokens, flashlight finds the same words in more time.
FLASHLIGHT_TOKENS = 8


@dataclass(frozen=True)
class Comparison:
    """Both searches on the emissions of one prepared set, with some beam sizes and numbers of streams."""

    bundle: Path
    work: Path
    name: str  # of the set
    cache: Path
    arpa: Path  # the bundle's language model
    beams: Sequence[int]
    flashlight_beams: Sequence[int]
    streams: Sequence[int]

    def lines(self, tell: Callable[[str], None]) -> Iterator[str]:
        """Return lines with the weights that were found, and the table."""
        if not self.arpa.is_file():
            raise CorpusError(f"{self.arpa} is missing: write it with scripts/train/build_language_model.py --arpa")
        lexicon = Lexicon.load(self.bundle / LEXICON_FILE)
        language = LanguageModel.load(self.bundle / LANGUAGE_FILE)
        flashlight = Flashlight(lexicon, language, self.arpa)
        tuned_on, judged_on = halves(read_emissions(self.bundle, self.work, self.name, self.cache))

        def errors(trial: Trial) -> float:
            return mean_over_corpora(error_rates(tuned_on, trial.words))

        start = BeamOptions.load(self.bundle / SEARCH_FILE)
        ours = tune(
            lambda trial: errors(run_beam(tuned_on, lexicon, language, trial, self.streams[-1])),
            replace(start, beam=self.beams[1]),
            tell,
        )
        theirs = tune(
            lambda trial: errors(flashlight.run(tuned_on, trial)),
            replace(start, beam=self.flashlight_beams[1], tokens=FLASHLIGHT_TOKENS),
            tell,
        )
        yield f"\nour search: {described(ours)}; flashlight-text: {described(theirs)}"
        corpora = [name for name in error_rates(judged_on, [[] for _ in judged_on]) if name != "all"]
        yield "| search | " + " | ".join(corpora) + " | all | CPU a frame |"
        yield "|---|" + "---|" * (len(corpora) + 2)

        def row(name: str, trial: Trial) -> str:
            rates = error_rates(judged_on, trial.words)
            cells = [f"{rates[corpus]:.1f}" for corpus in [*corpora, "all"]]
            return f"| {name} | " + " | ".join(cells) + f" | {trial.frame_us:.0f} us |"

        for beam in self.beams:
            for streams in self.streams:
                trial = run_beam(judged_on, lexicon, language, replace(ours, beam=beam), streams)
                yield row(f"ours, beam {beam}, {streams} at a time", trial)
        for beam in self.flashlight_beams:
            yield row(f"flashlight-text, beam {beam}", flashlight.run(judged_on, replace(theirs, beam=beam)))


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

    def run(self, spoken: Sequence[EmittedUtterance], options: BeamOptions) -> Trial:
        """Decode all utterances one after another, and get the best hypothesis after every step."""
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
