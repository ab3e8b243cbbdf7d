"""The states of a graph in slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnxruntime
import pytest

from streamer.engine.public.sessions import new_session
from streamer.engine.public.states import SlotStates
from streamer.models.graph_writer import GraphWriter
from streamer.models.layout import StatePort
from streamer.models.onnx_file import ElementType, Port

SLOTS = 40


@pytest.fixture(scope="module")
def adder() -> tuple[onnxruntime.InferenceSession, str, list[StatePort]]:
    """A graph that adds a number to each state of a stream, its output, and its states: three have two shapes."""
    graph = GraphWriter()
    added = graph.input("added", ["N"])
    rows = graph.node("Unsqueeze", added, graph.numbers(1))
    whole = graph.node("Unsqueeze", graph.node("Cast", added, to=int(ElementType.INT64)), graph.numbers(0, 2))
    ports = []
    for name, kind, shape, axis, more in (
        ("first", ElementType.FLOAT, (1, 2), 0, rows),
        ("middle", ElementType.INT64, (2, 1, 3), 1, whole),
        ("other", ElementType.FLOAT, (1, 2), 0, rows),
    ):
        sizes: list[int | str] = [*shape[:axis], "N", *shape[axis + 1 :]]
        value = graph.node("Add", graph.input(name, sizes, kind), more)
        graph.output(value, sizes, kind)
        ports.append(StatePort(Port(name, kind, None), shape, axis, value))
    output = graph.node("Neg", added)
    graph.output(output, ["N"])
    return new_session(graph.content()), output, ports


Adder = tuple[onnxruntime.InferenceSession, str, list[StatePort]]
TYPES = [np.float32, np.int64, np.float32]


def add(states: SlotStates, adder: Adder, slots: list[int], numbers: list[int]) -> None:
    session, output, _ = adder
    given = np.array(numbers, np.float32)
    assert (states.compute(session, slots, {"added": given}, output) == -given).all()


def test_every_slot_keeps_its_own_states(adder: Adder) -> None:
    """Whichever slots are computed together, in whatever order, each has its own states since its last reset."""
    states = SlotStates(adder[2], TYPES, SLOTS)
    expected = np.zeros(SLOTS, int)
    random = np.random.default_rng(0)
    for _ in range(200):
        slots = random.choice(SLOTS, random.integers(1, SLOTS), replace=False)
        numbers = random.integers(1, 100, len(slots))
        add(states, adder, slots.tolist(), numbers.tolist())
        expected[slots] += numbers
        if random.random() < 0.3:
            cleared = random.choice(SLOTS, 2, replace=False)
            states.reset(cleared.tolist())
            expected[cleared] = 0
        assert (states["first"] == expected[:, None]).all()
        assert (states["middle"] == expected[None, :, None]).all()
        assert (states["other"] == expected[:, None]).all()
    first, middle, _ = states.copies()
    states.reset(list(range(SLOTS)))
    assert (first[:, 1] == expected).all()
    assert (middle[1, :, 2] == expected).all()
    assert not states["middle"].any()


def test_an_output_stays_as_it_was(adder: Adder) -> None:
    """What a batch gave does not change when the next one of its size is computed."""
    session, output, ports = adder
    states = SlotStates(ports, TYPES, SLOTS)
    given = [np.full(3, number, np.float32) for number in range(3)]
    results = [states.compute(session, [1, 2, 3], {"added": numbers}, output) for numbers in given]
    assert [result.tolist() for result in results] == [[-number] * 3 for number in range(3)]


@dataclass
class Interrupted:
    """A session in which something else happens before a batch is computed."""

    session: onnxruntime.InferenceSession
    meanwhile: Callable[[], None]

    def io_binding(self) -> Any:
        return self.session.io_binding()

    def run_with_iobinding(self, binding: Any) -> None:
        self.meanwhile()
        self.session.run_with_iobinding(binding)


def test_batches_at_the_same_time(adder: Adder) -> None:
    """While a batch is computed, another one of its size may be, in other slots. Later batches use their memory."""
    session, output, ports = adder
    states = SlotStates(ports, TYPES, SLOTS)
    slow = cast("onnxruntime.InferenceSession", Interrupted(session, lambda: add(states, adder, [3, 4], [30, 40])))
    for _ in range(2):
        add(states, (slow, output, ports), [1, 2], [10, 20])
    add(states, adder, [5], [50])
    assert states["first"][:6, 0].tolist() == [0, 20, 40, 60, 80, 50]
    assert len(states._unused) == 2
