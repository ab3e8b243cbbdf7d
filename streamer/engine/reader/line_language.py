"""Says how likely the language models of the recogniser find other words in the place of some words of a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS
from streamer.engine.search.rescoring import Context, Rescorer

_WORDS_AFTER: Final = 3  # how many words after a difference are judged


class LineLanguage:
    """What the language models of the recogniser think of a line of words: the neural one, if there is one."""

    def __init__(self, language: LanguageModel, numbers: Mapping[str, int], rescorer: Rescorer | None) -> None:
        """`numbers`: the number of each word of the models."""
        self._language, self._numbers, self._rescorer = language, numbers, rescorer

    def gain(self, line: Sequence[str], first: int, last: int, others: Sequence[str]) -> float:
        """Return how much likelier a line is with other words in this place, as a natural log."""
        after = line[last : last + _WORDS_AFTER]
        ends = last + _WORDS_AFTER >= len(line)
        return self._score(line[:first], [*others, *after], ends) - self._score(
            line[:first], [*line[first:last], *after], ends
        )

    def _score(self, before: Sequence[str], words: Sequence[str], ends: bool) -> float:
        numbers = [self._number(word) for word in words] + [SENTENCE_END] * ends
        if not numbers:
            return 0.0
        context = Context(None, self._language.start)
        occurrences: list[tuple[Context, int]] = []
        for number in [*map(self._number, before), *numbers]:
            occurrences.append((context, number))
            context = Context(context, (context.last_two[1], number))
        scored = occurrences[-len(numbers) :]
        if self._rescorer is not None:
            return float(self._rescorer.score(scored).neural.sum())
        return float(self._language.score([context.last_two for context, _ in scored], numbers).sum())

    def _number(self, word: str) -> int:
        return self._numbers.get(word, OTHERS)
