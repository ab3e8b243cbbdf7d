"""Measures hotwords: the rare words that they recover, their false insertions, and the errors in other words.

A word of the references is rare if the lexicon does not have it, or if the language model hardly expects it. Each
utterance gets its own rare words as hotwords, and some distractors: rare words that are not said in it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor

from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.word_errors import pair_words
from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.rescoring import Rescorer
from streamer.engine.search.search import BeamOptions, Hotword
from streamer.engine.waiting import finish
from workshop.acoustic import units
from workshop.search.trials import HEAD, STEP_FRAMES, EmittedUtterance, whole_steps

if TYPE_CHECKING:
    from streamer.commands.accuracy.engine_runner import EngineRunner

STREAMS = 32
SHORTEST = 4  # letters of a rare word
POOL = 500  # rare words of the language model among the distractors
ABOUT = 1.01
TRIED_BONUSES, TRIED_FLOORS = (4.0, 5.5, 7.0, 8.5), (-10.0, -13.0)


class Spoken(Protocol):
    """An utterance with its reference."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def words(self) -> Sequence[str]:
        """The words of the reference."""


S = TypeVar("S", bound=Spoken)
Recognise = Callable[[Sequence[S], Sequence[Sequence[str]]], Sequence[Sequence[str]]]
"""Recognises each utterance with its hotwords, and returns the words of each."""


@dataclass
class Language:
    """The known words, with their probabilities and pronunciations."""

    lexicon: Lexicon
    model: LanguageModel
    letters: LetterToSound
    rescorer: Rescorer | None = None

    @classmethod
    def load(cls, bundle: Path) -> Language:
        """Load the language model and the lexicon of a bundle."""
        model = LanguageModel.load(bundle / LANGUAGE_FILE)
        return cls(
            Lexicon.load(bundle / LEXICON_FILE),
            model,
            LetterToSound.load(bundle / LETTERS_FILE),
            load_rescorer(bundle, model),
        )

    def rare(self, spoken: Sequence[Spoken], most: float) -> tuple[set[str], list[str]]:
        """Return the rare words of the references, and the same with some rare words of the language model."""
        spelled = set(self.lexicon.words.tolist())
        numbers = {word: index for index, word in enumerate(self.model.words)}
        chances = self.model.unigrams.tolist()

        def is_rare(word: str) -> bool:
            index = numbers.get(word)
            if len(word) < SHORTEST or not word.isalpha():
                return False
            return index not in spelled or index is None or chances[index] < math.log(most)

        spoken_words = {word for one in spoken for word in one.words if is_rare(word)}
        others = sorted(word for word in self.model.words if is_rare(word) and word not in spoken_words)
        return spoken_words, sorted(spoken_words) + random.Random(0).sample(others, min(POOL, len(others)))


@dataclass
class HotwordCounts:
    """Sums over utterances."""

    said: int = 0  # rare words of the references
    recognised: int = 0  # those that were recognised
    inserted: int = 0  # hotwords that were inserted but not said
    others: int = 0  # all other words of the references
    errors: int = 0  # errors in other words, and other insertions

    def row(self) -> str:
        """Return a line of the table."""
        recall = f"{100 * self.recognised / self.said:5.1f}" if self.said else "    -"
        words = self.said + self.others
        return (
            f"{self.said:4d} | {recall} | {self.inserted:4d} | {1000 * self.inserted / max(words, 1):5.2f} | "
            f"{100 * self.errors / max(self.others, 1):5.1f}"
        )


def judged(
    spoken: Sequence[Spoken], hypotheses: Sequence[Sequence[str]], hotwords: Sequence[Sequence[str]]
) -> HotwordCounts:
    """Compare the recognised words with the reference. Rare words are counted separately."""
    result = HotwordCounts()
    for one, words, phrases in zip(spoken, hypotheses, hotwords, strict=True):
        own_hotwords = set(phrases)
        extra = Counter(word for word in words if word in own_hotwords)
        extra.subtract(word for word in one.words if word in own_hotwords)
        result.inserted += sum(max(count, 0) for count in extra.values())
        for pair in pair_words(one.words, words):
            reference = one.words[pair.reference] if pair.reference is not None else None
            hypothesis = words[pair.hypothesis] if pair.hypothesis is not None else None
            if reference in own_hotwords:
                result.said += 1
                result.recognised += reference == hypothesis
            else:
                result.others += reference is not None
                result.errors += reference != hypothesis
    return result


def recognised(
    spoken: Sequence[EmittedUtterance], hotwords: Sequence[Sequence[str]], language: Language, options: BeamOptions
) -> list[list[str]]:
    """Recognise every utterance with its hotwords, STREAMS utterances at a time."""
    search = BeamSearch(
        language.lexicon,
        language.model,
        units.PHONE_UNITS,
        STREAMS,
        options,
        letters=language.letters,
        rescorer=language.rescorer,
    )
    texts: dict[int, list[str]] = {}
    waiting = sorted(range(len(spoken)), key=lambda number: -len(spoken[number].emissions))[::-1]
    running: dict[int, tuple[int, list[Tensor]]] = {}
    while waiting or running:
        for slot in range(STREAMS):
            if slot not in running and waiting:
                number = waiting.pop()
                finish(search.prepare(slot, [Hotword(word) for word in hotwords[number]], 0))
                search.reset([slot])
                running[slot] = number, list(torch.split(whole_steps(spoken[number].emissions), STEP_FRAMES))[::-1]
        search.advance(list(running), {HEAD: torch.stack([steps.pop() for _, steps in running.values()])})
        for slot, (number, steps) in list(running.items()):
            if not steps:
                texts[number] = [word.text for word in search.finish([slot])[0].words]
                del running[slot]
    return [texts[number] for number in range(len(spoken))]


def hotword_lists(spoken: Sequence[Spoken], rare: set[str], pool: Sequence[str], distractors: int) -> list[list[str]]:
    """Return the hotwords of each utterance: its rare words, and this many distractors, which are always the same."""
    lists = []
    for one in spoken:
        own = sorted(rare & set(one.words))
        others = [word for word in pool if word not in one.words]
        lists.append(own + random.Random(one.name).sample(others, distractors))
    return lists


def tuned(
    spoken: Sequence[EmittedUtterance],
    rare: set[str],
    pool: Sequence[str],
    language: Language,
    start: BeamOptions,
    tell: Callable[[str], None],
) -> BeamOptions:
    """Return the best bonus and floor: the fewest false insertions among those with about the fewest errors in total.

    As many utterances without rare words are used as with rare words. The sum of all errors changes little if both the
    found words and the false insertions grow.
    """
    having = [one for one in spoken if rare & set(one.words)]
    spoken = having + [one for one in spoken if not rare & set(one.words)][: len(having)]
    hotwords = hotword_lists(spoken, rare, pool, distractors=100)
    tried: list[tuple[int, int, BeamOptions]] = []
    for bonus, floor in itertools.product(TRIED_BONUSES, TRIED_FLOORS):
        trial = replace(start, hotword_bonus=bonus, hotword_floor=floor)
        hypotheses = recognised(spoken, hotwords, language, trial)
        own = hotword_lists(spoken, rare, pool, distractors=0)
        result = replace(judged(spoken, hypotheses, own), inserted=judged(spoken, hypotheses, hotwords).inserted)
        wrong = result.errors + result.said - result.recognised
        tell(f"bonus {bonus:4.1f}, floor {floor:5.1f}: {wrong} words wrong | {result.row()}")
        tried.append((wrong, result.inserted, trial))
    most = min(wrong for wrong, _, _ in tried) * ABOUT
    return min((one for one in tried if one[0] <= most), key=lambda one: one[1::-1])[2]


def recognised_again(runner: EngineRunner) -> Recognise[Utterance]:
    """Return what recognises recordings from the first sample to the last, with a second pass or a reader."""

    def recognise(spoken: Sequence[Utterance], hotwords: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        run = runner.run(spoken, lambda _utterance, _seconds: None, hotwords)
        return [result.words for result in run.results]

    return recognise


def rows(
    spoken: Sequence[S],
    rare: set[str],
    pool: Sequence[str],
    recognise: Recognise[S],
    numbers: Sequence[int] = (0, 10, 100),
) -> Iterator[str]:
    """Yield the table: utterances with rare words, without and with hotwords, and then the other utterances.

    `numbers`: how many distractors there are in each of the rows with hotwords.
    """
    yield "hotwords | utterances | rare words said | recall % | false insertions | in 1000 words | other words wrong %"
    having = [one for one in spoken if rare & set(one.words)]
    own = hotword_lists(having, rare, pool, 0)
    plain = recognise(having, [[]] * len(having))
    yield f"none                  | {len(having)} | {judged(having, plain, own).row()}"
    for distractors in numbers:
        hotwords = hotword_lists(having, rare, pool, distractors)
        hypotheses = recognise(having, hotwords)
        result = replace(judged(having, hypotheses, own), inserted=judged(having, hypotheses, hotwords).inserted)
        yield f"own, {distractors:3d} distractors  | {len(having)} | {result.row()}"
    without = [one for one in spoken if not rare & set(one.words)]
    most = max(numbers)
    hotwords = hotword_lists(without, rare, pool, most)
    for name, phrases in (("none, none said", [[]] * len(without)), (f"{most}, none said", hotwords)):
        hypotheses = recognise(without, phrases)
        yield f"{name:21s} | {len(without)} | {judged(without, hypotheses, hotwords).row()}"
