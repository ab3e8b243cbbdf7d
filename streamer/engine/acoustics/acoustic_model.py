"""The shipped acoustic model: features and encoder with their trained weights, from the folder of a bundle.

The bundle has `model.json` (name, sample rate, steps, units by head, encoder) and `weights.pt` (half precision). It may
also have `activity.pt`: the activity network, which distinguishes speech from other sounds and is trained separately.
"""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.encoder import SUBSAMPLING, Encoder, EncoderConfig
from streamer.engine.acoustics.features import CONTEXT, HOP, SAMPLE_RATE, LogMel
from streamer.engine.acoustics.speech_detector import ActivityNetwork, SpeechDetector
from streamer.engine.acoustics.streaming_model import ACTIVITY, Emissions, ModelState, SegmentNetwork, SlotNetwork

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.pt"
ACTIVITY_FILE = "activity.pt"


class BundleError(Exception):
    """A bundle cannot be used. The message says what is wrong with which file."""


@dataclass(frozen=True)
class ModelDescription:
    """The content of `model.json`."""

    name: str
    encoder: EncoderConfig
    units: dict[str, list[str]]
    step_ms: tuple[int, ...]

    def __post_init__(self) -> None:
        for output in self.encoder.outputs:
            if len(self.units.get(output.name, ())) != output.units:
                raise ValueError(f"the names listed for head {output.name} do not match its {output.units} units")
        longest = max(self.step_ms, default=0) * SAMPLE_RATE // 1000
        if not self.step_ms or longest > self.encoder.largest_chunk * SUBSAMPLING * HOP:
            raise ValueError(f"step_ms {list(self.step_ms)} does not fit chunks of {self.encoder.largest_chunk} frames")

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {
            "name": self.name,
            "sample_rate": SAMPLE_RATE,
            "step_ms": list(self.step_ms),
            "units": self.units,
            "encoder": self.encoder.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ModelDescription:
        """Read the description from JSON values."""
        if values["sample_rate"] != SAMPLE_RATE:
            raise ValueError(f"sample_rate must be {SAMPLE_RATE}, as the features need it, not {values['sample_rate']}")
        encoder = EncoderConfig.from_json(values["encoder"])
        return cls(values["name"], encoder, values["units"], tuple(values["step_ms"]))


class AcousticModel(nn.Module):
    """A StreamingModel that computes the log-probabilities of every head from samples."""

    writes = False
    sample_rate = SAMPLE_RATE
    frame_samples = SUBSAMPLING * HOP
    ahead_samples = 0

    def __init__(self, description: ModelDescription) -> None:
        super().__init__()
        self.description = description
        self.name = description.name
        self.units = description.units
        self.step_ms = description.step_ms
        self.features = LogMel(description.encoder.mels)
        self.encoder = Encoder(description.encoder)
        # These are in tuples so that torch does not make them parts of this module. The activity network has its own
        # file and its own training.
        self._activity: tuple[SlotNetwork, ...] = ()
        self._steps: tuple[SegmentNetwork] = (self.encoder,)

    @classmethod
    def load(
        cls, folder: Path | str, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> AcousticModel:
        """Read a bundle, by default to the CPU in float32. The encoder computes in `dtype`, the features in float32."""
        description_path, weights_path = Path(folder) / MODEL_FILE, Path(folder) / WEIGHTS_FILE
        for path in (description_path, weights_path):
            if not path.is_file():
                raise BundleError(f"{path} is missing: the folder does not contain a trained model")
        try:
            model = cls(ModelDescription.from_json(json.loads(description_path.read_text(encoding="utf-8"))))
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"{description_path} does not describe a model: {error}") from error
        try:
            model.load_state_dict(torch.load(weights_path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises almost any exception for a damaged file
            raise BundleError(f"{weights_path} does not fit {description_path.name}: {error}") from error
        model.encoder.to(dtype or torch.float32)
        model.set_activity(read_activity(Path(folder)))
        return model.to(device or "cpu").eval().requires_grad_(False)

    def save(self, folder: Path | str) -> None:
        """Write a bundle, with weights in half precision. Replace whole files, but only those that change."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.detach().cpu().half() for name, tensor in self.state_dict().items()}
        partial = target / (WEIGHTS_FILE + ".partial")
        torch.save(weights, partial)
        _put(partial, target / WEIGHTS_FILE)
        partial = target / (MODEL_FILE + ".partial")
        partial.write_text(json.dumps(self.description.to_json(), indent=1) + "\n", encoding="utf-8")
        _put(partial, target / MODEL_FILE)

    def set_activity(self, activity: ActivityNetwork | None) -> None:
        """Use this network for the activity head, or none."""
        self._activity = () if activity is None else (activity.to(self.device).eval().requires_grad_(False),)

    @property
    def activity(self) -> SlotNetwork | None:
        """The network of the activity head; None without this head."""
        return next(iter(self._activity), None)

    def compute_steps_with(self, encoder: SegmentNetwork, activity: SlotNetwork | None) -> None:
        """Compute steps with other networks that give the same results, and drop the blocks of the encoder.

        Afterwards the model must stay on its device, and cannot compute whole utterances.
        """
        self._steps, self._activity = (encoder,), () if activity is None else (activity,)
        self.encoder.keep_heads()

    def detector(self, slots: int) -> SpeechDetector | None:
        """Return a detector of speech for this many slots; None without an activity network."""
        activity = self.activity
        return None if activity is None else SpeechDetector.make(self.features, activity, slots)

    @property
    def device(self) -> torch.device:
        """The device on which the model computes and keeps its state."""
        return self.features.mean.device

    def forward(
        self, samples: Tensor, lengths: Tensor, chunk_frames: int = 0, left_frames: int | None = None
    ) -> Emissions:
        """Return the log-probabilities of whole utterances: samples [batch, frames * 640], `lengths` in frames."""
        mel = self.features(functional.pad(samples, (CONTEXT, 0)))
        emissions: Emissions = self.encoder(mel.to(self._dtype), lengths, chunk_frames, left_frames)
        return emissions

    @torch.inference_mode()
    def frames(self, samples: Tensor, lengths: Tensor, chunk_frames: int) -> Tensor:
        """Return the frames of whole utterances, as `encode` gives them."""
        mel = self.features(functional.pad(samples, (CONTEXT, 0))).to(self._dtype)
        return self.encoder.frames(mel, lengths, chunk_frames, self.description.encoder.left_frames).float()

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        state = {"wav": self.features.mean.new_zeros(slots, CONTEXT), **self._steps[0].make_state(slots)}
        for activity in self._activity:
            state |= activity.make_state(slots)
        return state

    @torch.inference_mode()
    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, so that nothing remains of the streams that used them."""
        numbers = torch.tensor(slots, device=self.device)
        for tensor in state.values():
            tensor.index_fill_(0, numbers, 0)

    @torch.inference_mode()
    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]."""
        return self.step_tensors(state, torch.tensor(slots, device=self.device), self._audio(samples))

    @torch.inference_mode()
    def step_tensors(self, state: ModelState, slots: Tensor, samples: Tensor) -> Emissions:
        """Compute one step like `step`, with tensors on the device of the model, and samples in [-1, 1)."""
        if samples.shape[1] % self.frame_samples:
            raise ValueError(f"a step must have a multiple of {self.frame_samples} samples, not {samples.shape[1]}")
        energies = self.energies(state, slots, samples)
        # This comes before the encoder, because the weights of the encoder fill the cache.
        emissions: Emissions = {}
        for activity in self._activity:
            emissions[ACTIVITY] = activity.step(state, slots, energies)
        return emissions | self.encoder.emissions(self.encode(state, slots, energies))

    @torch.inference_mode()
    def whole(self, samples: NDArray[np.int16]) -> Emissions:
        """Return the emissions of a segment that is complete, [1, frames, units]."""
        if not len(samples) or len(samples) % self.frame_samples:
            raise ValueError(f"a segment must have a multiple of {self.frame_samples} samples, not {len(samples)}")
        energies = self.features.energies(functional.pad(self._audio(samples), (CONTEXT, 0)).unsqueeze(0))
        return self.encoder.emissions(self._steps[0].whole(self.features.normalise(energies)))

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[Tensor, Tensor]:
        """Return the frames of the next samples of these slots, and the energies for the activity network."""
        numbers = torch.tensor(slots, device=self.device)
        energies = self.energies(state, numbers, self._audio(samples))
        return self.encode(state, numbers, energies), energies

    @torch.inference_mode()
    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        """Return the probabilities of speech in the frames after the last step of this slot. Change no state."""
        probabilities: list[float] = []
        for activity in self._activity:
            energies = self.features.energies(torch.cat((state["wav"][slot], self._audio(samples))).unsqueeze(0))
            state_copy = {name: state[name][[slot]] for name in activity.make_state(1)}
            first = torch.zeros(1, dtype=torch.long, device=self.device)
            probabilities = activity.step(state_copy, first, energies)[0, :, 0].exp().tolist()
        return probabilities

    @torch.inference_mode()
    def energies(self, state: ModelState, slots: Tensor, samples: Tensor) -> Tensor:
        """Return the energies of the next samples, which are the input of both networks."""
        recent = torch.cat((state["wav"].index_select(0, slots), samples), dim=1)
        state["wav"].index_copy_(0, slots, recent[:, -CONTEXT:])
        return self.features.energies(recent)

    @torch.inference_mode()
    def encode(self, state: ModelState, slots: Tensor, energies: Tensor) -> Tensor:
        """Return the frames of the encoder, which are the input of the heads."""
        return self._steps[0].step(state, slots, self.features.normalise(energies))

    def _audio(self, samples: NDArray[np.int16]) -> Tensor:
        return torch.from_numpy(samples).to(self.device).float() / 32768

    @property
    def _dtype(self) -> torch.dtype:
        return self.encoder.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AcousticModel:
        for activity in self._activity:
            if isinstance(activity, ActivityNetwork):
                activity._apply(fn, recurse)
        return super()._apply(fn, recurse)


def read_activity(folder: Path) -> ActivityNetwork | None:
    """Return the activity network of a bundle, None if it has none."""
    path = folder / ACTIVITY_FILE
    if not path.is_file():
        return None
    network = ActivityNetwork()
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises almost any exception for a damaged file
        raise BundleError(f"{path} does not contain an activity network: {error}") from error
    return network


def save_activity(network: ActivityNetwork, folder: Path) -> None:
    """Write the activity network of a bundle, replacing the file as a whole."""
    partial = folder / (ACTIVITY_FILE + ".partial")
    torch.save({name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}, partial)
    _put(partial, folder / ACTIVITY_FILE)


def _put(partial: Path, target: Path) -> None:
    """Replace `target` with `partial`, unless both have the same content. Then `target` stays."""
    if target.is_file() and filecmp.cmp(partial, target, shallow=False):
        partial.unlink()
    else:
        partial.replace(target)
