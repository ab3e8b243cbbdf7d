"""A state machine: the changes that its table allows, those that it refuses, and its log lines."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import product
from typing import Any

import pytest

from streamer.bridge import driver
from streamer.bridge.session import backlog, replay, session, stream
from streamer.bridge.states import StateError, States
from streamer.bridge.telemetry.logs import Text
from streamer.bridge.upstreams import admission, instance_count, pool, upstream
from tests.project import DOCS

ARCHITECTURE = DOCS / "explanation" / "architecture.md"


class Light(Enum):
    RED = "red"
    GREEN = "green"
    OFF = "off"


ALLOWED = {Light.RED: (Light.GREEN, Light.OFF), Light.GREEN: (Light.RED, Light.OFF), Light.OFF: ()}


def test_an_allowed_change() -> None:
    """The change is made, and the former state returned."""
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
    """The error names the expected states and the present one; the state does not change."""
    light = States("light", first, ALLOWED)
    with pytest.raises(StateError) as caught:
        light.become(refused)
    assert str(caught.value) == says
    assert light.now is first


def test_what_is_expected() -> None:
    """An error is raised if the state is not one of those expected."""
    light = States("light", Light.RED, ALLOWED)
    light.expect(Light.RED, Light.GREEN)
    with pytest.raises(StateError, match="light: expected green or off, met red"):
        light.expect(Light.GREEN, Light.OFF)


def test_a_change_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A change gives one line at debug level, with the machine's fields, and nothing at other levels."""
    light = States("light", Light.RED, ALLOWED, street="B 96")
    with caplog.at_level(logging.INFO, "streamer"):
        light.become(Light.GREEN)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "streamer"):
        light.become(Light.OFF)
    [record] = caplog.records
    assert Text().format(record).partition(" ")[2] == 'debug light street="B 96" before=green now=off'


TABLES: dict[str, tuple[Mapping[Any, Collection[Any]], Enum]] = {
    "session": (session.TRANSITIONS, session.State.OPENING),
    "client": (session.PRESENCE_TRANSITIONS, session.ClientState.CONNECTED),
    "driver": (driver.TRANSITIONS, driver.DriverState.OPENING),
    "sequence": (stream.SEQUENCE_TRANSITIONS, stream.SequenceState.NEW),
    "supply": (stream.SUPPLY_TRANSITIONS, stream.Supply.FLOWING),
    "backlog": (backlog.TRANSITIONS, backlog.Level.LOW),
    "replay": (replay.TRANSITIONS, replay.Hearing.FIRST),
    "admission": (admission.TRANSITIONS, admission.AdmissionState.STARTING),
    "model": (pool.TRANSITIONS, pool.ModelOrigin.GIVEN),
    "reservation": (pool.RESERVATION_TRANSITIONS, pool.SlotState.RESERVED),
    "instances": (instance_count.TRANSITIONS, instance_count.CountState.STEADY),
    "health": (upstream.TRANSITIONS, upstream.Health.AWAY),
}


@pytest.mark.parametrize("machine", TABLES)
def test_every_state_has_its_place(machine: str) -> None:
    """A table has every state of its enum; each can be reached, except first states; none follows itself."""
    table, first = TABLES[machine]
    assert list(table) == list(type(first))
    reached, new = {first}, {first}
    while new := {following for state in new for following in table[state]} - reached:
        reached |= new
    assert set(table) - reached <= {driver.DriverState.BARRED}
    assert not any(state in following for state, following in table.items())


@pytest.mark.parametrize("machine", TABLES)
def test_only_what_the_table_says(machine: str) -> None:
    """Every change is allowed if the table has it, and otherwise refused with both names."""
    table, _ = TABLES[machine]
    for state, following in product(table, table):
        states = States(machine, state, table)
        if following in table[state]:
            assert states.become(following) is state
        else:
            with pytest.raises(StateError, match=f"{machine} to become {following.value}: .* met {state.value}"):
                states.become(following)


@pytest.mark.parametrize("machine", TABLES)
def test_the_tables_of_the_documents(machine: str) -> None:
    """docs/explanation/architecture.md has each state with those that may follow it."""
    table, _ = TABLES[machine]
    rows = re.findall(r"^\| (?:`(\w+)`.*?)?\| `([\w ]+)`[^|]*\| ([^|]*?) *\|$", ARCHITECTURE.read_text(), re.MULTILINE)
    written: dict[str, dict[str, set[str]]] = {}
    name = ""
    for named, state, following in rows:
        name = named or name
        written.setdefault(name, {})[state] = set(re.findall("`([^`]+)`", following))
    assert written[machine] == {state.value: {each.value for each in following} for state, following in table.items()}
