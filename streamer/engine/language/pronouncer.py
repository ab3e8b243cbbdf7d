"""Guesses the pronunciations of words that are not in the lexicon, once for each caller that asks for them.

The guesses for each caller are remembered separately. A caller that asks for many words does not displace the words of
others, and cannot find out from the response times which words others have asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.work.parts import Work

GUESSES = 3  # pronunciations kept for each word
MOST_WORDS = 20_000  # remembered for all callers together
MOST_CALLERS = 256
_BEAM = 8  # narrow, because a stream waits for the guesses
_TOGETHER = 8  # words in a batch: more would take less time in total, but one part of the work would take too long

Phones = tuple[str, ...]
Ways = Sequence[Phones]
"""The pronunciations of a word, best first; none if it cannot be pronounced."""


class Pronouncer:
    """Guesses pronunciations and remembers them."""

    def __init__(self, letters: LetterToSound) -> None:
        self._letters = letters
        self._memories = CallerMemories()

    def guess(self, words: Collection[str], caller: str) -> Work[dict[str, Ways]]:
        """The pronunciations of these words."""
        found: dict[str, Ways] = {}
        for word in words:
            remembered = self._memories.recall(caller, word)
            if remembered is not None:
                found[word] = remembered
        yield
        # Batches have words of about the same length, because a batch takes as long as its longest word.
        new = sorted((word for word in words if word not in found), key=lambda word: (len(word), word))
        for start in range(0, len(new), _TOGETHER):
            batch = new[start : start + _TOGETHER]
            scored = yield from self._letters.scoring(batch, _BEAM)
            for word, ways in zip(batch, scored, strict=True):
                found[word] = [phones for phones, _ in ways[:GUESSES]]
                self._memories.keep(caller, word, found[word])
            yield
        return found


class CallerMemories:
    """The guesses for each caller. At the limit, the caller with the most words loses its least recently used one."""

    def __init__(self, most_words: int = MOST_WORDS, most_callers: int = MOST_CALLERS) -> None:
        self._most_words, self._most_callers = most_words, most_callers
        self._callers: OrderedDict[str, OrderedDict[str, Ways]] = OrderedDict()  # the most recently used is last
        self._returned: set[str] = set()  # callers that have asked again for a word that they had asked for before
        self._words = 0

    def recall(self, caller: str, word: str) -> Ways | None:
        """The remembered pronunciations of this word; None if there are none."""
        theirs = self._callers.get(caller)
        if theirs is None or word not in theirs:
            return None
        self._callers.move_to_end(caller)
        self._returned.add(caller)
        theirs.move_to_end(word)
        return theirs[word]

    def keep(self, caller: str, word: str, ways: Ways) -> None:
        """Remember these pronunciations for the caller."""
        theirs = self._callers.setdefault(caller, OrderedDict())
        self._callers.move_to_end(caller)
        self._words += word not in theirs
        theirs[word] = ways
        if len(self._callers) > self._most_callers:
            self._forget(self._least_useful(caller))
        if self._words > self._most_words:
            most = max(self._callers.values(), key=len)
            most.popitem(last=False)
            self._words -= 1

    def _least_useful(self, newest: str) -> str:
        """The caller to forget: the least recently used one, but callers that never repeated a word come first."""
        others = [caller for caller in self._callers if caller != newest]
        return next((caller for caller in others if caller not in self._returned), others[0])

    def _forget(self, caller: str) -> None:
        self._words -= len(self._callers.pop(caller))
        self._returned.discard(caller)
