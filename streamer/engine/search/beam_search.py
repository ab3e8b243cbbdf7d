"""The prefix beam search over the phones of a CTC head, with a lexicon and a word n-gram, for many slots at once.

A hypothesis is a word history and a node of the lexicon's trie. Its score is the natural log of the sum over its CTC
paths and pronunciations, plus the weighted score of the language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, Lexicon
from streamer.engine.language.rescoring import Rescorer
from streamer.engine.models.streaming_model import Emissions
from streamer.engine.search.beam_expansion import BeamExpander
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_tensors import BACK_POINTER, END_FRAME, HISTORY_HASH, START_FRAME, Beams
from streamer.engine.search.hotword_bonuses import HotwordBonuses
from streamer.engine.search.hotword_compiler import HotwordCompiler
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.search.word_agreement import AgreementShares, WordAgreement
from streamer.engine.search.word_histories import NO_HISTORY, EndedWord, WordHistories
from streamer.engine.work import Work, finish

BOUNDARY = "|"
_NEGLIGIBLE = 1e-6  # less likely hypotheses do not count in the share of a word

ScoredWords = tuple[tuple[HypothesisWord, ...], float]
"""Words and their score."""


class BeamSearch:
    """Keeps a beam for every slot and advances those of a batch together, on the device of the emissions."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, units: Sequence[str], slots: int,
        options: BeamOptions | None = None, head: str = "phones", device: torch.device | str = "cpu",
        letters: LetterToSound | None = None, rescorer: Rescorer | None = None,
    ) -> None:  # fmt: skip
        """`letters` pronounces hotwords that are not in the lexicon. Without it such hotwords are refused.

        `rescorer` compares the alternatives where a segment ends.
        """
        if BOUNDARY not in units:
            raise ValueError(f"the head {head!r} has no unit for the boundary between words")
        self.options = options or BeamOptions()
        self._head, self._texts, self._device = head, language.words, device
        self._rescorer = rescorer
        boundary, beam = list(units).index(BOUNDARY), self.options.beam
        self._compiler = HotwordCompiler(lexicon, language.words, language.unigrams, units, letters, self.options)
        self._expander = BeamExpander(lexicon, language, self.options, boundary, len(units), slots, device)
        self._beams = Beams.make(slots, beam, device)
        self._histories = [WordHistories(beam) for _ in range(slots)]
        self._frames = [0] * slots
        self._agreement = [WordAgreement() for _ in range(slots)]
        self._settle_frames = [0] * slots
        # For each slot with hotwords: those words of them that the language model does not know.
        self._new_words: dict[int, tuple[str, ...]] = {}
        self.reset(range(slots))

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Set the options of the next stream in this slot. ValueError for a hotword that cannot be used."""
        self.release(slot)
        compiled = (yield from self._compiler.compiling(hotwords, caller)) if hotwords else None
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
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        self._expander.reset(beams)
        self._beams.put(numbers, beams)
        for slot in slots:
            self._histories[slot] = WordHistories(self.options.beam)
            self._agreement[slot] = WordAgreement()
            self._frames[slot] = 0

    @torch.inference_mode()
    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        found: dict[int, Hypothesis] = {}
        log_probabilities = torch.as_tensor(emissions[self._head])
        for rows in self._grouped(slots):
            theirs = log_probabilities if len(rows) == len(slots) else log_probabilities[rows]
            found |= zip(rows, self._advance([slots[row] for row in rows], theirs), strict=True)
        return [found[row] for row in range(len(slots))]

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses if the segment ended here: whole words only, the last one with or without its boundary."""
        return [
            Hypothesis(self.alternatives(slot, 1)[0][0], stable=len(self._histories[slot].settled)) for slot in slots
        ]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Up to `number` different texts if the segment ended here, likeliest first. The first is that of `finish`."""
        history = self._histories[slot]
        ranked = self._rescored(history.settled, self._open_ranking(slot))
        if not ranked:
            return [(history.words(0), 1.0)][:number]
        total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
        likely = [(words, math.exp(score - ranked[0][1]) / total) for words, score in ranked]
        shares = AgreementShares((words, probability) for words, probability in likely if probability >= _NEGLIGIBLE)
        share_of = self._agreement[slot].of
        settled = [replace(word, share=share_of(word, 1.0)) for word in history.settled]
        return [
            ((*settled, *(replace(word, share=share_of(word, shares.of(word))) for word in words)), probability)
            for words, probability in likely[:number]
        ]

    def ranking(self, slot: int) -> list[ScoredWords]:
        """All whole-word hypotheses of a slot if the segment ended here, with the search's own scores, best first."""
        settled = self._histories[slot].settled
        return [((*settled, *words), score) for words, score in self._open_ranking(slot)]

    def _rescored(self, settled: Sequence[HypothesisWord], ranked: list[ScoredWords]) -> list[ScoredWords]:
        """The best of these hypotheses in the order that the neural language model gives, then the others."""
        options, best = self.options, ranked[: self.options.rescored]
        if self._rescorer is None or len(best) < 2:
            return ranked
        ways = [[word.text for word in words] for words, _ in best]
        gains = [
            both.gain(options.neural_share, options.neural_weight, options.neural_end_weight)
            for both in self._rescorer.compare([word.text for word in settled], ways)
        ]
        again = [(words, score + gain) for (words, score), gain in zip(best, gains, strict=True)]
        # The others were worse before. They gain no more than any of the best, so they remain so.
        others = [(words, score + min(gains)) for words, score in ranked[len(best) :]]
        return sorted(again, key=lambda one: -one[1]) + others

    def _open_ranking(self, slot: int) -> list[ScoredWords]:
        """The same with the words that are not settled: all hypotheses have the others in common."""
        numbers = self._numbers([slot])
        with torch.inference_mode():
            beams = self._beams.take(numbers)
            bonuses = self._expander.bonuses(numbers) if slot in self._new_words else None
            last = self._expander.last_words(beams, self.options.beam, bonuses)
            worth = (last.worth * beams.total.unsqueeze(2))[0].tolist()
            whole = (last.whole * beams.total)[0].tolist()
        texts, posteriors, scale = last.words[0].tolist(), last.posteriors[0].tolist(), float(beams.scale)
        times = beams.numbers[0, START_FRAME : END_FRAME + 1].T.tolist()
        merged: dict[tuple[str, ...], float] = {}
        parts: dict[tuple[str, ...], tuple[float, tuple[HypothesisWord, ...]]] = {}
        for row, values in enumerate(worth):
            words = self._histories[slot].open[row] if whole[row] or any(values) else ()
            start, end = times[row]
            ways = [(whole[row], words)] if whole[row] else []
            for number, value in zip(texts[row], values, strict=True):
                if value:
                    ways.append((value, (*words, self._word(slot, number, start, end, posteriors[row]))))
            for value, way in ways:
                said = tuple(word.text for word in way)
                merged[said] = merged.get(said, 0.0) + value
                parts[said] = max(parts.get(said, (0.0, ())), (value, way), key=lambda part: part[0])
        best = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
        return [(parts[said][1], math.log(mass) + scale) for said, mass in best]

    def _advance(self, slots: Sequence[int], log_probabilities: Tensor) -> list[Hypothesis]:
        """Advance slots that all have hotwords, or all have none."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        bonuses = self._expander.bonuses(numbers) if slots[0] in self._new_words else None
        listed = self._expander.step(beams, log_probabilities, bonuses).cpu().numpy()
        back = torch.where(beams.total > 0, beams.numbers[:, BACK_POINTER], NO_HISTORY).tolist()
        beams.numbers[:, BACK_POINTER] = torch.arange(self.options.beam, device=self._device)
        totals = beams.total.tolist()
        for row, slot in enumerate(slots):

            def ended(number: int, slot: int = slot) -> EndedWord:
                back, word, start, end, posterior = listed[number].tolist()
                return int(back), self._word(slot, int(word), int(start), int(end), posterior)

            self._histories[slot].follow(back[row], ended)
            self._frames[slot] += log_probabilities.shape[1]
            self._settle(slot, row, beams)
            self._agreement[slot].note(self._histories[slot].open, totals[row])
        self._beams.put(numbers, beams)
        nodes, starts, ends = beams.nodes[:, 0].tolist(), *beams.numbers[:, START_FRAME : END_FRAME + 1, 0].T.tolist()
        last = self._last_words(beams, nodes, bonuses)
        found = []
        for row, slot in enumerate(slots):
            history = self._histories[slot]
            words, unfinished = history.words(0), None
            if row in last:
                number, posterior = last[row]
                words += (self._word(slot, number, starts[row], ends[row], posterior),)
            elif nodes[row] != ROOT:
                unfinished = starts[row], ends[row]
            found.append(Hypothesis(words, len(history.settled), unfinished))
        return found

    def _last_words(
        self, beams: Beams, nodes: Sequence[int], bonuses: HotwordBonuses | None
    ) -> dict[int, tuple[int, float]]:
        """By row, the likeliest word with which its best hypothesis could end, and the posterior of the word."""
        if self._expander.ends_no_word(nodes):
            return {}
        last = self._expander.last_words(beams, 1, bonuses)
        texts, worth, posteriors = (part[:, 0].tolist() for part in (last.words, last.worth, last.posteriors))
        best = map(max, worth)
        return {row: (texts[row][worth[row].index(value)], posteriors[row]) for row, value in enumerate(best) if value}

    def _settle(self, slot: int, row: int, beams: Beams) -> None:
        """Drop the hypotheses that disagree with the best one in words that ended long enough ago."""
        history, settle_frames = self._histories[slot], self._settle_frames[slot]
        if not settle_frames:
            return
        old = sum(word.end <= self._frames[slot] - settle_frames for word in history.open[0])
        apart = history.settle(old) if old else []
        if apart:
            dropped = torch.tensor(apart, device=self._device)
            beams.mass[row, :, dropped] = 0.0
            # Hypotheses without mass must not be merged with others.
            beams.numbers[row, HISTORY_HASH, dropped] = dropped

    def _grouped(self, slots: Sequence[int]) -> list[list[int]]:
        """The rows of slots without hotwords, then of those with them.

        Slots without hotwords are computed apart, so their results do not depend on other streams, not in the last bit.
        """
        groups: tuple[list[int], list[int]] = [], []
        for row, slot in enumerate(slots):
            groups[slot in self._new_words].append(row)
        return [rows for rows in groups if rows]

    def _word(self, slot: int, number: int, start: int, end: int, posterior: float) -> HypothesisWord:
        known = number < len(self._texts)
        text = self._texts[number] if known else self._new_words[slot][number - len(self._texts)]
        return HypothesisWord(text, start, end, min(posterior, 1.0))

    def _numbers(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.int64, device=self._device)
