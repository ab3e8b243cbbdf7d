"""Computes the steps of the acoustic network in batches of a few fixed sizes, on a GPU each as one recorded graph.

A step of the network is thousands of small kernels. Started one by one they take some ten times as long as one graph
of them, nearly whatever the number of streams; and for each new size of a batch, cuDNN plans every convolution anew,
while streams wait. So batches are padded to powers of two, with a slot that no stream has. All sizes are recorded
before the first stream comes. One step is then one upload, one graph and one download; the states stay on the GPU.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.networks.acoustic_network import AcousticNetwork

LARGEST_BATCH: Final = 2048
"""Larger batches are computed in parts: from here on, a graph takes as long as its streams are many."""

_UNRECORDED: Final = 3  # runs before a graph is recorded, in which libraries choose their kernels and take memory
_SLOT_BYTES: Final = 8
_SAMPLE_BYTES: Final = 2
_LOG: Final = logging.getLogger(__name__)

Compute = Callable[[ModelState, Tensor, Tensor], Emissions]
"""Computes a step of these slots from samples in [-1, 1)."""


class GraphedNetwork(AcousticNetwork):
    """An acoustic network whose steps are computed in padded batches: on a GPU as graphs, elsewhere as they are."""

    _graphs: StepGraphs | None = None

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots, and one more for padding. Record the graphs that compute it."""
        state = super().make_state(slots + 1)
        began = time.monotonic()
        self._graphs = StepGraphs(self.step_tensors, state, slots, self.device)
        for step_ms in self.step_ms:
            self._graphs.record(step_ms * SAMPLE_RATE // 1000)
        if self.device.type == "cuda":
            took_s = time.monotonic() - began
            _LOG.info(
                "Graphs of steps for %d sizes of batches were recorded in %.1f s", len(self._graphs.sizes), took_s
            )
        return state

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]."""
        graphs = self._graphs
        if graphs is None or graphs.state is not state:  # that of somebody else, without a slot for padding
            return super().step(state, slots, samples)
        if samples.shape[1] % self.frame_samples:
            raise ValueError(f"a step must have a multiple of {self.frame_samples} samples, not {samples.shape[1]}")
        return graphs.step(slots, samples)


class StepGraphs:
    """Steps of the slots of one state. The last slot of the state is for padding."""

    def __init__(self, compute: Compute, state: ModelState, slots: int, device: torch.device) -> None:
        self.state = state
        self.sizes = sizes_up_to(min(slots, LARGEST_BATCH))
        self._compute = compute
        self._padding = slots
        self._device = device
        self._batches: dict[tuple[int, int], _Batch] = {}  # by size and samples
        # The graphs run one after another, and what one has computed is read before the next one runs.
        self._memory: Any = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    @torch.inference_mode()
    def record(self, samples: int) -> None:
        """Prepare batches of all sizes for steps of this many samples."""
        # The largest comes first: the smaller ones then find room in its memory.
        for size in reversed(self.sizes):
            batch = self._batches[size, samples] = _Batch(size, samples, self._padding, self._device)
            batch.prepare(self._compute, self.state, self._memory)

    @torch.inference_mode()
    def step(self, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]."""
        largest, length = self.sizes[-1], samples.shape[1]
        if (self.sizes[0], length) not in self._batches:  # a step of another length than those of the model
            self.record(length)
        parts = []
        for first in range(0, len(slots), largest):
            own = slots[first : first + largest]
            size = next(each for each in self.sizes if each >= len(own))
            parts.append(self._batches[size, length].run(own, samples[first : first + largest]))
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _Batch:
    """Steps of one size and length. Everything has its place in memory, because a graph knows only addresses."""

    def __init__(self, size: int, samples: int, padding: int, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._padding = padding
        # Slots and samples travel together. Memory that is pinned is read by the GPU itself.
        split = _SLOT_BYTES * size
        sent = torch.zeros(split + _SAMPLE_BYTES * size * samples, dtype=torch.uint8, pin_memory=on_gpu)
        self._sent, self._arrived = sent, sent.to(device) if on_gpu else sent
        self._slots = sent[:split].view(torch.int64).numpy()
        self._samples = sent[split:].view(torch.int16).view(size, samples).numpy()
        self._device_slots = self._arrived[:split].view(torch.int64)
        self._device_samples = self._arrived[split:].view(torch.int16).view(size, samples)
        self._slots[:] = padding
        self._replay: Callable[[], None]
        self._shapes: dict[str, tuple[int, int]] = {}  # frames and units of each head
        self._result: Tensor  # of all heads, one after another: [size, numbers]
        self._received: Tensor

    def prepare(self, compute: Compute, state: ModelState, memory: Any) -> None:
        """Choose how it is computed, with a first run that only uses the slot for padding."""

        def run() -> None:
            emissions = compute(state, self._device_slots, self._device_samples.float() / 32768)
            self._shapes = {name: (each.shape[1], each.shape[2]) for name, each in emissions.items()}
            self._result = torch.cat([each.flatten(1) for each in emissions.values()], dim=1).float()

        if memory is None:
            run()
            self._received = torch.empty_like(self._result)
            self._replay = run
            return
        self._arrived.copy_(self._sent)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_UNRECORDED):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory):
            run()
        self._received = torch.empty(self._result.shape, pin_memory=True)
        self._replay = graph.replay

    def run(self, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute a step of at most `size` slots."""
        streams = len(slots)
        self._slots[:streams], self._slots[streams:] = slots, self._padding
        self._samples[:streams] = samples  # those of padding do not matter
        if self._arrived is not self._sent:
            self._arrived.copy_(self._sent, non_blocking=True)
        self._replay()
        self._received.copy_(self._result)  # waits for the result
        # A copy, because the next step writes into the same memory.
        numbers = self._received[:streams].numpy().copy()
        emissions: Emissions = {}
        start = 0
        for name, (frames, units) in self._shapes.items():
            end = start + frames * units
            emissions[name] = numbers[:, start:end].reshape(streams, frames, units)
            start = end
        return emissions


def sizes_up_to(most: int) -> list[int]:
    """Return the powers of two up to the first one that is not below `most`."""
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return sizes
