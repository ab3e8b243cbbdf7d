"""The prefix beam search over the phones of a CTC head, with a lexicon and a word n-gram, for many slots at once.

A hypothesis is a word history and a node of the lexicon's trie. Its score is the natural log of the sum over its CTC
paths and pronunciations, plus the weighted score of the language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

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
from streamer.engine.search.hotwords.hotword_bonuses import HotwordBonuses
from streamer.engine.search.hotwords.hotword_compiler import HotwordCompiler
from streamer.engine.search.neural_rescoring import BeamStep, NeuralRescoring
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.search.word_agreement import AgreementShares, WordAgreement
from streamer.engine.search.word_histories import NO_HISTORY, EndedWord, WordHistories
from streamer.engine.work import Work, finish

BOUNDARY = "|"
_NEGLIGIBLE = 1e-6  # less likely hypotheses do not count in the share of a word
_UNTOLD = 1e-5  # ways to end that are this much less likely than `rescoring_floor` are nobody's alternatives

ScoredWords = tuple[tuple[HypothesisWord, ...], float]
"""Words and their score."""


class _Way(NamedTuple):
    """A way in which a segment could end: with the words of a row of the beam, and perhaps one that has not ended."""

    worth: float
    row: int
    last: int | None = None  # the number of the word that has not ended; the others are about it
    posterior: float = 0.0
    start: int = 0
    end: int = 0


class BeamSearch:
    """Keeps a beam for every slot and advances those of a batch together, on the device of the emissions."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, units: Sequence[str], slots: int,
        options: BeamOptions | None = None, head: str = "phones", device: torch.device | str = "cpu",
        letters: LetterToSound | None = None, rescorer: Rescorer | None = None, first: BeamSearch | None = None,
    ) -> None:  # fmt: skip
        """`letters` pronounces hotwords that are not in the lexicon. Without it such hotwords are refused.

        `rescorer` scores the words that ended again, where a step ends. `first`: the search of the first pass, if this
        is that of the second one. It prepares the hotwords for both. This one advances one slot at a time.
        """
        if BOUNDARY not in units:
            raise ValueError(f"the head {head!r} has no unit for the boundary between words")
        self.options = options or BeamOptions()
        self._head, self._texts, self._device = head, language.words, device
        self._rescoring = NeuralRescoring(rescorer, self.options, slots) if rescorer else None
        boundary, beam = list(units).index(BOUNDARY), self.options.beam
        self._compiler = HotwordCompiler(lexicon, language.words, language.unigrams, units, letters, self.options)
        shared = first._expander if first else None
        self._expander: BeamExpander = BeamExpander(
            lexicon, language, self.options, boundary, len(units), slots, device, shared
        )
        self._beams = Beams.make(slots, beam, device)
        self._histories = [WordHistories(beam) for _ in range(slots)]
        self._frames = [0] * slots
        self._agreement = [WordAgreement() for _ in range(slots)]
        self._settle_frames = [0] * slots
        # For each slot with hotwords: those words of them that the language model does not know.
        self._new_words: dict[int, tuple[str, ...]] = first._new_words if first else {}
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
            if self._rescoring:
                self._rescoring.reset(slot)

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
        ranked = self._ranked(slot, _UNTOLD * self.options.rescoring_floor)
        if not ranked:
            return [(history.words(0), 1.0)][:number]
        total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
        likely = [(way, math.exp(score - ranked[0][1]) / total) for way, score in ranked]
        counted = [
            (self._open_words(slot, way), probability)
            for place, (way, probability) in enumerate(likely)
            if probability >= _NEGLIGIBLE or place < number
        ]
        shares = AgreementShares((words, probability) for words, probability in counted if probability >= _NEGLIGIBLE)
        share_of = self._agreement[slot].of
        settled = [replace(word, share=share_of(word, 1.0)) for word in history.settled]
        return [
            ((*settled, *(replace(word, share=share_of(word, shares.of(word))) for word in words)), probability)
            for words, probability in counted[:number]
        ]

    def ranking(self, slot: int) -> list[ScoredWords]:
        """All whole-word hypotheses of a slot if the segment ended here, with their scores, best first."""
        settled = self._histories[slot].settled
        return [((*settled, *self._open_words(slot, way)), score) for way, score in self._ranked(slot)]

    def _ranked(self, slot: int, floor: float = 0.0) -> list[tuple[_Way, float]]:
        """The likeliest way to end with each text, and the score of the text, best first. `floor` as for `_ways`."""
        merged: dict[tuple[str, ...], float] = {}
        parts: dict[tuple[str, ...], _Way] = {}
        rows = self._histories[slot].open
        said_before: dict[int, tuple[str, ...]] = {}
        for way in self._ways(slot, floor):
            if way.row not in said_before:
                said_before[way.row] = tuple(word.text for word in rows[way.row])
            said = said_before[way.row]
            if way.last is not None:
                said = (*said, self._text(slot, way.last))
            merged[said] = merged.get(said, 0.0) + way.worth
            if said not in parts or way.worth > parts[said].worth:
                parts[said] = way
        scale = float(self._beams.scale[slot])
        best = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
        ranked = [(parts[said], math.log(mass) + scale) for said, mass in best]
        if not self._rescoring or not ranked:
            return ranked
        least = self.options.rescoring_floor * best[0][1]
        compared = ranked[: sum(mass >= least for _, mass in best[: self.options.rescored])]
        gains = self._rescoring.end_gains(slot, [(way.row, way.last) for way, _ in compared])
        again = [(way, score + gain) for (way, score), gain in zip(compared, gains, strict=True)]
        # The others were worse before. They gain no more than any of the best, so they remain so.
        others = [(way, score + min(gains)) for way, score in ranked[len(compared) :]]
        return sorted(again, key=lambda one: -one[1]) + others

    def _open_words(self, slot: int, way: _Way) -> tuple[HypothesisWord, ...]:
        """The words with which a segment ends, without those that are settled."""
        words = self._histories[slot].open[way.row]
        if way.last is None:
            return words
        return (*words, self._word(slot, way.last, way.start, way.end, way.posterior))

    def _ways(self, slot: int, floor: float) -> list[_Way]:
        """The ways in which a segment could end here: whole words, and the words that could end.

        Those that are at most `floor` times as likely as the likeliest are left out. With what `alternatives` asks for,
        these are nine of ten.
        """
        numbers = self._numbers([slot])
        with torch.inference_mode():
            beams = self._beams.take(numbers)
            bonuses = self._expander.bonuses(numbers) if slot in self._new_words else None
            last = self._expander.last_words(beams, self.options.beam, bonuses)
            worth, whole = (last.worth * beams.total.unsqueeze(2))[0], (last.whole * beams.total)[0]
            untold = floor * torch.maximum(worth.max(), whole.max())
            ended, (begun, homophone) = (whole > untold).nonzero()[:, 0], (worth > untold).nonzero().unbind(1)
            times = beams.numbers[0, START_FRAME : END_FRAME + 1, begun]
            columns = (
                worth[begun, homophone], begun, last.words[0, begun, homophone], last.posteriors[0, begun], *times
            )  # fmt: skip
        found = [_Way(value, row) for value, row in zip(whole[ended].tolist(), ended.tolist(), strict=True)]
        more = [_Way(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        if self._rescoring:
            least = self.options.rescoring_floor * max((way.worth for way in (*found, *more)), default=0.0)
            rescored = [(number, way.row, way.last) for number, way in enumerate(more) if way.worth >= least]
            gains = self._rescoring.last_gains(slot, [(row, word) for _, row, word in rescored if word is not None])
            for (number, _, _), gain in zip(rescored, gains, strict=True):
                more[number] = more[number]._replace(worth=more[number].worth * math.exp(gain))
        return found + more

    def _advance(self, slots: Sequence[int], log_probabilities: Tensor) -> list[Hypothesis]:
        """Advance slots that all have hotwords, or all have none."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        bonuses = self._expander.bonuses(numbers) if slots[0] in self._new_words else None
        rescored = self._rescoring is not None
        listed = self._expander.step(beams, log_probabilities, bonuses, rescored).cpu().numpy()
        back = torch.where(beams.total > 0, beams.numbers[:, BACK_POINTER], NO_HISTORY).tolist()
        read: dict[int, list[float]] = {}

        def ended(number: int) -> list[float]:
            if number not in read:
                read[number] = listed[number].tolist()
            return read[number]

        for row, slot in enumerate(slots):

            def ended_word(number: int, slot: int = slot) -> EndedWord:
                history, word, start, end, probability, phones = ended(number)
                # The mean over its phones is computed here, because few of the words that end get here.
                return int(history), self._word(slot, int(word), int(start), int(end), probability ** (1 / phones))

            self._histories[slot].follow(back[row], ended_word)
        self._rescore(slots, beams, back, lambda number: (int(ended(number)[0]), int(ended(number)[1])))
        beams.numbers[:, BACK_POINTER] = torch.arange(self.options.beam, device=self._device)
        totals = beams.total.tolist()
        for row, slot in enumerate(slots):
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

    def _rescore(
        self, slots: Sequence[int], beams: Beams, back: Sequence[Sequence[int]],
        ended: Callable[[int], tuple[int, int]],
    ) -> None:  # fmt: skip
        """Count what the neural language model says of the words that ended in this step."""
        if not self._rescoring:
            return
        hashes, masses = beams.numbers[:, HISTORY_HASH].tolist(), self._expander.ranks(beams).tolist()
        steps = [BeamStep(slot, back[row], hashes[row], masses[row], ended) for row, slot in enumerate(slots)]
        changed = self._rescoring.follow(steps)
        if not changed:
            return
        # The others stay as they are to the last bit, so nobody depends on the words of others.
        rows = self._numbers(changed)
        theirs = beams.take(rows)
        gains = torch.tensor([self._rescoring.gains(slots[row]) for row in changed], dtype=torch.float64)
        orders = self._expander.rescore(theirs, gains.to(self._device)).tolist()
        beams.put(rows, theirs)
        for row, order in zip(changed, orders, strict=True):
            self._histories[slots[row]].reorder(order)
            self._rescoring.reorder(slots[row], order)

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
        return HypothesisWord(self._text(slot, number), start, end, min(posterior, 1.0))

    def _text(self, slot: int, number: int) -> str:
        known = number < len(self._texts)
        return self._texts[number] if known else self._new_words[slot][number - len(self._texts)]

    def _numbers(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.int64, device=self._device)
