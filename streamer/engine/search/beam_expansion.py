"""Expands the hypotheses of a slot by the frames of a step, with the compiled loops and their tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.trie_tables import WORD_COUNT, TrieTables
from streamer.engine.search.beam_loops import Rules, Tables, last_words, read_step
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beams import ENDED_WORD, Beams, Records
from streamer.engine.search.hotwords.hotword_bonuses import HotwordBonuses
from streamer.engine.search.hotwords.hotword_compiler import CompiledHotwords
from streamer.engine.search.search import BLANK
from streamer.engine.work.parts import Work

MOST_HOMOPHONES = 8  # of words with the same pronunciation, only the likeliest are considered
LEAST_HOMOPHONES = 4  # room for hotwords with the same pronunciation, even if the lexicon has no such words


@dataclass
class LastWords:
    """The words with which hypotheses could end now: [rows, homophones]. A worth of 0 means that there is no word."""

    words: NDArray[np.int64]
    worth: NDArray[np.float64]
    posteriors: NDArray[np.float64]  # [rows]: the geometric mean over the phones
    whole: NDArray[np.float64]  # [rows]: the worth of ending with no further word; 0 in the middle of a word


class BeamExpander:
    """Expands beams step by step, with the lexicon, the language model and the hotwords of the streams."""

    def __init__(
        self,
        lexicon: Lexicon,
        language: LanguageModel,
        options: BeamOptions,
        boundary: int,
        units: int,
        slots: int,
        first: BeamExpander | None = None,
    ) -> None:
        """`first` is the expander of the first pass, if this is the second. Both share its tables and hotwords."""
        self._options, self._language = options, language
        homophones = min(max(lexicon.homophones, LEAST_HOMOPHONES), MOST_HOMOPHONES)
        self._rules = Rules(
            tokens=min(options.tokens, units - len({BLANK, boundary})),
            endings=options.endings,
            homophones=homophones,
            boundary=boundary,
            language_weight=float(options.language_weight),
            word_bonus=float(options.word_bonus),
            end_weight=float(options.end_weight),
            blank_penalty=float(options.blank_penalty),
            blank_ceiling=float(options.blank_ceiling),
            boundary_floor=float(options.boundary_floor),
            hotword_floor=float(options.hotword_floor),
        )
        self._nodes: TrieTables
        self._bonuses: HotwordBonuses
        if first:
            self._nodes, self._bonuses = first._nodes, first._bonuses
        else:
            self._nodes = TrieTables(lexicon, self._worth, language.unigrams, homophones, boundary, slots)
            self._bonuses = HotwordBonuses(slots)
        # Run the loops once, so that they are compiled, or read from disk, before a client waits for words.
        empty = Beams(1, options.beam, language.start)
        self.step(empty, 0, torch.zeros(0, units), rescored=False)
        self.last_words(empty, 0, 1, sentence=False)

    @property
    def look_ahead(self) -> NDArray[np.float32]:
        """The factor for each node in the rank of a hypothesis. The ranks decide which hypotheses are kept."""
        return self._nodes.arrays.ahead

    def _worth(self, log_probabilities: Tensor) -> Tensor:
        """Return the factor of a word with this language model probability in the mass of a hypothesis."""
        return (log_probabilities.double() * self._options.language_weight + self._options.word_bonus).exp()

    def set_hotwords(self, slot: int, hotwords: CompiledHotwords | None) -> Work[None]:
        """Set the hotwords of the stream in a slot. NotNow if there is no room for them now."""
        self._bonuses.remove(slot)
        if hotwords is None:
            self._nodes.remove(slot)
            return
        root = yield from self._nodes.put(slot, hotwords.trie, hotwords.words, hotwords.worth)
        yield from self._bonuses.put(slot, hotwords.bonuses, root)

    def ends_no_word(self, node: int) -> bool:
        """Return whether no word ends at this node of the trie."""
        return not self._nodes.arrays.table[node, WORD_COUNT]

    def last_words(self, beams: Beams, slot: int, rows: int, *, sentence: bool) -> LastWords:
        """Return the words with which the first `rows` hypotheses could end if the segment ended here.

        `sentence`: their worth includes the probability that a sentence ends with them.
        """
        shape = rows, self._rules.homophones
        result = LastWords(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(rows), np.zeros(rows))
        last_words(self._tables, self._rules, slot, beams.hypotheses[slot, :rows], sentence, *vars(result).values())
        return result

    def step(self, beams: Beams, slot: int, log_probabilities: Tensor, rescored: bool) -> Records:
        """Read a step of emissions [frames, units]. Return the words that ended in it.

        `rescored`: the words of the beams were rescored after each earlier step.
        """
        frames = np.ascontiguousarray(log_probabilities.float().numpy())
        records: Records = np.empty(len(frames) * self._rules.endings, ENDED_WORD)
        before = int(beams.frames[slot])
        number, scale = read_step(
            self._tables, self._rules, slot, beams.hypotheses[slot], frames, before, rescored, records
        )
        beams.scale[slot] += scale
        beams.frames[slot] += len(frames)
        return records[:number]

    @property
    def _tables(self) -> Tables:
        return Tables(self._nodes.arrays, self._language.arrays, self._bonuses.arrays)
