"""The encoder side of Moonshine as a StreamingModel: samples go in, and the memory that its decoder reads comes out.

A slot keeps the states of the frontend, the features that the encoder reads again with the next step, and the place of
the next frame. The frames of a step are computed with the features ahead of it, so they never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import LONGEST_SEGMENT_BOUNDS_MS
from streamer.engine.acoustics.encoder_config import FRAME_SAMPLES
from streamer.engine.acoustics.features import CONTEXT, LogMel, samples_of
from streamer.engine.acoustics.streaming_model import (
    ACTIVITY,
    Emissions,
    EnergyFeatures,
    Floats,
    ModelState,
    SlotNetwork,
)
from streamer.engine.public.batch_graph import ELEMENTS
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.sessions import open_ort
from streamer.models.model_folder import ModelFolderError
from streamer.models.moonshine_folder import (
    ADAPTER,
    CHUNK,
    ENCODER,
    FEATURE,
    FRONTEND,
    SAMPLE_RATE,
    SAMPLE_STATES,
    STEPS_MS,
    MoonshineFolder,
)

_FEATURES, _HELD, _PLACE, _SOUND = "features", "held", "place", "sound"
_TRIAL_STEPS: Final = 2
_NOISE: Final = 3000  # the amplitude of the noise in a trial
_NEARLY: Final = 1e-3  # the part of the largest number by which two ways to compute may differ
PAIR: Final = FRAME_SAMPLES // FEATURE
"""The frames of the memory in an emission frame."""

Batch = Mapping[str, NDArray[Any]]


class Part:
    """One of the graphs. It computes all streams in one run if it can, otherwise one stream after the other."""

    def __init__(self, public: MoonshineFolder, name: str) -> None:
        self.path = public.parts[name].path
        self.together = name in public.together
        self._session = open_ort(public.parts[name])

    def run(self, outputs: Sequence[str], feeds: Batch) -> list[NDArray[Any]]:
        """Return these outputs. The first axis of everything counts the streams."""
        streams = len(next(iter(feeds.values())))
        if self.together:
            return list(self._session.run(list(outputs), dict(feeds)))
        rows = [self.run_one(outputs, {name: value[[row]] for name, value in feeds.items()}) for row in range(streams)]
        return [np.concatenate(values) for values in zip(*rows, strict=True)]

    def run_one(self, outputs: Sequence[str], feeds: Batch) -> list[NDArray[Any]]:
        """Return these outputs for a single stream, whatever the axis that counts the streams."""
        return list(self._session.run(list(outputs), dict(feeds)))


class MoonshineModel:
    """Computes the memory of all slots, and whether somebody speaks."""

    writes = True  # marks, capitals and figures are among the tokens
    sample_rate = SAMPLE_RATE
    frame_samples = FRAME_SAMPLES
    step_ms: tuple[int, ...] = STEPS_MS

    def __init__(self, public: MoonshineFolder, name: str, activity: SlotNetwork | None = None, mels: int = 0) -> None:
        """`activity`: the network that detects speech in energies of so many `mels`. Without it, words alone decide."""
        self.name = name
        self._layout = public.layout
        self.ahead_samples = public.layout.ahead_samples
        self._frontend, self._encoder, self._adapter = (Part(public, part) for part in (FRONTEND, ENCODER, ADAPTER))
        self._activity = activity
        self._energies: EnergyFeatures | None = None if activity is None else LogMel.plain(mels)
        self._check()

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        layout = self._layout
        state: ModelState = {
            name: np.zeros((slots, *shape), ELEMENTS[kind]) for name, (kind, shape) in layout.states.items()
        }
        state[_FEATURES] = np.zeros((slots, layout.left + layout.ahead, layout.encoder_dim), np.float32)
        state[_HELD], state[_PLACE] = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        if self._activity is not None:
            state[_SOUND] = np.zeros((slots, CONTEXT), np.float32)
            state |= self._activity.make_state(slots)
        return state

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, so that nothing remains of the streams that used them."""
        for array in state.values():
            array[list(slots)] = 0

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples], with the samples ahead at the end.

        An emission frame has several frames of the memory, one after the other.
        """
        # The batch has the order of the slots, so that the same streams in another order make the same batch.
        order = np.argsort(slots)
        numbers, sound = [slots[place] for place in order], samples_of(samples[order])
        back = np.argsort(order)
        memory = self._remember(state, numbers, sound)
        emissions: Emissions = {FRAMES: memory.reshape(len(numbers), -1, PAIR * self._layout.decoder_dim)[back]}
        if self._activity is not None and self._energies is not None:
            recent = np.concatenate((state[_SOUND][numbers], sound[:, : -self.ahead_samples or None]), axis=1)
            state[_SOUND][numbers] = recent[:, -CONTEXT:]
            emissions[ACTIVITY] = self._activity.step(state, numbers, self._energies.energies(recent))[back]
        return emissions

    def _remember(self, state: ModelState, numbers: list[int], sound: Floats, *, alone: bool = False) -> Floats:
        """Return the frames of the memory for the next step of these slots. `alone`: each is encoded by itself."""
        ahead, frames = self._layout.ahead, sound.shape[1] // FEATURE - self._layout.ahead
        held = state[_HELD][numbers]
        fresh = held == 0
        new = self._new_features(state, numbers, sound, fresh)
        windows = [
            np.concatenate((state[_FEATURES][number, :count], features[0 if count == 0 else ahead :]))
            for number, count, features in zip(numbers, held, new, strict=True)
        ]
        for number, window in zip(numbers, windows, strict=True):
            kept = window[-state[_FEATURES].shape[1] :]
            state[_FEATURES][number, : len(kept)], state[_HELD][number] = kept, len(kept)
        encoded = self._encode(windows, frames, together=self._encoder.together and not alone)
        [memory] = self._adapter.run(["memory"], {"encoded": encoded, "pos_offset": state[_PLACE][numbers]})
        if memory.shape != (len(numbers), frames, self._layout.decoder_dim):
            raise ValueError(f"the adapter gave a memory of the shape {list(memory.shape)} for {frames} frames")
        state[_PLACE][numbers] += frames
        return np.asarray(memory, np.float32)

    def _new_features(
        self, state: ModelState, numbers: list[int], sound: Floats, fresh: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Return the features of these samples. Those ahead are computed only where a segment begins: others have them.

        The frontend gets as many samples at a time as in its makers' library.
        """
        each = CHUNK // FEATURE
        new = np.zeros((len(numbers), sound.shape[1] // FEATURE, self._layout.encoder_dim), np.float32)
        outputs = ["features", *(f"{name}_out" for name in SAMPLE_STATES)]
        for chunk in range(sound.shape[1] // CHUNK):
            first = chunk * CHUNK
            rows = np.arange(len(numbers)) if first >= self.ahead_samples else np.flatnonzero(fresh)
            if not len(rows):
                continue
            own = [numbers[row] for row in rows]
            feeds = {name: state[name][own] for name in SAMPLE_STATES}
            features, *states = self._frontend.run(
                outputs, {"audio_chunk": np.ascontiguousarray(sound[rows, first : first + CHUNK]), **feeds}
            )
            if features.shape != (len(rows), each, self._layout.encoder_dim):
                raise ValueError(f"the frontend gave features of the shape {list(features.shape)} for {CHUNK} samples")
            new[rows, chunk * each : (chunk + 1) * each] = features
            for name, value in zip(SAMPLE_STATES, states, strict=True):
                state[name][own] = value
        return new

    def _encode(self, windows: Sequence[Floats], frames: int, *, together: bool) -> Floats:
        """Return the encoded frames of the step at the end of each window, before the features ahead of it.

        Together, all windows are as long as that of an old stream: padding after the last feature changes only frames
        that are left out here. So it depends on no other stream.
        """
        ends = [len(window) - self._layout.ahead for window in windows]
        if together:
            longest = self._layout.left + frames + self._layout.ahead
            batch = np.zeros((len(windows), longest, self._layout.encoder_dim), np.float32)
            for row, window in zip(batch, windows, strict=True):
                row[: len(window)] = window
            encoded = list(self._encoded(batch))
        else:
            encoded = [self._encoded(window[None])[0] for window in windows]
        return np.stack([rows[end - frames : end] for rows, end in zip(encoded, ends, strict=True)])

    def _encoded(self, batch: Floats) -> Floats:
        [encoded] = self._encoder.run_one(["encoded"], {"features": batch})
        if encoded.shape != batch.shape:
            raise ValueError(f"the encoder gave frames of the shape {list(encoded.shape)} for {list(batch.shape)}")
        return np.asarray(encoded, np.float32)

    def _check(self) -> None:
        """Raise ModelFolderError if the graphs do not do what the configuration says, or not for several streams."""
        samples = STEPS_MS[0] * SAMPLE_RATE // 1000 + self.ahead_samples
        noise = np.random.default_rng(0).integers(-_NOISE, _NOISE, (_TRIAL_STEPS, 2, samples), np.int16)
        alone, both = self.make_state(2), self.make_state(2)
        for sound in map(samples_of, noise):
            expected = np.concatenate([self._remember(alone, [row], sound[[row]], alone=True) for row in range(2)])
            found = self._remember(both, [0, 1], sound)
            nearly = _NEARLY * max(1.0, float(np.abs(expected).max()))
            if self._encoder.together and not np.allclose(found, expected, atol=nearly):
                reach = f"{self._layout.left} features back and {self._layout.ahead} ahead"
                raise ModelFolderError(f"{self._encoder.path} reads farther than {reach}, or mixes streams")
        last = LONGEST_SEGMENT_BOUNDS_MS[1] * SAMPLE_RATE // 1000 // FEATURE + self._layout.ahead
        encoded = np.zeros((1, 2, self._layout.encoder_dim), np.float32)
        try:
            self._adapter.run(["memory"], {"encoded": encoded, "pos_offset": np.array([last])})
        except Exception as error:  # the exceptions of onnxruntime have no common class
            longest = f"a segment of {LONGEST_SEGMENT_BOUNDS_MS[1] // 1000} s"
            raise ModelFolderError(f"{self._adapter.path} has no places for {longest}") from error
