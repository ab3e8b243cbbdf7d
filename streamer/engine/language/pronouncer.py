"""The pronunciations of words that the lexicon lacks: guessed once for each caller that asks for them.

Every caller has a memory of its own: nobody can make another's words be forgotten by asking for many, nor find out from
the time that it takes which words another has asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.work import Work

GUESSES = 3  # pronunciations of a word
MOST_WORDS = 20_000  # that are remembered, of all callers together
MOST_CALLERS = 256
_BEAM = 8  # narrow, because their stream waits for it
_TOGETHER = 8  # words: more would be quicker in all, but a part of the work would take too long

Phones = tuple[str, ...]
Ways = Sequence[Phones]
"""The pronunciations of a word, best first; none if it cannot be pronounced."""


class Pronouncer:
    """Guesses pronunciations, and remembers them."""

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
        # Words of about the same length together, because the shorter ones of a batch wait for the longest.
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
    """What was found out for each caller. Where there is too much, the caller with the most loses its oldest."""

    def __init__(self, most_words: int = MOST_WORDS, most_callers: int = MOST_CALLERS) -> None:
        self._most_words, self._most_callers = most_words, most_callers
        self._callers: OrderedDict[str, OrderedDict[str, Ways]] = OrderedDict()  # the last to be used is the last
        self._returned: set[str] = set()  # callers that have used again what was kept for them
        self._words = 0

    def recall(self, caller: str, word: str) -> Ways | None:
        """What is remembered of this word."""
        theirs = self._callers.get(caller)
        if theirs is None or word not in theirs:
            return None
        self._callers.move_to_end(caller)
        self._returned.add(caller)
        theirs.move_to_end(word)
        return theirs[word]

    def keep(self, caller: str, word: str, ways: Ways) -> None:
        """Remember this for the caller."""
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
        """A caller that came once rather than one that came again, and of those the one that is away for longest."""
        others = [caller for caller in self._callers if caller != newest]
        return next((caller for caller in others if caller not in self._returned), others[0])

    def _forget(self, caller: str) -> None:
        self._words -= len(self._callers.pop(caller))
        self._returned.discard(caller)
