"""The states of a graph in slots. They are copied only when other slots are computed than in the last batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import DTypeLike, NDArray

from streamer.models.layout import StatePort

State = NDArray[Any]


class SlotStates(dict[str, State]):
    """Arrays for all slots by name. The axes of arrays of the graph keep their order.

    To copy the states of a stream out of its slot and back takes up to a tenth of the time of a step. So if the slots
    are the same as in the last batch, the graph gets the states that it returned for that batch. Until other slots are
    computed, or `settle` is called, the arrays of the graph are not current in these slots.
    """

    def __init__(self, ports: Sequence[StatePort], types: Sequence[DTypeLike], slots: int) -> None:
        super().__init__()
        self._ports = ports
        self._batch: tuple[list[int], list[State]] | None = None  # the slots of the last batch, and their states
        for port, type_ in zip(ports, types, strict=True):
            shape = (*port.shape[: port.axis], slots, *port.shape[port.axis + 1 :])
            self[port.input.name] = np.zeros(shape, type_)

    def compute(
        self, session: onnxruntime.InferenceSession, slots: list[int], feeds: Mapping[str, State], output: str
    ) -> State:
        """Compute these slots from these feeds and their states. Return the output, and keep the new states."""
        frames, *states = session.run([output, *(port.output for port in self._ports)], {**feeds, **self.batch(slots)})
        self.replace(slots, states)
        return np.asarray(frames)

    def batch(self, slots: list[int]) -> dict[str, State]:
        """Return the states of these slots, for the inputs of the graph."""
        if self._batch is None or self._batch[0] != slots:
            self.settle()
            self._batch = slots, [np.take(self[port.input.name], slots, axis=port.axis) for port in self._ports]
        return {port.input.name: value for port, value in zip(self._ports, self._batch[1], strict=True)}

    def replace(self, slots: list[int], values: Sequence[State]) -> None:
        """Keep the new states of these slots, which are the slots of the batch."""
        self._batch = slots, list(values)

    def settle(self) -> None:
        """Put the last batch back into its slots."""
        if self._batch is None:
            return
        slots, values = self._batch
        self._batch = None
        for port, value in zip(self._ports, values, strict=True):
            self[port.input.name][_at(port, slots)] = value

    def copies(self) -> list[State]:
        """Return copies of the states of the graph in all slots."""
        self.settle()
        return [self[port.input.name].copy() for port in self._ports]

    def reset(self, slots: list[int]) -> None:
        """Clear the states of the graph in these slots."""
        places = () if self._batch is None else [place for place, slot in enumerate(self._batch[0]) if slot in slots]
        for number, port in enumerate(self._ports):
            self[port.input.name][_at(port, slots)] = 0
            if self._batch is not None and places:
                self._batch[1][number][_at(port, list(places))] = 0


def _at(port: StatePort, slots: list[int]) -> tuple[slice | list[int], ...]:
    """Return the index of these slots in the state of a port."""
    return (*(slice(None) for _ in range(port.axis)), slots)
