"""Finds hotwords in a growing sequence of tokens, and computes the bonus that each token earns or gives back.

This is the automaton of Aho and Corasick, as sherpa-onnx uses it. A state stands for the longest end of the sequence
that is the beginning of a hotword. Each token of a match earns its bonus at once. A match that breaks off gives its
bonuses back, except for those of a shorter beginning that still matches. A complete hotword keeps its bonuses, and the
next token starts again at the root: so in a list with *New* and *New York*, the second one is never found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from streamer.base.text import is_spaceless
from streamer.engine.public.token_text import TokenText
from streamer.models.tokens import PieceModel

ROOT = 0
"""The state in which no hotword has begun."""


@dataclass
class _State:
    bonus: float = 0.0  # of the last token
    earned: float = 0.0  # the sum of the bonuses from the root to this state
    ends: bool = False  # a hotword is complete here
    fallback: int = ROOT  # the state of the longest shorter end of the same tokens
    complete: int | None = None  # this state or the nearest fallback in which a hotword is complete
    next: dict[int, int] = field(default_factory=dict)  # the next states by token


class HotwordAutomaton:
    """The hotwords of one stream."""

    def __init__(self, hotwords: Iterable[tuple[Sequence[int], float]]) -> None:
        """Each hotword has tokens, and a bonus for each of them. A shared beginning has the greatest bonus."""
        self._states = [_State()]
        for tokens, bonus in hotwords:
            self._add(tokens, bonus)
        self._link()

    def step(self, state: int, token: int) -> tuple[float, int]:
        """Return the bonus of this token after this state (negative if it gives more back), and the next state."""
        states = self._states
        target = self._target(state, token)
        earned = states[target].earned - states[state].earned
        complete = states[target].complete
        if complete is None:
            return earned, target
        return earned + states[complete].earned - states[target].earned, ROOT

    def continuations(self, state: int) -> dict[int, float]:
        """Return the tokens with which a match in this state goes on, and the bonus of each."""
        return {token: self._states[after].bonus for token, after in self._states[state].next.items()}

    def _add(self, tokens: Sequence[int], bonus: float) -> None:
        at = ROOT
        for token in tokens:
            state = self._states[at].next.setdefault(token, len(self._states))
            if state == len(self._states):
                self._states.append(_State())
            self._states[state].bonus = max(self._states[state].bonus, bonus)
            at = state
        self._states[at].ends = at != ROOT

    def _target(self, state: int, token: int) -> int:
        """Return the state for the longest end of the tokens so far and this one."""
        while token not in self._states[state].next:
            if state == ROOT:
                return ROOT
            state = self._states[state].fallback
        return self._states[state].next[token]

    def _link(self) -> None:
        """Set the fallbacks and the earned bonuses, from the beginnings of the hotwords to their ends."""
        waiting = [ROOT]
        for number in waiting:
            state = self._states[number]
            for token, follower in state.next.items():
                after = self._states[follower]
                after.earned = state.earned + after.bonus
                after.fallback = ROOT if number == ROOT else self._target(state.fallback, token)
                after.complete = follower if after.ends else self._states[after.fallback].complete
                waiting.append(follower)


# Divides a hotword into the tokens of a public model, as text was divided when the model was trained.

_SPACE: Final = b" "
_PENALTY: Final = 10.0  # how much worse than the worst piece a token is that is not among the pieces
_IMPOSSIBLE: Final = float("-inf")

Numbers = tuple[int, ...]


class PhraseTokens:
    """The tokens of one model, with their scores."""

    def __init__(self, tokens: Sequence[str], pieces: PieceModel | None) -> None:
        text = TokenText(tokens)
        self._in_bytes = text.in_bytes
        self._pairs = pieces is not None and pieces.pairs
        worst = min(pieces.scores.values()) - _PENALTY if pieces else -1.0
        self._tokens: dict[bytes, tuple[float, int]] = {}  # the score and number of each token
        letters = []
        for number, (name, spelled) in enumerate(zip(tokens, text.bytes, strict=True)):
            single = len(spelled) == 1 and name.startswith("<")  # a token for a byte is the last choice
            score = pieces.scores.get(name, worst) if pieces else worst
            if single:
                score = worst - 10 * _PENALTY
            if spelled and self._tokens.get(spelled, (_IMPOSSIBLE, 0))[0] < score:
                self._tokens[spelled] = score, number
            if not single:
                letters.append(spelled.decode("utf-8", "ignore"))
        self._longest = max(map(len, self._tokens), default=0)
        self._characters = frozenset("".join(letters))
        self._capitals = any(each.isupper() for each in self._characters)
        self._small = any(each.islower() for each in self._characters)

    def of(self, phrase: str) -> Numbers:
        """Return the tokens of this phrase. ValueError if the model has none for a part of it."""
        numbers: Numbers = ()
        for word in self._words(phrase):
            tokens = self._by_pairs(word) if self._pairs else self._by_scores(word)
            if tokens is None:
                raise ValueError(f"hotword {phrase!r}: the model has no tokens for {word!r}")
            numbers += tokens
        if not numbers:
            raise ValueError(f"hotword {phrase!r} has nothing that the model has tokens for")
        return numbers

    def _words(self, phrase: str) -> Iterator[str]:
        """Yield the words of a phrase as the model spells them."""
        text = unicodedata.normalize("NFC", phrase).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        if self._capitals != self._small:
            text = text.upper() if self._capitals else text.lower()
        word, kind = "", False
        for each in " ".join(text.split()) + " ":
            spaceless = is_spaceless(each)
            belongs = each != " " and (each in self._characters or each.isalnum() or unicodedata.combining(each) > 0)
            # Models with pieces of bytes were trained on text with spaces around such characters.
            if word and (not belongs or spaceless != kind or (spaceless and self._in_bytes)):
                yield word
                word = ""
            if belongs:
                word, kind = word + each, spaceless

    def _by_scores(self, word: str) -> Numbers | None:
        """Return the tokens with the greatest sum of scores. Of equal sums, the one with longer tokens first wins."""
        spelled = _SPACE + word.encode()
        best: list[tuple[float, int, int]] = [(_IMPOSSIBLE, 0, 0)] * len(spelled) + [(0.0, 0, 0)]
        for begin in range(len(spelled) - 1, -1, -1):
            for end in range(begin + 1, min(begin + self._longest, len(spelled)) + 1):
                score, number = self._tokens.get(spelled[begin:end], (_IMPOSSIBLE, 0))
                if score + best[end][0] >= best[begin][0] and score + best[end][0] > _IMPOSSIBLE:
                    best[begin] = score + best[end][0], end, number
        # No space stands before a character that is written without spaces, except where a text begins.
        at = 1 if is_spaceless(word[0]) and best[1][0] >= best[0][0] else 0
        if best[at][0] == _IMPOSSIBLE:
            return None
        numbers = []
        while at < len(spelled):
            _, at, number = best[at]
            numbers.append(number)
        return tuple(numbers)

    def _by_pairs(self, word: str) -> Numbers | None:
        """Join the best pair of neighbouring tokens until no pair makes a token. Return the tokens that remain."""
        if self._in_bytes:
            parts = [bytes([byte]) for byte in _SPACE + word.encode()]
        else:
            parts = [_SPACE, *(each.encode() for each in word)]
        while True:
            scores = [self._tokens.get(one + other, (_IMPOSSIBLE, 0))[0] for one, other in pairwise(parts)]
            at = max(range(len(scores)), key=scores.__getitem__, default=0)
            if not scores or scores[at] == _IMPOSSIBLE:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if is_spaceless(word[0]) and parts[0] == _SPACE:
            del parts[0]
        single = [
            part
            for whole in parts
            for part in ([whole] if whole in self._tokens else [bytes([byte]) for byte in whole])
        ]
        if not all(part in self._tokens for part in single):
            return None
        return tuple(self._tokens[part][1] for part in single)
