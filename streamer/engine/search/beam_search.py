"""The prefix beam search over the phones of a CTC head, with a lexicon and an n-gram model of words, for all slots.

A hypothesis is a history of words and a node of the lexicon's trie. Its score is the natural log of the sum over its
CTC paths and pronunciations, plus the weighted score of the language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.streaming_model import Array, Emissions
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, WORD_COUNT, Lexicon, TrieTables, Worth
from streamer.engine.search.beam_loops import Rules, Tables, last_words, read_step
from streamer.engine.search.beams import ENDED_WORD, NO_HISTORY, Beams, EndedWord, Records, WordHistories
from streamer.engine.search.hotwords import CompiledHotwords, HotwordBonuses, HotwordCompiler
from streamer.engine.search.rescoring import BeamStep, NeuralRescoring, Rescorer
from streamer.engine.search.search import BLANK, BeamOptions, Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.waiting import Work, finish

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
        log_probabilities = _in_main_memory(emissions[self._head])
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

    def _read(self, slot: int, log_probabilities: NDArray[np.float32]) -> BeamStep:
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


def _in_main_memory(emissions: Array) -> NDArray[np.float32]:
    """Return emissions as an array of numpy, also if torch computed them, perhaps on a GPU."""
    if not isinstance(emissions, np.ndarray):
        emissions = emissions.detach().float().cpu().numpy()
    return emissions.astype(np.float32, copy=False)


# Expands the hypotheses of a slot by the frames of a step, with the compiled loops and their tables.

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
        worth = Worth(float(options.language_weight), float(options.word_bonus))
        if first:
            self._nodes, self._bonuses = first._nodes, first._bonuses
        else:
            self._nodes = TrieTables(lexicon, worth, language.unigrams, homophones, boundary, slots)
            self._bonuses = HotwordBonuses(slots)
        # Run the loops once, so that they are compiled, or read from disk, before a client waits for words.
        empty = Beams(1, options.beam, language.start)
        self.step(empty, 0, np.zeros((0, units), np.float32), rescored=False)
        self.last_words(empty, 0, 1, sentence=False)

    @property
    def look_ahead(self) -> NDArray[np.float32]:
        """The factor for each node in the rank of a hypothesis. The ranks decide which hypotheses are kept."""
        return self._nodes.arrays.ahead

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

    def step(self, beams: Beams, slot: int, log_probabilities: NDArray[np.float32], rescored: bool) -> Records:
        """Read a step of emissions [frames, units]. Return the words that ended in it.

        `rescored`: the words of the beams were rescored after each earlier step.
        """
        frames = np.ascontiguousarray(log_probabilities)
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


# Measures how much of a beam agreed on each word of its best hypothesis while the word could still change.

_RECENT = 24  # how many of the last notes are searched for a word; there are never more unsettled words
_NEGLIGIBLE_SHARE = 1e-4  # hypotheses that are less likely than this part of the likeliest do not count


class WordAgreement:
    """The shares of words, collected step by step, because the last beam no longer has other words than the settled."""

    def __init__(self) -> None:
        self._notes: list[tuple[HypothesisWord, float, int]] = []  # word, sum of its shares, number of steps
        self._by_text: dict[str, list[int]] = {}  # the indices of the notes with a text

    def note(self, rows: Sequence[tuple[HypothesisWord, ...]], masses: Sequence[float]) -> None:
        """Note a step: the unsettled words of every hypothesis, those of the best one first, and the mass of each."""
        if not rows[0]:
            return
        least = _NEGLIGIBLE_SHARE * max(masses)
        distinct: dict[int, tuple[HypothesisWord, ...]] = {}
        mass_of: dict[int, float] = {}
        for words, mass in zip(rows, masses, strict=True):
            if mass > least:
                distinct[id(words)] = words
                mass_of[id(words)] = mass_of.get(id(words), 0.0) + mass
        shares = AgreementShares(zip(distinct.values(), mass_of.values(), strict=True), {word.text for word in rows[0]})
        for word in rows[0]:
            share, index = shares.of(word), self._index_of(word)
            if index is None:
                self._by_text.setdefault(word.text, []).append(len(self._notes))
                self._notes.append((word, share, 1))
            else:
                _, total, steps = self._notes[index]
                self._notes[index] = word, total + share, steps + 1

    def of(self, word: HypothesisWord, now: float) -> float:
        """Return the mean share of a word over the steps in which it was open, with its share `now`."""
        index = self._index_of(word, everywhere=True)
        _, total, steps = self._notes[index] if index is not None else (word, 0.0, 0)
        return min((total + now) / (steps + 1), 1.0)

    def _index_of(self, word: HypothesisWord, everywhere: bool = False) -> int | None:
        first = 0 if everywhere else max(0, len(self._notes) - _RECENT)
        for index in reversed(self._by_text.get(word.text, ())):
            if index < first:
                break
            if is_same_word(self._notes[index][0], word):
                return index
        return None


def is_same_word(one: HypothesisWord, other: HypothesisWord) -> bool:
    """Return whether both have the same text and overlap in time."""
    return one.text == other.text and one.start < other.end and other.start < one.end


class AgreementShares:
    """The shares of words among some hypotheses."""

    def __init__(
        self, hypotheses: Iterable[tuple[Sequence[HypothesisWord], float]], texts: Collection[str] | None = None
    ) -> None:
        """`texts` has the texts of the words that `of` is called for; None if they are not known."""
        self._masses: list[float] = []
        self._having: dict[str, dict[tuple[int, int], list[int]]] = {}  # the hypotheses by text and time
        self._shares: dict[tuple[str, int, int], float] = {}
        for number, (words, mass) in enumerate(hypotheses):
            self._masses.append(mass)
            for word in words:
                if texts is not None and word.text not in texts:
                    continue
                self._having.setdefault(word.text, {}).setdefault((word.start, word.end), []).append(number)
        self._total = sum(self._masses)

    def of(self, word: HypothesisWord) -> float:
        """Return the share of this word."""
        key = word.text, word.start, word.end
        if key not in self._shares:
            having: set[int] = set()
            for (start, end), numbers in self._having.get(word.text, {}).items():
                if word.start < end and start < word.end:
                    having.update(numbers)
            mass = sum(self._masses[number] for number in sorted(having))
            self._shares[key] = mass / self._total if self._total else 0.0
        return self._shares[key]
