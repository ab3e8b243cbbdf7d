"""A state machine: one state of an enum at a time, which changes only as its table of transitions allows.

    ALLOWED = {Light.RED: (Light.GREEN,), Light.GREEN: (Light.RED,)}

    light = States("light", Light.RED, ALLOWED)
    light.become(Light.GREEN)
    light.now  # Light.GREEN

What is not allowed raises StateError. Every change is a line at debug level.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Generic, TypeVar

_log = logging.getLogger("streamer.bridge")

S = TypeVar("S", bound=Enum)


class StateError(Exception):
    """Something happened that the present state does not allow; names the states expected and the state met."""

    def __init__(self, what: str, expected: Iterable[str], met: str) -> None:
        super().__init__(f"{what}: expected {' or '.join(expected)}, met {met}")


class States(Generic[S]):
    """The present state, and the way to the next one."""

    __slots__ = ("_allowed", "_fields", "_machine", "now")

    def __init__(self, machine: str, first: S, allowed: Mapping[S, Collection[S]], **fields: object) -> None:
        """`machine`: what it is called in errors and logs; `fields` go into each line of the log.

        `allowed`: for every state those that may follow it. A state without any is the end.
        """
        self.now = first
        self._machine = machine
        self._allowed = allowed
        self._fields = fields

    def become(self, state: S) -> S:
        """From now on it is in this state; returns the one before. StateError if it may not follow."""
        before = self.now
        if state not in self._allowed[before]:
            former = [each.value for each, following in self._allowed.items() if state in following]
            raise StateError(f"{self._machine} to become {state.value}", former, before.value)
        self.now = state
        if _log.isEnabledFor(logging.DEBUG):
            fields = {**self._fields, "before": before.value, "now": state.value}
            _log.debug(self._machine, extra={"fields": fields})  # as telemetry/logs.py writes them
        return before

    def expect(self, *states: S) -> None:
        """StateError unless it is in one of these."""
        if self.now not in states:
            raise StateError(self._machine, [state.value for state in states], self.now.value)
