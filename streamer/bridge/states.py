"""A state machine: its state is a member of an enum, and changes only as a table of transitions allows.

    ALLOWED = {Light.RED: (Light.GREEN,), Light.GREEN: (Light.RED,)}

    light = States("light", Light.RED, ALLOWED)
    light.become(Light.GREEN)
    light.now  # Light.GREEN

A change that is not allowed raises StateError. Every change is logged at debug level.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Generic, TypeVar

from streamer.base.text import either

_log = logging.getLogger("streamer.bridge")

S = TypeVar("S", bound=Enum)


class StateError(Exception):
    """The present state does not allow an action. The message names the expected states and the present one."""

    def __init__(self, action: str, expected: Iterable[str], present: str) -> None:
        super().__init__(f"{action}: expected {either(expected)}, met {present}")


class States(Generic[S]):
    """The present state, and the method that changes it."""

    __slots__ = ("_allowed", "_fields", "_machine", "now")

    def __init__(self, machine: str, first: S, allowed: Mapping[S, Collection[S]], **fields: object) -> None:
        """`machine`: its name in errors and logs. `allowed`: for every state, the states that may follow it.

        `fields` are added to each log line.
        """
        self.now = first
        self._machine = machine
        self._allowed = allowed
        self._fields = fields

    def become(self, state: S) -> S:
        """Change to this state and return the former one. Raise StateError if the table does not allow the change."""
        before = self.now
        if state not in self._allowed[before]:
            former = [each.value for each, following in self._allowed.items() if state in following]
            raise StateError(f"{self._machine} to become {state.value}", former, before.value)
        self.now = state
        if _log.isEnabledFor(logging.DEBUG):
            fields = {**self._fields, "before": before.value, "now": state.value}
            _log.debug(self._machine, extra={"fields": fields})  # in the form that bridge/telemetry/logs.py expects
        return before

    def expect(self, *states: S) -> None:
        """Raise StateError unless the present state is one of these."""
        if self.now not in states:
            raise StateError(self._machine, [state.value for state in states], self.now.value)
