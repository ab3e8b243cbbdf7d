"""The states of a graph in slots on a device. They never leave it: the graph reads and writes them there.

Of public models, only this module and `sessions` for a GPU import torch. A CPU computes with `states`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
import torch
from numpy.typing import DTypeLike, NDArray

from streamer.engine.acoustics.streaming_model import Array
from streamer.engine.public.sessions import Placement
from streamer.models.layout import StatePort

_ON_CPU: Final = "cpu"


class BoundStates(dict[str, Array]):
    """Tensors for all slots by name, on one device. Their axes have the order of the graph.

    As in `SlotStates`, the states of the last batch stay outside their slots until other slots are computed.
    """

    def __init__(
        self, ports: Sequence[StatePort], types: Sequence[DTypeLike], slots: int, placement: Placement
    ) -> None:
        super().__init__()
        self._ports, self._placement = ports, placement
        self._types = [np.dtype(type_) for type_ in types]
        self._slots: list[int] | None = None  # the slots of the batch
        self._batch: _Batch | None = None
        with placement.working():
            for port, tensor in zip(ports, self._tensors(slots), strict=True):
                self[port.input.name] = tensor

    def compute(
        self, session: onnxruntime.InferenceSession, slots: list[int], feeds: Mapping[str, NDArray[Any]], output: str
    ) -> NDArray[Any]:
        """Compute these slots from these feeds and their states. Return the output, and keep the new states."""
        with self._placement.working():
            batch = self._gather(session, slots, output)
        for name, value in feeds.items():
            batch.binding.bind_cpu_input(name, value)
        session.run_with_iobinding(batch.binding)
        frames = np.array(batch.binding.get_outputs()[0].numpy())  # a copy: the next run writes there
        batch.turn()
        return frames

    def settle(self) -> None:
        """Put the last batch back into its slots."""
        if self._batch is None or self._slots is None:
            return
        with self._placement.working():
            places = self._places(self._slots)
            for port, tensor in zip(self._ports, self._batch.before, strict=True):
                self[port.input.name].index_copy_(port.axis, places, tensor)
        self._slots = None

    def reset(self, slots: list[int]) -> None:
        """Clear the states of the graph in these slots."""
        self.settle()
        with self._placement.working():
            places = self._places(slots)
            for port in self._ports:
                self[port.input.name].index_fill_(port.axis, places, 0)

    def copies(self) -> list[NDArray[Any]]:
        """Return copies of the states of the graph in all slots."""
        self.settle()
        with self._placement.working():
            return [np.array(self[port.input.name].cpu().numpy()) for port in self._ports]

    def _gather(self, session: onnxruntime.InferenceSession, slots: list[int], output: str) -> _Batch:
        """Return the batch with the states of these slots. Copy them into it if it has the states of other slots."""
        if self._batch is None or self._slots != slots:
            self.settle()
            if self._batch is None or not self._batch.fits(session, len(slots)):
                sides = self._tensors(len(slots)), self._tensors(len(slots))
                self._batch = _Batch(session, self._ports, sides, len(slots), output, self._placement)
            places = self._places(slots)
            for port, tensor in zip(self._ports, self._batch.before, strict=True):
                torch.index_select(self[port.input.name], port.axis, places, out=tensor)
            self._slots = slots
        return self._batch

    def _tensors(self, streams: int) -> list[torch.Tensor]:
        """Return empty states for this many streams."""
        states = []
        for port, type_ in zip(self._ports, self._types, strict=True):
            shape = (*port.shape[: port.axis], streams, *port.shape[port.axis + 1 :])
            element = torch.from_numpy(np.zeros(0, type_)).dtype
            states.append(torch.zeros(shape, dtype=element, device=self._placement.name))
        return states

    def _places(self, slots: list[int]) -> torch.Tensor:
        return torch.tensor(slots, device=self._placement.name)


class _Batch:
    """Two sets of tensors for one number of streams. The graph reads one and writes the other, and then the reverse.

    Each direction is bound only once, because binding a state takes longer than reading it.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        ports: Sequence[StatePort],
        sides: tuple[list[torch.Tensor], list[torch.Tensor]],
        streams: int,
        output: str,
        placement: Placement,
    ) -> None:
        self.before, self._after = sides
        self._session, self._ports, self._output, self._placement = session, ports, output, placement
        self._streams = streams
        self.binding, self._other = self._bind(self.before, self._after), self._bind(self._after, self.before)

    def fits(self, session: onnxruntime.InferenceSession, streams: int) -> bool:
        """Return whether this batch can be used for this many streams."""
        return session is self._session and self._streams == streams

    def turn(self) -> None:
        """Swap the two sets: the next run reads the tensors that the last one wrote."""
        self.before, self._after = self._after, self.before
        self.binding, self._other = self._other, self.binding

    def _bind(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Any:
        """Return a binding that reads `inputs` and writes `outputs`."""
        binding, where = self._session.io_binding(), (self._placement.kind.value, self._placement.number)
        binding.bind_output(self._output, _ON_CPU)
        for port, before, after in zip(self._ports, inputs, outputs, strict=True):
            element, shape = torch.empty(0, dtype=before.dtype).numpy().dtype.type, tuple(before.shape)
            binding.bind_input(port.input.name, *where, element, shape, before.data_ptr())
            binding.bind_output(port.output, *where, element, shape, after.data_ptr())
        return binding
