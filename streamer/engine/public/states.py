"""The states of a graph in slots. For each batch they are copied to where the graph reads them, and back from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import DTypeLike, NDArray

from streamer.models.layout import StatePort

State = NDArray[Any]

_ALIGNMENT: Final = 64  # bytes
_FEWEST: Final = 8  # streams for which there is memory from the first batch on


class SlotStates(dict[str, State]):
    """Arrays for all slots by name. The axes of arrays of the graph keep their order.

    All states of a slot lie side by side, so that a batch finds them in few places of the memory. The graph reads and
    writes the memory of a batch directly. Several batches may be computed at a time, each with other slots: each has
    its own memory.
    """

    def __init__(self, ports: Sequence[StatePort], types: Sequence[DTypeLike], slots: int) -> None:
        super().__init__()
        self._ports = ports
        self._blocks = _blocks(ports, [np.dtype(type_) for type_ in types])
        self._records = np.zeros((slots, _size(self._blocks, 1)), np.uint8)
        self._unused: list[_Memory] = []  # the memory that no batch uses now
        self._of_blocks = [
            self._records[:, begin : begin + block.size].view(block.type).reshape(slots, *block.shape)
            for block, begin in _placed(self._blocks, 1)
        ]
        for block, states in zip(self._blocks, self._of_blocks, strict=True):
            for number, place in enumerate(block.places):
                port = ports[place]
                shape = (slots, *port.shape[: port.axis], *port.shape[port.axis + 1 :])
                self[port.input.name] = np.moveaxis(states[:, number].reshape(shape), 0, port.axis)

    def compute(
        self, session: onnxruntime.InferenceSession, slots: list[int], feeds: Mapping[str, State], output: str
    ) -> State:
        """Compute these slots from these feeds and their states. Return the output, and keep the new states."""
        try:
            memory = self._unused.pop()
        except IndexError:  # as many batches are computed now as never before
            memory = _Memory(self._ports, self._blocks)
        try:
            batch = memory.batch(session, len(slots), output)
            for states, before in zip(self._of_blocks, batch.before, strict=True):
                for place, slot in enumerate(slots):
                    before[:, :, place] = states[slot]
            frames = batch.run(session, feeds)
            for states, after in zip(self._of_blocks, batch.after, strict=True):
                for place, slot in enumerate(slots):
                    states[slot] = after[:, :, place]
        finally:
            self._unused.append(memory)
        return frames

    def copies(self) -> list[State]:
        """Return copies of the states of the graph in all slots."""
        return [self[port.input.name].copy() for port in self._ports]

    def reset(self, slots: list[int]) -> None:
        """Clear the states of the graph in these slots."""
        self._records[slots] = 0


class _Memory:
    """The memory for the states of one batch at a time, of any number of streams."""

    def __init__(self, ports: Sequence[StatePort], blocks: Sequence[_Block]) -> None:
        self._ports, self._blocks = ports, blocks
        self._session: onnxruntime.InferenceSession | None = None  # for which the batches are bound
        self._most = 0  # so many streams have room
        self._sides: list[NDArray[np.uint8]] = []  # before and after a batch. All batches share it.
        self._batches: dict[int, _Batch] = {}  # by the number of streams

    def batch(self, session: onnxruntime.InferenceSession, streams: int, output: str) -> _Batch:
        """Return a batch of this many streams, bound to the session."""
        if self._session is not session or streams > self._most:
            self._session, self._batches = session, {}
        if streams > self._most:
            # What was never used takes no place.
            self._most = max(_FEWEST, 2 ** (streams - 1).bit_length())
            self._sides = [np.zeros(_size(self._blocks, self._most), np.uint8) for _ in range(2)]
        if streams not in self._batches:
            self._batches[streams] = _Batch(session, self._ports, self._blocks, streams, output, self._sides)
        return self._batches[streams]


class _Block(NamedTuple):
    """States with the same shape, which lie side by side: those of the ports at these places."""

    type: np.dtype[Any]
    shape: tuple[int, int, int]  # their number, and the numbers of each before and after the axis of the streams
    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """The bytes for one stream."""
        return int(np.prod(self.shape)) * self.type.itemsize


class _Batch:
    """The states of a number of streams where the graph reads them, and where it writes them; by block.

    They are bound to the session once, because binding a state takes longer than copying it.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        ports: Sequence[StatePort],
        blocks: Sequence[_Block],
        streams: int,
        output: str,
        memories: Sequence[NDArray[np.uint8]],
    ) -> None:
        self._binding, self._output = session.io_binding(), output
        self._binding.bind_output(output, "cpu")  # first, because the results have this order
        sides: list[list[State]] = [[], []]
        for side, memory in zip(sides, memories, strict=True):
            for block, begin in _placed(blocks, streams):
                number, rows, row = block.shape
                whole = memory[begin : begin + streams * block.size].view(block.type)
                states = whole.reshape(number, rows, streams, row)
                side.append(states)
                for place, state in zip(block.places, states, strict=True):
                    port = ports[place]
                    shape = (*port.shape[: port.axis], streams, *port.shape[port.axis + 1 :])
                    where = ("cpu", 0, block.type.type, shape, state.ctypes.data)
                    if side is sides[0]:
                        self._binding.bind_input(port.input.name, *where)
                    else:
                        self._binding.bind_output(port.output, *where)
        self.before, self.after = sides

    def run(self, session: onnxruntime.InferenceSession, feeds: Mapping[str, State]) -> State:
        """Compute the batch from these feeds, and return the output."""
        for name, value in feeds.items():
            self._binding.bind_cpu_input(name, value)
        self._binding.bind_output(self._output, "cpu")  # otherwise it is written where the last one is
        session.run_with_iobinding(self._binding)
        return np.asarray(self._binding.get_outputs()[0].numpy())


def _blocks(ports: Sequence[StatePort], types: Sequence[np.dtype[Any]]) -> list[_Block]:
    """Return the ports whose states have the same shape as blocks."""
    places: dict[tuple[np.dtype[Any], int, int], list[int]] = {}
    for place, (port, type_) in enumerate(zip(ports, types, strict=True)):
        rows, row = (int(np.prod(part)) for part in (port.shape[: port.axis], port.shape[port.axis + 1 :]))
        places.setdefault((type_, rows, row), []).append(place)
    return [_Block(type_, (len(own), rows, row), tuple(own)) for (type_, rows, row), own in places.items()]


def _placed(blocks: Sequence[_Block], streams: int) -> list[tuple[_Block, int]]:
    """Return each block with its first byte in a memory for this many streams."""
    begin, placed = 0, []
    for block in blocks:
        placed.append((block, begin))
        begin += -(-streams * block.size // _ALIGNMENT) * _ALIGNMENT
    return placed


def _size(blocks: Sequence[_Block], streams: int) -> int:
    """Return how many bytes the blocks take for this many streams."""
    return sum(-(-streams * block.size // _ALIGNMENT) * _ALIGNMENT for block in blocks)
