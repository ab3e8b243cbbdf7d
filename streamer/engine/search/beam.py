"""The prefix beam search: phones of a CTC head, a lexicon and a word n-gram, for all slots of a batch at once.

A hypothesis is a word history and a node of the lexicon's trie. Its score is the natural log of the sum over CTC paths
and pronunciations, plus the weighted language model and a bonus for every word.
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
from streamer.engine.models.streaming_model import Emissions
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.hotwords import Speller
from streamer.engine.search.hypotheses import BACK, END, HISTORY, START, Beams
from streamer.engine.search.prefixes import Prefixes
from streamer.engine.search.search import Alternative, Hotword, Hypothesis, Word
from streamer.engine.search.word_histories import NOWHERE, Ended, WordHistories
from streamer.engine.search.word_shares import WordShares, shares

BOUNDARY = "|"
_NEGLIGIBLE = 1e-6  # a hypothesis less likely than that is not counted in a word's share

Ranked = tuple[tuple[Word, ...], float]
"""Words and their score."""


class BeamSearch:
    """Keeps a beam for every slot and advances those of a batch together, on the device of the emissions."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, units: Sequence[str], slots: int,
        options: BeamOptions | None = None, head: str = "phones", device: torch.device | str = "cpu",
        letters: LetterToSound | None = None,
    ) -> None:  # fmt: skip
        """`letters` pronounce hotwords that are not in the lexicon; without them there can be none."""
        if BOUNDARY not in units:
            raise ValueError(f"the head {head!r} has no unit for the boundary between words")
        self.options = options or BeamOptions()
        self._head, self._texts, self._device = head, language.words, device
        boundary, beam = list(units).index(BOUNDARY), self.options.beam
        self._speller = Speller(lexicon, language.words, language.unigrams, units, letters, self.options)
        self._prefixes = Prefixes(lexicon, language, self.options, boundary, len(units), slots, device)
        self._beams = Beams.make(slots, beam, device)
        self._histories = [WordHistories(beam) for _ in range(slots)]
        self._frames = [0] * slots
        self._beliefs = [WordShares() for _ in range(slots)]
        self._settle_frames = [0] * slots
        # The texts of hotwords that the language model does not know, of those slots that have hotwords.
        self._expected: dict[int, tuple[str, ...]] = {}
        self.reset(range(slots))

    def configure(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int) -> None:
        """What the stream that takes this slot asks for; ValueError says which hotword is impossible, or no room."""
        expected = self._speller.expected(hotwords)
        self._expected.pop(slot, None)
        self._settle_frames[slot] = 0
        self._prefixes.expect(slot, expected)
        self._settle_frames[slot] = settle_frames
        if expected:
            self._expected[slot] = expected.texts

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        self._prefixes.reset(beams)
        self._beams.put(numbers, beams)
        for slot in slots:
            self._histories[slot] = WordHistories(self.options.beam)
            self._beliefs[slot] = WordShares()
            self._frames[slot] = 0

    @torch.inference_mode()
    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        found: dict[int, Hypothesis] = {}
        log_probabilities = emissions[self._head]
        for rows in self._alike(slots):
            theirs = log_probabilities if len(rows) == len(slots) else log_probabilities[rows]
            found |= zip(rows, self._advance([slots[row] for row in rows], theirs), strict=True)
        return [found[row] for row in range(len(slots))]

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these slots if nothing follows: whole words only, the last with or without its boundary."""
        return [
            Hypothesis(self.alternatives(slot, 1)[0][0], stable=len(self._histories[slot].settled)) for slot in slots
        ]

    def alternatives(self, slot: int, number: int) -> list[Alternative]:
        """At most so many different texts of a slot if nothing follows, the likeliest, that of `finish`, first."""
        history = self._histories[slot]
        settled = len(history.settled)
        ranked = self.ranking(slot)
        if not ranked:
            return [(history.words(0), 1.0)][:number]
        total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
        likely = [(words, math.exp(score - ranked[0][1]) / total) for words, score in ranked]
        likely_now = [(words[settled:], probability) for words, probability in likely if probability >= _NEGLIGIBLE]
        believed = self._beliefs[slot].of
        found = []
        for words, probability in likely[:number]:
            now = [1.0] * settled + shares(words[settled:], likely_now)
            judged = (replace(word, share=believed(word, share)) for word, share in zip(words, now, strict=True))
            found.append((tuple(judged), probability))
        return found

    def ranking(self, slot: int) -> list[Ranked]:
        """All whole-word hypotheses of a slot if nothing follows, with their scores, best first."""
        numbers = self._numbers([slot])
        with torch.inference_mode():
            beams = self._beams.take(numbers)
            credits = self._prefixes.credits(numbers) if slot in self._expected else None
            running = self._prefixes.running(beams, self.options.beam, credits)
            worth = (running.worth * beams.total.unsqueeze(2))[0].tolist()
            whole = (running.whole * beams.total)[0].tolist()
        texts, posteriors, scale = running.words[0].tolist(), running.posteriors[0].tolist(), float(beams.scale)
        times = beams.numbers[0, START : END + 1].T.tolist()
        merged: dict[tuple[str, ...], float] = {}
        parts: dict[tuple[str, ...], tuple[float, tuple[Word, ...]]] = {}
        for row, values in enumerate(worth):
            words = self._histories[slot].words(row) if whole[row] or any(values) else ()
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
        """Slots that have hotwords, or slots that have none."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        credits = self._prefixes.credits(numbers) if slots[0] in self._expected else None
        listed = self._prefixes.step(beams, log_probabilities, credits).cpu().numpy()
        back = torch.where(beams.total > 0, beams.numbers[:, BACK], NOWHERE).tolist()
        beams.numbers[:, BACK] = torch.arange(self.options.beam, device=self._device)
        totals = beams.total.tolist()
        for row, slot in enumerate(slots):

            def ended(number: int, slot: int = slot) -> Ended:
                back, word, start, end, posterior = listed[number].tolist()
                return int(back), self._word(slot, int(word), int(start), int(end), posterior)

            self._histories[slot].follow(back[row], ended)
            self._frames[slot] += log_probabilities.shape[1]
            self._settle(slot, row, beams)
            self._beliefs[slot].note(self._histories[slot].open, totals[row])
        self._beams.put(numbers, beams)
        running = self._prefixes.running(beams, 1, credits)
        nodes, starts, ends = beams.nodes[:, 0].tolist(), *beams.numbers[:, START : END + 1, 0].T.tolist()
        texts, worth = running.words[:, 0].tolist(), running.worth[:, 0].tolist()
        found = []
        for row, slot in enumerate(slots):
            history = self._histories[slot]
            words, unfinished = history.words(0), None
            best = max(worth[row])
            if best:
                number = texts[row][worth[row].index(best)]
                words += (self._word(slot, number, starts[row], ends[row], float(running.posteriors[row, 0])),)
            elif nodes[row] != ROOT:
                unfinished = starts[row], ends[row]
            found.append(Hypothesis(words, len(history.settled), unfinished))
        return found

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
            # Those without mass must not be taken for others.
            beams.numbers[row, HISTORY, dropped] = dropped

    def _alike(self, slots: Sequence[int]) -> list[list[int]]:
        """The rows of slots without hotwords and of those with: the former do not even compute in another shape."""
        groups: tuple[list[int], list[int]] = [], []
        for row, slot in enumerate(slots):
            groups[slot in self._expected].append(row)
        return [rows for rows in groups if rows]

    def _word(self, slot: int, number: int, start: int, end: int, posterior: float) -> Word:
        known = number < len(self._texts)
        text = self._texts[number] if known else self._expected[slot][number - len(self._texts)]
        return Word(text, start, end, min(posterior, 1.0))

    def _numbers(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.int64, device=self._device)
