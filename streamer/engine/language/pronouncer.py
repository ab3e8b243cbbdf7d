"""Guesses the pronunciations of words that are not in the lexicon, once for each caller that needs them.

The guesses are remembered separately for each caller. So a caller with many words does not displace the words of other
callers, and cannot infer from response times which words they have used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.work.parts import Work

GUESSES = 3  # the most pronunciations of a word
MOST_WORDS = 20_000  # the most words that are remembered for all callers together
MOST_CALLERS = 256
_BEAM = 8  # narrow, because a stream waits for the guesses
_TOGETHER = 8  # words in a batch: more would save time in total, but one part of the work would take too long

Phones = tuple[str, ...]
Ways = Sequence[Phones]
"""The pronunciations of a word, best first; none if it cannot be pronounced."""


class Pronouncer:
    """Guesses pronunciations and remembers them."""

    def __init__(self, letters: LetterToSound) -> None:
        self._letters = letters
        self._memories = CallerMemories()

    def guess(self, words: Collection[str], caller: str) -> Work[dict[str, Ways]]:
        """Guess the pronunciations of these words, or recall them."""
        pronunciations: dict[str, Ways] = {}
        for word in words:
            memory = self._memories.recall(caller, word)
            if memory is not None:
                pronunciations[word] = memory
        yield
        # The words of a batch have similar lengths, because a batch takes as long as its longest word.
        new = sorted((word for word in words if word not in pronunciations), key=lambda word: (len(word), word))
        for start in range(0, len(new), _TOGETHER):
            batch = new[start : start + _TOGETHER]
            scored = yield from self._letters.score_in_parts(batch, _BEAM)
            for word, ways in zip(batch, scored, strict=True):
                pronunciations[word] = [phones for phones, _ in ways[:GUESSES]]
                self._memories.keep(caller, word, pronunciations[word])
            yield
        return pronunciations


class CallerMemories:
    """The guesses for each caller. At the limit, the caller with the most words loses its least recently used word."""

    def __init__(self, most_words: int = MOST_WORDS, most_callers: int = MOST_CALLERS) -> None:
        self._most_words, self._most_callers = most_words, most_callers
        self._callers: OrderedDict[str, OrderedDict[str, Ways]] = OrderedDict()  # the most recently used is last
        self._returned: set[str] = set()  # the callers that have used a word again
        self._words = 0

    def recall(self, caller: str, word: str) -> Ways | None:
        """Return the remembered pronunciations of this word; None if there are none."""
        own_words = self._callers.get(caller)
        if own_words is None or word not in own_words:
            return None
        self._callers.move_to_end(caller)
        self._returned.add(caller)
        own_words.move_to_end(word)
        return own_words[word]

    def keep(self, caller: str, word: str, ways: Ways) -> None:
        """Remember these pronunciations for the caller."""
        own_words = self._callers.setdefault(caller, OrderedDict())
        self._callers.move_to_end(caller)
        self._words += word not in own_words
        own_words[word] = ways
        if len(self._callers) > self._most_callers:
            self._forget(self._least_useful(caller))
        if self._words > self._most_words:
            most = max(self._callers.values(), key=len)
            most.popitem(last=False)
            self._words -= 1

    def _least_useful(self, newest: str) -> str:
        """Return the caller to forget: the least recent one that never repeated a word, else the least recent one."""
        others = [caller for caller in self._callers if caller != newest]
        return next((caller for caller in others if caller not in self._returned), others[0])

    def _forget(self, caller: str) -> None:
        self._words -= len(self._callers.pop(caller))
        self._returned.discard(caller)
