"""A model of your own: it hears which keys of a telephone are pressed, by the two tones of each key.

    streamer serve --repository examples --model telephone_keys

A network would stand in the place of the tones. What Streamer asks of a model is in `TelephoneKeys`: the state of each
stream lies in a slot, and a step computes many slots at once. Batches, segments, partials, recovery and the protocol
are the same as with any other model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import GREEDY
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.adapters.event_model import EventModel
from streamer.engine.adapters.instance import Instance
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.greedy import CtcGreedySearch
from streamer.engine.recogniser import Recogniser

SAMPLE_RATE = 16_000
FRAME = 640  # samples: 40 ms
LOW, HIGH = (697, 770, 852, 941), (1209, 1336, 1477, 1633)  # Hz: the rows and the columns of the keys
TOKENS = ("<blk>", *(f"▁{key}" for key in "123A456B789C*0#D"))  # the blank, and a word for each key
SURE, UNSURE = np.log(0.99), np.log(0.01 / (len(TOKENS) - 1))
LEAST_SHARE = 0.3  # of the energy of a frame, for each of the two tones
LEAST_LEVEL = 30.0  # the mean amplitude below which nobody presses a key


class TelephoneKeys:
    """Emits the probabilities of the keys in each frame. A key counts from its second frame on."""

    name = "telephone keys"
    writes = True  # its words need no marks, capitals and figures
    sample_rate = SAMPLE_RATE
    frame_samples = FRAME
    step_ms: tuple[int, ...] = (160, 320, 640)  # a stream may choose one of these
    ahead_samples = 0  # it reads nothing after a step

    def __init__(self) -> None:
        at = np.arange(FRAME) / SAMPLE_RATE
        self._waves = np.exp(-2j * np.pi * np.outer((*LOW, *HIGH), at)).T

    def make_state(self, slots: int) -> ModelState:
        """Return the key in the last frame of each slot."""
        return {"last": np.zeros(slots, np.int64)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Forget the streams that used these slots."""
        state["last"][list(slots)] = 0

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]. Return [batch, frames, tokens]."""
        keys = self._keys(samples.reshape(len(samples), -1, FRAME).astype(np.float64))
        before = np.concatenate((state["last"][list(slots)][:, None], keys[:, :-1]), axis=1)
        state["last"][list(slots)] = keys[:, -1]
        held = np.where(keys == before, keys, 0)
        chances = np.where(held[..., None] == np.arange(len(TOKENS)), SURE, UNSURE)
        return {FRAMES: chances.astype(np.float32)}

    def _keys(self, frames: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the number of the token of the key in each frame, 0 where there is none."""
        energies = (frames**2).sum(axis=-1)
        tones = 2 * np.abs(frames @ self._waves) ** 2 / FRAME / np.maximum(energies, 1.0)[..., None]
        low, high = tones[..., :4], tones[..., 4:]
        pressed = np.minimum(low.max(axis=-1), high.max(axis=-1)) >= LEAST_SHARE
        pressed &= np.sqrt(energies / FRAME) >= LEAST_LEVEL
        found: NDArray[np.int64] = np.where(pressed, 1 + 4 * low.argmax(axis=-1) + high.argmax(axis=-1), 0)
        return found


class TritonPythonModel(EventModel):
    """What Triton loads: the recogniser with this model, and the searches from which a stream may choose."""

    def load(self, instance: Instance) -> Recogniser:
        """Return a recogniser with as many slots as Triton may send streams at a time."""
        searches = {GREEDY: CtcGreedySearch(TOKENS, 0, instance.slots)}
        return Recogniser(TelephoneKeys(), searches, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
