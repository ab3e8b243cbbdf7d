"""The prefix beam search over the phones of a CTC head, with a lexicon and an n-gram model of words, for all slots.

A hypothesis is a history of words and a node of the lexicon's trie. Its score is the natural log of the sum over its
CTC paths and pronunciations, plus the weighted score of the language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, Lexicon
from streamer.engine.language.rescoring import Rescorer
from streamer.engine.models.streaming_model import Emissions
from streamer.engine.search.beam_expansion import BeamExpander
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beams import Beams
from streamer.engine.search.hotwords.hotword_compiler import HotwordCompiler
from streamer.engine.search.neural_rescoring import BeamStep, NeuralRescoring
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.search.word_agreement import AgreementShares, WordAgreement
from streamer.engine.search.word_histories import NO_HISTORY, EndedWord, WordHistories
from streamer.engine.work.parts import Work, finish

BOUNDARY = "|"
_NEGLIGIBLE = 1e-6  # less likely hypotheses do not count in the share of a word
_LEAST_SHOWN = 1e-5  # ways to end that are less likely than this part of `rescoring_floor` are no alternatives

ScoredWords = tuple[tuple[HypothesisWord, ...], float]
"""Words and their score."""


class _Way(NamedTuple):
    """A way in which a segment could end: with the words of a row of the beam, and perhaps with its running word."""

    worth: float
    row: int
    last: int | None = None  # the number of the running word, to which the following fields belong
    posterior: float = 0.0
    start: int = 0
    end: int = 0


class BeamSearch:
    """A Search with a beam for every slot."""

    def __init__(
        self,
        lexicon: Lexicon,
        language: LanguageModel,
        units: Sequence[str],
        slots: int,
        options: BeamOptions | None = None,
        head: str = "phones",
        letters: LetterToSound | None = None,
        rescorer: Rescorer | None = None,
        first: BeamSearch | None = None,
    ) -> None:
        """`letters` pronounces hotwords that are not in the lexicon. Without it, such hotwords are refused.

        `rescorer` scores words again at the end of the step in which they ended. `first` is the search of the first
        pass, if this is the search of the second. It prepares the hotwords for both.
        """
        if BOUNDARY not in units:
            raise ValueError(f"the head {head!r} has no unit for the boundary between words")
        self.options = options or BeamOptions()
        self._head, self._texts = head, language.words
        self._rescoring = NeuralRescoring(rescorer, self.options, slots) if rescorer else None
        boundary, beam = list(units).index(BOUNDARY), self.options.beam
        self._compiler = HotwordCompiler(lexicon, language.words, language.unigrams, units, letters, self.options)
        shared = first._expander if first else None
        self._expander: BeamExpander = BeamExpander(
            lexicon, language, self.options, boundary, len(units), slots, shared
        )
        self._beams = Beams(slots, beam, language.start)
        self._histories = [WordHistories(beam) for _ in range(slots)]
        self._agreement = [WordAgreement() for _ in range(slots)]
        self._settle_frames = [0] * slots
        # For each slot with hotwords: the words in them that the language model does not have.
        self._new_words: dict[int, tuple[str, ...]] = first._new_words if first else {}
        self.reset(range(slots))

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Prepare this slot for its next stream. ValueError for a hotword that cannot be used."""
        self.release(slot)
        compiled = (yield from self._compiler.compile_in_parts(hotwords, caller)) if hotwords else None
        yield from self._expander.set_hotwords(slot, compiled)
        self._settle_frames[slot] = settle_frames
        if compiled:
            self._new_words[slot] = compiled.texts

    def release(self, slot: int) -> None:
        """Free the memory for the hotwords of the stream in this slot, which has ended."""
        self._new_words.pop(slot, None)
        self._settle_frames[slot] = 0
        finish(self._expander.set_hotwords(slot, None))

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._beams.reset(slot)
            self._histories[slot] = WordHistories(self.options.beam)
            self._agreement[slot] = WordAgreement()
            if self._rescoring:
                self._rescoring.reset(slot)

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        log_probabilities = torch.as_tensor(emissions[self._head]).cpu()
        steps = [self._read(slot, frames) for slot, frames in zip(slots, log_probabilities, strict=True)]
        self._rescore(steps)
        for slot in slots:
            self._settle(slot)
            self._agreement[slot].note(self._histories[slot].open, self._beams.hypotheses["total"][slot].tolist())
        return [self._hypothesis(slot) for slot in slots]

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses if the segment ended here. They have only whole words, even without a last boundary."""
        return [
            Hypothesis(self.alternatives(slot, 1)[0][0], stable=len(self._histories[slot].settled)) for slot in slots
        ]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return up to `number` different texts if the segment ended here, likeliest first, as in `finish`."""
        history = self._histories[slot]
        ranked = self._ranked(slot, _LEAST_SHOWN * self.options.rescoring_floor)
        if not ranked:
            return [(history.words(0), 1.0)][:number]
        total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
        likely = [(way, math.exp(score - ranked[0][1]) / total) for way, score in ranked]
        considered = [
            (self._open_words(slot, way), probability)
            for place, (way, probability) in enumerate(likely)
            if probability >= _NEGLIGIBLE or place < number
        ]
        shares = AgreementShares(
            (words, probability) for words, probability in considered if probability >= _NEGLIGIBLE
        )
        share_of = self._agreement[slot].of
        settled = [replace(word, share=share_of(word, 1.0)) for word in history.settled]
        return [
            ((*settled, *(replace(word, share=share_of(word, shares.of(word))) for word in words)), probability)
            for words, probability in considered[:number]
        ]

    def ranking(self, slot: int) -> list[ScoredWords]:
        """Return all hypotheses of a slot if the segment ended here, with their scores, best first."""
        settled = self._histories[slot].settled
        return [((*settled, *self._open_words(slot, way)), score) for way, score in self._ranked(slot)]

    def _ranked(self, slot: int, floor: float = 0.0) -> list[tuple[_Way, float]]:
        """Return the likeliest way to end with each text, and the score of the text, best first. See `_ways`."""
        merged: dict[tuple[str, ...], float] = {}
        parts: dict[tuple[str, ...], _Way] = {}
        rows = self._histories[slot].open
        open_texts: dict[int, tuple[str, ...]] = {}
        for way in self._ways(slot, floor):
            if way.row not in open_texts:
                open_texts[way.row] = tuple(word.text for word in rows[way.row])
            text = open_texts[way.row]
            if way.last is not None:
                text = (*text, self._text(slot, way.last))
            merged[text] = merged.get(text, 0.0) + way.worth
            if text not in parts or way.worth > parts[text].worth:
                parts[text] = way
        scale = float(self._beams.scale[slot])
        best = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
        ranked = [(parts[text], math.log(mass) + scale) for text, mass in best]
        if not self._rescoring or not ranked:
            return ranked
        least = self.options.rescoring_floor * best[0][1]
        compared = ranked[: sum(mass >= least for _, mass in best[: self.options.rescored])]
        gains = self._rescoring.end_gains(slot, [(way.row, way.last) for way, _ in compared])
        again = [(way, score + gain) for (way, score), gain in zip(compared, gains, strict=True)]
        # The others were worse before. They gain no more than any of the best, so they remain worse.
        others = [(way, score + min(gains)) for way, score in ranked[len(compared) :]]
        return sorted(again, key=lambda one: -one[1]) + others

    def _open_words(self, slot: int, way: _Way) -> tuple[HypothesisWord, ...]:
        """Return the words of a way to end that are not settled."""
        words = self._histories[slot].open[way.row]
        if way.last is None:
            return words
        return (*words, self._word(slot, way.last, way.start, way.end, way.posterior))

    def _ways(self, slot: int, floor: float) -> list[_Way]:
        """Return the ways in which a segment could end here: after whole words, or with running words.

        Ways that are at most `floor` times as likely as the likeliest are left out. With the value in `alternatives`,
        these are nine of ten.
        """
        rows = self._beams.hypotheses[slot]
        last = self._expander.last_words(self._beams, slot, self.options.beam, sentence=True)
        worth, whole = last.worth * rows["total"][:, None], last.whole * rows["total"]
        limit = floor * max(worth.max(), whole.max())
        [whole_rows], (last_rows, homophone) = (whole > limit).nonzero(), (worth > limit).nonzero()
        columns = (
            worth[last_rows, homophone],
            last_rows,
            last.words[last_rows, homophone],
            last.posteriors[last_rows],
            rows["start"][last_rows],
            rows["end"][last_rows],
        )
        whole_ways = [
            _Way(value, row) for value, row in zip(whole[whole_rows].tolist(), whole_rows.tolist(), strict=True)
        ]
        last_ways = [_Way(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        if self._rescoring:
            least = self.options.rescoring_floor * max((way.worth for way in (*whole_ways, *last_ways)), default=0.0)
            rescored = [(number, way.row, way.last) for number, way in enumerate(last_ways) if way.worth >= least]
            gains = self._rescoring.last_gains(slot, [(row, word) for _, row, word in rescored if word is not None])
            for (number, _, _), gain in zip(rescored, gains, strict=True):
                last_ways[number] = last_ways[number]._replace(worth=last_ways[number].worth * math.exp(gain))
        return whole_ways + last_ways

    def _read(self, slot: int, log_probabilities: Tensor) -> BeamStep:
        """Read the frames of a slot."""
        records = self._expander.step(self._beams, slot, log_probabilities, self._rescoring is not None)
        rows = self._beams.hypotheses[slot]
        back: list[int] = np.where(rows["total"] > 0, rows["back"], NO_HISTORY).tolist()
        values: dict[int, tuple[Any, ...]] = {}

        def record_of(number: int) -> tuple[Any, ...]:
            if number not in values:
                values[number] = records[number].item()
            return values[number]

        def ended_word(number: int) -> EndedWord:
            history, word, start, end, phones, probability = record_of(number)
            # The mean over the phones is computed here, and not in the loops, because few words get here.
            return history, self._word(slot, word, start, end, probability ** (1 / phones))

        self._histories[slot].follow(back, ended_word)
        masses = (rows["total"] * self._expander.look_ahead[rows["node"]]).tolist()
        return BeamStep(slot, back, rows["history"].tolist(), masses, lambda number: record_of(number)[:2])

    def _rescore(self, steps: Sequence[BeamStep]) -> None:
        """Add the gains of the words that ended in this step, if there is a neural language model."""
        if not self._rescoring:
            return
        # The other slots are not touched, so no bit of their results depends on the words of these.
        for slot in self._rescoring.follow(steps):
            order = self._beams.rescore(slot, self._rescoring.gains(slot), self._expander.look_ahead)
            self._histories[slot].reorder(order)
            self._rescoring.reorder(slot, order)

    def _hypothesis(self, slot: int) -> Hypothesis:
        """Return the best hypothesis of a slot, with its running word if a word ends where it is."""
        best, history = self._beams.hypotheses[slot, 0], self._histories[slot]
        words, running = history.words(0), (int(best["start"]), int(best["end"]))
        if best["node"] == ROOT:
            return Hypothesis(words, len(history.settled))
        if self._expander.ends_no_word(best["node"]):
            return Hypothesis(words, len(history.settled), running)
        last = self._expander.last_words(self._beams, slot, 1, sentence=False)
        if not last.worth.any():  # the word is a hotword, which counts only in the trie of the stream
            return Hypothesis(words, len(history.settled), running)
        number = int(last.words[0, last.worth[0].argmax()])
        return Hypothesis((*words, self._word(slot, number, *running, float(last.posteriors[0]))), len(history.settled))

    def _settle(self, slot: int) -> None:
        """Drop the hypotheses that differ from the best one in words that ended long enough ago."""
        history, settle_frames = self._histories[slot], self._settle_frames[slot]
        if not settle_frames:
            return
        old = sum(word.end <= self._beams.frames[slot] - settle_frames for word in history.open[0])
        if old:
            self._beams.drop(slot, history.settle(old))

    def _word(self, slot: int, number: int, start: int, end: int, posterior: float) -> HypothesisWord:
        return HypothesisWord(self._text(slot, number), start, end, min(posterior, 1.0))

    def _text(self, slot: int, number: int) -> str:
        in_vocabulary = number < len(self._texts)
        return self._texts[number] if in_vocabulary else self._new_words[slot][number - len(self._texts)]
