"""The prefix beam search over the phones of a CTC head, with a lexicon and an n-gram model of words, for all slots.

A hypothesis is a history of words and a node of the lexicon's trie. Its score is the natural log of the sum over its
CTC paths and pronunciations, plus the weighted score of the language model and a bonus for every word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.streaming_model import Array, Emissions
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon, TrieTables, Worth
from streamer.engine.search.beam_loops import RecentWorths, Rules, Tables, last_words, read_steps
from streamer.engine.search.beams import ENDED_WORD, NO_FRAME, NO_WORD, Beams, Histories, StepRecords
from streamer.engine.search.history_loops import follow_words, show_words
from streamer.engine.search.hotwords import CompiledHotwords, HotwordBonuses, HotwordCompiler
from streamer.engine.search.rescoring import NeuralRescoring, Rescorer
from streamer.engine.search.search import BLANK, NO_WORDS, BeamOptions, Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.waiting import Work, finish

BOUNDARY = "|"
_NEGLIGIBLE = 1e-6  # less likely hypotheses do not count in the share of a word
_LEAST_SHOWN = 1e-5  # ways to end that are less likely than this part of `rescoring_floor` are no alternatives

_T = TypeVar("_T")
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


_WordFields = tuple[int, int, int, int, int, int, float]
"""The fields of `WORD`."""


class _RowWords:
    """The unsettled words of the rows of one slot. Rows with the same words share them."""

    def __init__(
        self, words: Sequence[_WordFields], rows: Sequence[int], made: Callable[[_WordFields], HypothesisWord]
    ) -> None:
        """`made` makes a word of its fields."""
        self._fields, self._rows, self._made = words, rows, made
        self._numbers: dict[int, tuple[int, ...]] = {0: ()}
        self._words: dict[int, tuple[HypothesisWord, ...]] = {0: ()}

    def numbers(self, row: int) -> tuple[int, ...]:
        """Return the numbers of the words of a row."""
        return self._along(self._rows[row], self._numbers, lambda fields: fields[1])

    def words(self, row: int) -> tuple[HypothesisWord, ...]:
        """Return the words of a row."""
        return self._along(self._rows[row], self._words, self._made)

    def _along(self, place: int, known: dict[int, tuple[_T, ...]], made: Callable[[_WordFields], _T]) -> tuple[_T, ...]:
        if place not in known:
            before = self._along(self._fields[place][0], known, made)
            known[place] = (*before, made(self._fields[place]))
        return known[place]


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
        self._histories = Histories(slots, beam)
        self._settle_frames = np.zeros(slots, np.int64)
        self._words: list[list[HypothesisWord]] = [[] for _ in range(slots)]  # of the best hypotheses
        self._best = [NO_WORDS] * slots
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
            self._histories.reset(slot)
            self._words[slot], self._best[slot] = [], NO_WORDS
            if self._rescoring:
                self._rescoring.reset(slot)

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        log_probabilities = _in_main_memory(emissions[self._head])
        numbers = np.array(slots, np.int64)
        self.reserve(slots, log_probabilities.shape[1])
        step = self._expander.step(self._beams, numbers, log_probabilities, self._rescoring is not None)
        self._expander.follow(self._beams, self._histories, step)
        if self._rescoring:
            self._rescoring.follow(step, self._beams, self._histories, self._expander.look_ahead)
        return self._shown(numbers)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses if the segment ended here. They have only whole words, even without a last boundary."""
        return [Hypothesis(self.alternatives(slot, 1)[0][0], stable=len(self._settled(slot))) for slot in slots]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return up to `number` different texts if the segment ended here, likeliest first, as in `finish`."""
        rows = self._rows(slot)
        ranked = self._ranked(slot, rows, _LEAST_SHOWN * self.options.rescoring_floor)
        settled = self._settled(slot)
        if not ranked:
            return [((*settled, *rows.words(0)), 1.0)][:number]
        total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
        likely = [(way, math.exp(score - ranked[0][1]) / total) for way, score in ranked]
        considered = [
            (self._open_words(slot, rows, way), probability)
            for place, (way, probability) in enumerate(likely)
            if probability >= _NEGLIGIBLE or place < number
        ]
        shares = AgreementShares(
            (words, probability) for words, probability in considered if probability >= _NEGLIGIBLE
        )
        share_of = self._agreement(slot).of
        settled = [replace(word, share=share_of(word, 1.0)) for word in settled]
        return [
            ((*settled, *(replace(word, share=share_of(word, shares.of(word))) for word in words)), probability)
            for words, probability in considered[:number]
        ]

    def ranking(self, slot: int) -> list[ScoredWords]:
        """Return all hypotheses of a slot if the segment ended here, with their scores, best first."""
        settled, rows = self._settled(slot), self._rows(slot)
        return [((*settled, *self._open_words(slot, rows, way)), score) for way, score in self._ranked(slot, rows)]

    def _ranked(self, slot: int, rows: _RowWords, floor: float = 0.0) -> list[tuple[_Way, float]]:
        """Return the likeliest way to end with each text, and the score of the text, best first. See `_ways`."""
        merged: dict[tuple[int, ...], float] = {}
        parts: dict[tuple[int, ...], _Way] = {}
        for way in self._ways(slot, floor):
            numbers = rows.numbers(way.row)
            if way.last is not None:
                numbers = (*numbers, way.last)
            merged[numbers] = merged.get(numbers, 0.0) + way.worth
            if numbers not in parts or way.worth > parts[numbers].worth:
                parts[numbers] = way
        scale = float(self._beams.scale[slot])
        best = sorted(merged.items(), key=lambda item: -item[1])
        if len({mass for _, mass in best}) < len(best):  # of equal masses, the first text in the alphabet is the best
            best.sort(key=lambda item: (-item[1], [self._text(slot, number) for number in item[0]]))
        ranked = [(parts[numbers], math.log(mass) + scale) for numbers, mass in best]
        if not self._rescoring or not ranked:
            return ranked
        least = self.options.rescoring_floor * best[0][1]
        compared = ranked[: sum(mass >= least for _, mass in best[: self.options.rescored])]
        gains = self._rescoring.end_gains(slot, [(way.row, way.last) for way, _ in compared])
        again = [(way, score + gain) for (way, score), gain in zip(compared, gains, strict=True)]
        # The others were worse before. They gain no more than any of the best, so they remain worse.
        others = [(way, score + min(gains)) for way, score in ranked[len(compared) :]]
        return sorted(again, key=lambda one: -one[1]) + others

    def _open_words(self, slot: int, rows: _RowWords, way: _Way) -> tuple[HypothesisWord, ...]:
        """Return the words of a way to end that are not settled."""
        words = rows.words(way.row)
        if way.last is None:
            return words
        return (*words, self._word(slot, way.last, way.start, way.end, way.posterior))

    def _settled(self, slot: int) -> list[HypothesisWord]:
        return self._words[slot][: self._histories.arrays.shown[slot]["settled"]]

    def _rows(self, slot: int) -> _RowWords:
        arrays = self._histories.arrays
        words: list[_WordFields] = arrays.words[slot, : arrays.used[slot]].tolist()
        return _RowWords(words, arrays.rows[slot].tolist(), lambda fields: self._ended_word(slot, fields))

    def _agreement(self, slot: int) -> WordAgreement:
        arrays = self._histories.arrays
        notes = arrays.notes[slot, : arrays.noted[slot]].tolist()
        return WordAgreement([(self._text(slot, number), *others) for number, *others in notes])

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

    def reserve(self, slots: Sequence[int], frames: int) -> None:
        """Make room for all that so many frames can bring. After this, threads may advance parts of these slots."""
        more = frames * self.options.endings
        self._histories.reserve(slots, more)
        if self._rescoring:
            self._rescoring.reserve(slots, more)

    def _shown(self, slots: NDArray[np.int64]) -> list[Hypothesis]:
        """Return the best hypotheses after a step, each with its running word if a word ends where it is.

        Nothing is made again of what is as it was after the last step.
        """
        self._expander.show(self._beams, self._histories, slots, self._settle_frames)
        shown = self._histories.arrays.shown[slots].tolist()
        return [self._hypothesis(slot, values) for slot, values in zip(slots.tolist(), shown, strict=True)]

    def _hypothesis(self, slot: int, shown: tuple[Any, ...]) -> Hypothesis:
        settled, fresh, same, count, _, last, start, end, changed, posterior = shown
        if not changed:
            return self._best[slot]
        words, first = self._words[slot], settled - fresh  # the line has the words from `first` on
        del words[same:]
        line = self._histories.arrays.line[slot, same - first : count - first]
        words += [self._ended_word(slot, fields) for fields in line.tolist()]
        if last != NO_WORD:
            best = Hypothesis((*words, self._word(slot, last, start, end, posterior)), settled)
        else:
            best = Hypothesis(tuple(words), settled, None if start == NO_FRAME else (start, end))
        self._best[slot] = best
        return best

    def _ended_word(self, slot: int, fields: _WordFields) -> HypothesisWord:
        _, word, start, end, phones, _, probability = fields
        # The mean over the phones is computed here, and not in the loops, because few words get here.
        return self._word(slot, word, start, end, probability ** (1 / phones))

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
_RECENT_WORTHS = 512  # a power of two: how many words of each slot have their worth kept
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
        self._recent: RecentWorths
        if first:
            self._nodes, self._bonuses, self._recent = first._nodes, first._bonuses, first._recent
        else:
            shape = slots, _RECENT_WORTHS
            self._recent = RecentWorths(np.zeros(shape, np.int64), np.zeros(shape))
            self._nodes = TrieTables(lexicon, worth, language.unigrams, homophones, boundary, slots)
            self._bonuses = HotwordBonuses(slots)
        # Run the loops once, so that they are compiled, or read from disk, before a client waits for words.
        empty, histories, only = (
            Beams(1, options.beam, language.start),
            Histories(1, options.beam),
            np.zeros(1, np.int64),
        )
        self.follow(empty, histories, self.step(empty, only, np.zeros((1, 0, units), np.float32), rescored=False))
        self.show(empty, histories, only, np.zeros(1, np.int64))
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

    def last_words(self, beams: Beams, slot: int, rows: int, *, sentence: bool) -> LastWords:
        """Return the words with which the first `rows` hypotheses could end if the segment ended here.

        `sentence`: their worth includes the probability that a sentence ends with them.
        """
        shape = rows, self._rules.homophones
        result = LastWords(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(rows), np.zeros(rows))
        last_words(self._tables, self._rules, slot, beams.hypotheses[slot, :rows], sentence, *vars(result).values())
        return result

    def step(
        self, beams: Beams, slots: NDArray[np.int64], log_probabilities: NDArray[np.float32], rescored: bool
    ) -> StepRecords:
        """Read a step of emissions [slots, frames, units]. Return the words that ended in it.

        `rescored`: the words of the beams were rescored after each earlier step.
        """
        emissions = np.ascontiguousarray(log_probabilities)
        records = np.empty((len(slots), emissions.shape[1] * self._rules.endings), ENDED_WORD)
        step = StepRecords(slots, records, np.zeros(len(slots), np.int64))
        read_steps(
            self._tables,
            self._rules,
            slots,
            beams.hypotheses,
            emissions,
            beams.frames,
            beams.scale,
            rescored,
            step.records,
            step.counts,
        )
        return step

    def follow(self, beams: Beams, histories: Histories, step: StepRecords) -> None:
        """Follow the words of the hypotheses after a step."""
        follow_words(histories.arrays, step.slots, beams.hypotheses, step.records, step.counts)

    def show(
        self, beams: Beams, histories: Histories, slots: NDArray[np.int64], settle_frames: NDArray[np.int64]
    ) -> None:
        """Complete a step: settle words that are old enough, and say in `histories` what the best hypotheses show."""
        arrays = histories.arrays
        show_words(self._tables, self._rules, arrays, slots, beams.hypotheses, beams.frames, settle_frames)

    @property
    def _tables(self) -> Tables:
        return Tables(self._nodes.arrays, self._language.arrays, self._bonuses.arrays, self._recent)


# How much of a beam agreed on each word of its best hypothesis while the word could still change.

_Note = tuple[str, int, int, int, float]
"""A text, its start and end, in how many steps it was noted, and the sum of its shares."""


class WordAgreement:
    """The shares of words, collected step by step, because the last beam no longer has other words than the settled."""

    def __init__(self, notes: Sequence[_Note]) -> None:
        self._by_text: dict[str, list[_Note]] = {}
        for note in notes:
            self._by_text.setdefault(note[0], []).append(note)

    def of(self, word: HypothesisWord, now: float) -> float:
        """Return the mean share of a word over the steps in which it was open, with its share `now`."""
        total, steps = 0.0, 0
        for _, start, end, noted_steps, noted_total in reversed(self._by_text.get(word.text, ())):
            if start < word.end and word.start < end:
                total, steps = noted_total, noted_steps
                break
        return min((total + now) / (steps + 1), 1.0)


class AgreementShares:
    """The shares of words among some hypotheses."""

    def __init__(self, hypotheses: Iterable[tuple[Sequence[HypothesisWord], float]]) -> None:
        self._masses: list[float] = []
        self._having: dict[str, dict[tuple[int, int], list[int]]] = {}  # the hypotheses by text and time
        self._shares: dict[tuple[str, int, int], float] = {}
        for number, (words, mass) in enumerate(hypotheses):
            self._masses.append(mass)
            for word in words:
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
