"""Says how likely the language models of the recogniser find other words in the place of some words of a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS
from streamer.engine.search.rescoring import Context, Rescorer, WordInContext

_WORDS_AFTER: Final = 3  # how many words after a difference are judged


class LineLanguage:
    """What the language models of the recogniser think of words: the neural one, if there is one."""

    def __init__(self, language: LanguageModel, numbers: Mapping[str, int], rescorer: Rescorer | None) -> None:
        """`numbers`: the number of each word of the models."""
        self._language, self._numbers, self._rescorer = language, numbers, rescorer

    def line(self, words: Sequence[str]) -> LineOfWords:
        """Return a line of words, whose parts can be compared with others."""
        return LineOfWords(words, self)

    def start(self) -> Context:
        """Return the start of a line."""
        return Context(None, self._language.start)

    def numbers(self, words: Sequence[str]) -> list[int]:
        """Return the numbers of these words in the models."""
        return [self._numbers.get(word, OTHERS) for word in words]

    def scores(self, words: Sequence[WordInContext]) -> list[float]:
        """Return the natural log of the probability of each of these words, of which there is at least one."""
        if self._rescorer is not None:
            return [float(score) for score in self._rescorer.score(words).neural]
        contexts, numbers = zip(*((context.last_two, number) for context, number in words), strict=True)
        return [float(score) for score in self._language.score(contexts, numbers)]


class LineOfWords:
    """A line, and the contexts of its words. The neural model reads each of them once, whatever is asked."""

    def __init__(self, words: Sequence[str], language: LineLanguage) -> None:
        self._language, self._numbers = language, language.numbers(words)
        self._contexts = [language.start()]
        for number in self._numbers:
            self._contexts.append(_after(self._contexts[-1], number))

    def gain(self, first: int, last: int, others: Sequence[str]) -> float:
        """Return how much likelier the line is with other words in this place, as a natural log."""
        end = last + _WORDS_AFTER
        after = self._numbers[last:end] + [SENTENCE_END] * (end >= len(self._numbers))
        own = list(zip(self._contexts[first:], self._numbers[first:last] + after, strict=False))
        new: list[WordInContext] = []
        context = self._contexts[first]
        for number in [*self._language.numbers(others), *after]:
            new.append((context, number))
            context = _after(context, number)
        scores = self._language.scores([*new, *own])
        return sum(scores[: len(new)]) - sum(scores[len(new) :])


def _after(context: Context, number: int) -> Context:
    return Context(context, (context.last_two[1], number))
