"""Finds hotwords in a growing sequence of tokens, and says which bonus each token earns or gives back.

This is the automaton of Aho and Corasick, as sherpa-onnx uses it: a state is the longest end of the sequence with which
a hotword begins. Each token of a match earns its bonus at once. A match that breaks off gives its bonuses back, except
for those of a shorter beginning that still fits. A hotword that is complete keeps its bonuses, and the next token
begins anew: so in a list with *New* and *New York*, the second one is never found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

ROOT = 0
"""The state in which no hotword has begun."""


@dataclass
class _State:
    bonus: float = 0.0  # of its last token
    earned: float = 0.0  # from the root to here
    ends: bool = False  # a hotword is complete here
    fallback: int = ROOT  # the state of the longest shorter end of the same tokens
    complete: int | None = None  # itself or the nearest fallback in which a hotword is complete
    next: dict[int, int] = field(default_factory=dict)  # by token


class HotwordAutomaton:
    """The hotwords of one stream."""

    def __init__(self, hotwords: Iterable[tuple[Sequence[int], float]]) -> None:
        """Each hotword is its tokens, and the bonus of each of them. A shared beginning has the greatest bonus."""
        self._states = [_State()]
        for tokens, bonus in hotwords:
            self._add(tokens, bonus)
        self._link()

    def step(self, state: int, token: int) -> tuple[float, int]:
        """What this token earns after this state (less than 0 if it gives back more), and the state after it."""
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
        """The state of the longest end of the tokens so far and this one."""
        while token not in self._states[state].next:
            if state == ROOT:
                return ROOT
            state = self._states[state].fallback
        return self._states[state].next[token]

    def _link(self) -> None:
        """Find fallbacks and what is earned, from the beginnings of the hotwords to their ends."""
        waiting = [ROOT]
        for number in waiting:
            state = self._states[number]
            for token, follower in state.next.items():
                after = self._states[follower]
                after.earned = state.earned + after.bonus
                after.fallback = ROOT if number == ROOT else self._target(state.fallback, token)
                after.complete = follower if after.ends else self._states[after.fallback].complete
                waiting.append(follower)
