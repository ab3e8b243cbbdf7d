"""The prefix beam search: phones of a CTC head, a lexicon and a word n-gram, for all slots of a batch at once.

A hypothesis is a word history and a node of the lexicon's trie. Its score is the natural log of the sum over CTC paths
and pronunciations, plus the weighted language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from streamer.engine.histories import NOWHERE, Ended, Histories
from streamer.engine.hypotheses import BACK, END, START, Beams
from streamer.engine.language import LanguageModel
from streamer.engine.lexicon import ROOT, Lexicon
from streamer.engine.model import Emissions
from streamer.engine.prefixes import BeamOptions, Prefixes, Running
from streamer.engine.search import Hypothesis, Word

BOUNDARY = "|"

Ranked = tuple[tuple[Word, ...], float]
"""Words and their score."""


class BeamSearch:
    """Keeps a beam for every slot and advances those of a batch together, on the device of the emissions."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, units: Sequence[str], slots: int,
        options: BeamOptions | None = None, head: str = "phones", device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        if BOUNDARY not in units:
            raise ValueError(f"the head {head!r} has no unit for the boundary between words")
        self.options = options or BeamOptions()
        self._head, self._texts, self._device = head, language.words, device
        boundary, beam = list(units).index(BOUNDARY), self.options.beam
        self._prefixes = Prefixes(lexicon, language, self.options, boundary, len(units), slots, device)
        self._beams = Beams.make(slots, beam, device)
        self._histories = [Histories(beam) for _ in range(slots)]
        self.reset(range(slots))

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        self._prefixes.reset(beams)
        self._beams.put(numbers, beams)
        for slot in slots:
            self._histories[slot] = Histories(self.options.beam)

    @torch.inference_mode()
    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        numbers = self._numbers(slots)
        beams = self._beams.take(numbers)
        listed = self._prefixes.step(beams, emissions[self._head]).cpu().numpy()

        def ended(number: int) -> Ended:
            back, word, start, end, posterior = listed[number].tolist()
            return int(back), self._word(int(word), int(start), int(end), posterior)

        back = torch.where(beams.total > 0, beams.numbers[:, BACK], NOWHERE).tolist()
        beams.numbers[:, BACK] = torch.arange(self.options.beam, device=self._device)
        self._beams.put(numbers, beams)
        running = self._prefixes.running(beams, rows=1)
        nodes, starts, ends = beams.nodes[:, 0].tolist(), *beams.numbers[:, START : END + 1, 0].T.tolist()
        texts, worth = running.words[:, 0].tolist(), running.worth[:, 0].tolist()
        found = []
        for row, slot in enumerate(slots):
            history = self._histories[slot]
            history.follow(back[row], ended)
            words, unfinished = history.words(0), None
            best = max(worth[row])
            if best:
                number = texts[row][worth[row].index(best)]
                words += (self._word(number, starts[row], ends[row], float(running.posteriors[row, 0])),)
            elif nodes[row] != ROOT:
                unfinished = starts[row], ends[row]
            found.append(Hypothesis(words, len(history.settled), unfinished))
        return found

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these slots if nothing follows: whole words only, the last with or without its boundary."""
        found = []
        for slot, ranked in zip(slots, self._ranked(slots), strict=True):
            history = self._histories[slot]
            words = ranked[0][0] if ranked else history.words(0)
            found.append(Hypothesis(words, stable=len(history.settled)))
        return found

    def ranking(self, slot: int) -> list[Ranked]:
        """All whole-word hypotheses of a slot if nothing follows, with their scores, best first."""
        return self._ranked([slot])[0]

    @torch.inference_mode()
    def _ranked(self, slots: Sequence[int]) -> list[list[Ranked]]:
        beams = self._beams.take(self._numbers(slots))
        running = self._prefixes.running(beams, self.options.beam)
        total = beams.total
        worth = (running.worth * total.unsqueeze(2)).tolist()
        nodes, masses, scales = beams.nodes.tolist(), total.tolist(), beams.scale.tolist()
        found = []
        for number, slot in enumerate(slots):
            merged: dict[tuple[str, ...], float] = {}
            parts: dict[tuple[str, ...], tuple[float, tuple[Word, ...]]] = {}
            for row, (node, mass) in enumerate(zip(nodes[number], masses[number], strict=True)):
                if not mass:
                    continue
                words = self._histories[slot].words(row)
                ways = [(mass, words)] if node == ROOT else []
                for place, value in enumerate(worth[number][row]):
                    if value:
                        ways.append((value, (*words, self._running_word(beams, running, number, row, place))))
                for value, way in ways:
                    texts = tuple(word.text for word in way)
                    merged[texts] = merged.get(texts, 0.0) + value
                    parts[texts] = max(parts.get(texts, (0.0, ())), (value, way), key=lambda part: part[0])
            best = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
            found.append([(parts[texts][1], math.log(mass) + scales[number]) for texts, mass in best])
        return found

    def _word(self, number: int, start: int, end: int, posterior: float) -> Word:
        return Word(self._texts[number], start, end, min(posterior, 1.0))

    def _running_word(self, beams: Beams, running: Running, slot: int, row: int, place: int) -> Word:
        start, end = beams.numbers[slot, START : END + 1, row].tolist()
        return self._word(int(running.words[slot, row, place]), start, end, float(running.posteriors[slot, row]))

    def _numbers(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.int64, device=self._device)
