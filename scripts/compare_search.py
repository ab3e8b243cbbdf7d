"""Our search against flashlight-text's streaming lexicon decoder: errors and CPU time, on the same emissions.

    python scripts/compare_search.py --work PREPARED --bundle BUNDLE --arpa LANGUAGE.arpa --cache FOLDER

Both read the phone head's log-probabilities of the prepared set `dev` in steps of eight frames, with the bundle's
lexicon and language model (flashlight reads the latter as ARPA). CPU time is that of this process in the search alone,
on one thread; the emissions are computed once and kept in the cache.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from training import units
from training.corpus import CorpusError
from training.emissions import HEAD, Spoken, spoken

from streamer.engine.acoustic import BundleError
from streamer.engine.beam import BeamSearch
from streamer.engine.language import LanguageError, LanguageModel
from streamer.engine.lexicon import Lexicon, LexiconError
from streamer.engine.prefixes import BeamOptions

STEP_FRAMES = 8
FRAME_MS = 40
LN10 = 2.302585092994046


@dataclass
class Trial:
    """What a search made of the utterances."""

    words: list[list[str]]
    frames: int
    cpu_seconds: float

    @property
    def frame_us(self) -> float:
        """CPU time of one frame of one stream in microseconds."""
        return 1e6 * self.cpu_seconds / self.frames


def errors(utterances: Sequence[Spoken], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """Word errors in percent by corpus and of everything ("all")."""
    wrong: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for one, words in zip(utterances, found, strict=True):
        for name in (one.utterance.corpus, "all"):
            wrong[name] += units.errors(one.words, words)
            total[name] += len(one.words)
    return {name: 100 * wrong[name] / max(total[name], 1) for name in sorted(total)}


def run_ours(
    utterances: Sequence[Spoken], lexicon: Lexicon, language: LanguageModel, options: BeamOptions, streams: int
) -> Trial:
    """Search all utterances, so many at a time; a stream that ends makes room for the next one."""
    search = BeamSearch(lexicon, language, units.PHONE_UNITS, streams, options)
    found: dict[int, list[str]] = {}
    waiting = list(enumerate(utterances))[::-1]
    running: dict[int, tuple[int, torch.Tensor, int]] = {}
    frames, started = 0, time.process_time()
    while waiting or running:
        for slot in range(streams):
            if slot not in running and waiting:
                number, one = waiting.pop()
                search.reset([slot])
                running[slot] = (number, _whole_steps(one.emissions), 0)
        slots = list(running)
        batch = torch.stack([emissions[place : place + STEP_FRAMES] for _, emissions, place in running.values()])
        search.advance(slots, {HEAD: batch})
        frames += len(slots) * STEP_FRAMES
        for slot, (number, emissions, place) in list(running.items()):
            running[slot] = (number, emissions, place + STEP_FRAMES)
            if place + STEP_FRAMES >= len(emissions):
                found[number] = [word.text for word in search.finish([slot])[0].words]
                del running[slot]
    return Trial([found[number] for number in range(len(utterances))], frames, time.process_time() - started)


class Flashlight:
    """flashlight-text's decoder with the same lexicon and language model."""

    def __init__(self, lexicon: Lexicon, language: LanguageModel, arpa: Path) -> None:
        from flashlight.lib.text.decoder import KenLM, SmearingMode, Trie
        from flashlight.lib.text.dictionary import Dictionary

        self._words = Dictionary(language.words)
        self._model = KenLM(str(arpa), self._words)
        self._trie = Trie(len(units.PHONE_UNITS), units.PHONE_NUMBER[units.BOUNDARY])
        unigrams = (language.unigrams / LN10).tolist()
        for word, phones in lexicon.pronunciations():
            spelled = [*phones, units.PHONE_NUMBER[units.BOUNDARY]]
            self._trie.insert(spelled, self._words.get_index(language.words[word]), unigrams[word])
        self._trie.smear(SmearingMode.MAX)

    def run(self, utterances: Iterable[Spoken], options: BeamOptions, threshold: float, log_add: bool) -> Trial:
        """Decode all utterances one after the other."""
        from flashlight.lib.text.decoder import CriterionType, LexiconDecoder, LexiconDecoderOptions

        settings = LexiconDecoderOptions(
            options.beam, options.tokens, threshold, options.language_weight * LN10, options.word_bonus,
            float("-inf"), 0.0, log_add, CriterionType.CTC,
        )  # fmt: skip
        decoder = LexiconDecoder(
            settings, self._trie, self._model, units.PHONE_NUMBER[units.BOUNDARY], units.BLANK,
            self._words.get_index("<unk>"), [], False,
        )  # fmt: skip
        found, frames, seconds = [], 0, 0.0
        for one in utterances:
            emissions = _whole_steps(one.emissions)
            started = time.process_time()
            emissions = emissions.float().clone()
            emissions[:, units.BLANK] -= options.blank_penalty
            decoder.decode_begin()
            for place in range(0, len(emissions), STEP_FRAMES):
                decoder.decode_step(emissions[place:].data_ptr(), STEP_FRAMES, emissions.shape[1])
                decoder.get_best_hypothesis()
            decoder.decode_end()
            best = decoder.get_all_final_hypothesis()[0]
            seconds += time.process_time() - started
            found.append([self._words.get_entry(word) for word in best.words if word >= 0])
            frames += len(emissions)
        return Trial(found, frames, seconds)


def _whole_steps(emissions: torch.Tensor) -> torch.Tensor:
    """Filled up with blanks to whole steps."""
    rest = -len(emissions) % STEP_FRAMES
    filling = torch.full((rest, emissions.shape[1]), -30.0)
    filling[:, units.BLANK] = 0.0
    return torch.cat((emissions, filling))
