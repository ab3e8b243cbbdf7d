"""A state machine by its table: what may follow, what may not, and what the log says."""

from __future__ import annotations

import logging
from enum import Enum

import pytest

from streamer.bridge.states import StateError, States
from streamer.bridge.telemetry.logs import Text


class Light(Enum):
    RED = "red"
    GREEN = "green"
    OFF = "off"


ALLOWED = {Light.RED: (Light.GREEN, Light.OFF), Light.GREEN: (Light.RED, Light.OFF), Light.OFF: ()}


def test_an_allowed_change() -> None:
    """It is made, and the state before is told."""
    light = States("light", Light.RED, ALLOWED)
    assert light.become(Light.GREEN) is Light.RED
    assert light.now is Light.GREEN


@pytest.mark.parametrize(
    ("first", "refused", "says"),
    [
        (Light.RED, Light.RED, "light to become red: expected green, met red"),
        (Light.OFF, Light.GREEN, "light to become green: expected red, met off"),
        (Light.OFF, Light.OFF, "light to become off: expected red or green, met off"),
    ],
)
def test_a_change_that_is_refused(first: Light, refused: Light, says: str) -> None:
    """The error names the states that were expected and the one that was met; nothing has changed."""
    light = States("light", first, ALLOWED)
    with pytest.raises(StateError) as caught:
        light.become(refused)
    assert str(caught.value) == says
    assert light.now is first


def test_what_is_expected() -> None:
    """Something that only some states allow says so."""
    light = States("light", Light.RED, ALLOWED)
    light.expect(Light.RED, Light.GREEN)
    with pytest.raises(StateError, match="light: expected green or off, met red"):
        light.expect(Light.GREEN, Light.OFF)


def test_a_change_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line at debug level, with the fields of the machine; nothing is written at other levels."""
    light = States("light", Light.RED, ALLOWED, street="B 96")
    with caplog.at_level(logging.INFO, "streamer"):
        light.become(Light.GREEN)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "streamer"):
        light.become(Light.OFF)
    [record] = caplog.records
    assert Text().format(record).partition(" ")[2] == 'debug light street="B 96" before=green now=off'
