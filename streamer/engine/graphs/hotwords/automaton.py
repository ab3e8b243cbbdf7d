"""Finds hotwords in a growing sequence of tokens, and computes the bonus that each token earns or gives back.

This is the automaton of Aho and Corasick, as sherpa-onnx uses it. A state stands for the longest end of the sequence
that is the beginning of a hotword. Each token of a match earns its bonus at once. A match that breaks off gives its
bonuses back, except for those of a shorter beginning that still matches. A complete hotword keeps its bonuses, and the
next token starts again at the root: so in a list with *New* and *New York*, the second one is never found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
