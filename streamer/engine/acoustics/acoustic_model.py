"""The shipped acoustic model on a CPU: features in numpy, and its networks as graphs. It needs no torch.

`AcousticNetwork` computes the same with torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.activity import probabilities_of
from streamer.engine.acoustics.bundle_files import (
    ACTIVITY_FILE,
    WEIGHTS_FILE,
    BundleError,
    ModelDescription,
    Weights,
    read_description,
    read_weights,
    within,
)
from streamer.engine.acoustics.encoder_config import EncoderConfig
from streamer.engine.acoustics.encoder_graphs import compiled_encoder
from streamer.engine.acoustics.features import SAMPLE_RATE, LogMel, samples_of
from streamer.engine.acoustics.head_graphs import CompiledActivity, CompiledHeads
from streamer.engine.acoustics.speech_detector import PieceActivity, PieceEnergies, SpeechDetector
from streamer.engine.acoustics.streaming_model import (
    ACTIVITY,
    Emissions,
    Floats,
    ModelState,
    SlotNetwork,
    StreamingModel,
)
from streamer.engine.network_graphs import Precision
from streamer.engine.waiting import Work


class SpeechModel(StreamingModel, Protocol):
    """An acoustic model whose parts can also be used alone: its encoder, its heads and its detector of speech."""

    description: ModelDescription
    units: dict[str, list[str]]

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[Floats, Floats]:
        """Return the frames of the next samples of these slots, and the energies for the activity network."""
        ...

    def emissions(self, frames: Floats) -> Emissions:
        """Return the log-probabilities of the heads that read these frames, [batch, frames, units]."""
        ...

    def detector(self, slots: int) -> SpeechDetector | None:
        """Return a detector of speech for this many slots; None without an activity network."""
        ...

    def piece_energies(self, slots: int) -> PieceEnergies:
        """Return what computes the energies of pieces in this many slots."""
        ...


class AcousticModel:
    """A SpeechModel that computes the log-probabilities of every head from samples."""

    writes = False
    sample_rate = SAMPLE_RATE
    ahead_samples = 0

    def __init__(
        self,
        description: ModelDescription,
        weights: Weights,
        activity: SlotNetwork | None = None,
        precision: Precision = Precision.BYTES,
    ) -> None:
        self.description = description
        self.frame_samples = description.encoder.frame_samples
        self.name = description.name
        self.units = description.units
        self.step_ms = description.step_ms
        self.features = LogMel(weights["features.mean"], weights["features.deviation"], description.encoder.hop)
        encoder = within(weights, "encoder")
        self._encoder = compiled_encoder(description.encoder, encoder, precision)
        self._reads_features = isinstance(description.encoder, EncoderConfig)
        # How many samples before a step its frames need.
        self.context = max(self.features.context, 0 if self._reads_features else self._encoder.context)
        self._heads = CompiledHeads(description.encoder, encoder)
        self._activity = activity
        self._pieces: PieceEnergies | None = None  # of the same slots

    @classmethod
    def load(
        cls, folder: Path | str, *, activity: bool = True, precision: Precision = Precision.BYTES
    ) -> AcousticModel:
        """Read the model of a bundle, with its activity network if wanted. BundleError says what is wrong."""
        description, path = read_description(Path(folder)), Path(folder) / WEIGHTS_FILE
        network = load_activity(Path(folder)) if activity else None
        weights = read_weights(path)
        try:
            return cls(description, weights, network, precision)
        except (KeyError, ValueError, RuntimeError) as error:
            raise BundleError(f"{path} does not fit the description of the model: {error}") from error

    def detector(self, slots: int) -> SpeechDetector | None:
        """Return a detector of speech for this many slots; None without an activity network."""
        if self._activity is None:
            return None
        return SpeechDetector(self.piece_energies(slots), PieceActivity(self._activity, slots))

    def piece_energies(self, slots: int) -> PieceEnergies:
        """Return what computes the energies of pieces in this many slots."""
        self._pieces = PieceEnergies(self.features, slots)
        return self._pieces

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        state = {"wav": np.zeros((slots, self.context), np.float32), **self._encoder.make_state(slots)}
        return state if self._activity is None else state | self._activity.make_state(slots)

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, so that nothing remains of the streams that used them."""
        for array in state.values():
            array[list(slots)] = 0

    def reserve(self, slots: Sequence[int], frames: int) -> None:
        """Do nothing: threads may compute different slots at once, because the state of each has its place."""

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]."""
        if samples.shape[1] % self.frame_samples:
            raise ValueError(f"a step must have a multiple of {self.frame_samples} samples, not {samples.shape[1]}")
        recent = self._recent(state, slots, samples)
        emissions: Emissions = {}
        energies = self._energies(slots, recent)
        if self._activity is not None:  # before the encoder, because the weights of the encoder fill the cache
            emissions[ACTIVITY] = self._activity.step(state, slots, energies)
        return emissions | self.emissions(self._encode(state, slots, recent, energies))

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        """Return the emissions of a segment that is complete, [1, frames, units]."""
        if not len(samples) or len(samples) % self.frame_samples:
            raise ValueError(f"a segment must have a multiple of {self.frame_samples} samples, not {len(samples)}")
        audio = np.pad(samples_of(samples), (self.context, 0))[None]
        if self._reads_features:
            inputs = yield from self._features_of(audio)
        else:
            inputs = self._heard(audio)
        frames = yield from self._encoder.whole(inputs)
        return self.emissions(frames)

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[Floats, Floats]:
        """Return the frames of the next samples of these slots, and the energies for the activity network."""
        recent = self._recent(state, slots, samples)
        energies = self._energies(slots, recent)
        return self._encode(state, slots, recent, energies), energies

    def emissions(self, frames: Floats) -> Emissions:
        """Return the log-probabilities of the heads that read these frames, [batch, frames, units]."""
        return self._heads.emissions(frames)

    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        """Return the probabilities of speech in the frames after the last step of this slot. Change no state."""
        if self._activity is None:
            return []
        heard = state["wav"][slot, self.context - self.features.context :]
        energies = self.features.energies(np.concatenate((heard, samples_of(samples)))[None])
        state_copy = {name: state[name][[slot]] for name in self._activity.make_state(1)}
        return probabilities_of(self._activity.step(state_copy, [0], energies)[0, :, 0].tolist())

    def _recent(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Floats:
        """Return the next samples after those before them, which the slots keep."""
        recent = np.concatenate((state["wav"][list(slots)], samples_of(samples)), axis=1)
        state["wav"][list(slots)] = recent[:, -self.context :]
        return recent

    def _energies(self, slots: Sequence[int], recent: Floats) -> Floats:
        """Return the energies of the next samples: what the activity network reads, and an encoder of features."""
        recent = recent[:, self.context - self.features.context :]
        if self._pieces is None:
            return self.features.energies(recent)
        # What the detector of speech has computed already is not computed again.
        hop = self.features.hop
        energies = np.empty(
            (len(slots), (recent.shape[1] - self.features.context) // hop, self.features.mels), np.float32
        )
        missing: dict[int, list[int]] = {}  # the rows by the number of their first hops that are there
        for row, slot in enumerate(slots):
            found = self._pieces.find(slot, recent[row])
            energies[row, : len(found)] = found
            missing.setdefault(len(found), []).append(row)
        for there, rows in missing.items():
            if there < energies.shape[1]:
                energies[rows, there:] = self.features.energies(recent[rows, there * hop :])
        return energies

    def _encode(self, state: ModelState, slots: Sequence[int], recent: Floats, energies: Floats) -> Floats:
        """Return the frames of the encoder, which are the input of the heads."""
        inputs = self.features.normalise(energies) if self._reads_features else self._heard(recent)
        return self._encoder.step(state, slots, inputs)

    def _heard(self, recent: Floats) -> Floats:
        """Return what an encoder of samples reads."""
        return recent[:, self.context - self._encoder.context :]

    def _features_of(self, audio: Floats) -> Work[Floats]:
        """Return the features of a whole segment, part by part."""
        context, part = self.features.context, self.description.encoder.whole_frames * self.frame_samples
        energies = []
        for first in range(0, audio.shape[1] - context, part):
            energies.append(self.features.energies(audio[:, first : first + context + part]))
            yield
        return self.features.normalise(np.concatenate(energies, axis=1))


def load_heads(folder: Path) -> CompiledHeads:
    """Return the heads of a bundle alone. BundleError says what is wrong."""
    description, path = read_description(folder), folder / WEIGHTS_FILE
    try:
        return CompiledHeads(description.encoder, within(read_weights(path), "encoder"))
    except (KeyError, ValueError, RuntimeError) as error:
        raise BundleError(f"{path} does not fit the description of the model: {error}") from error


def load_activity(folder: Path) -> CompiledActivity | None:
    """Return the activity network of a bundle as a graph, None if it has none. BundleError if it is damaged."""
    path = folder / ACTIVITY_FILE
    if not path.is_file():
        return None
    try:
        return CompiledActivity(read_weights(path))
    except (KeyError, ValueError, RuntimeError, IndexError) as error:
        raise BundleError(f"{path} does not contain an activity network: {error}") from error
