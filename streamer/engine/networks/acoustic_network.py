"""The shipped acoustic model in torch: what is trained, and what computes on a GPU.

`AcousticModel` computes the same on a CPU without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.bundle_files import (
    ACTIVITY_FILE,
    WEIGHTS_FILE,
    BundleError,
    ModelDescription,
    read_description,
    read_weights,
    write_description,
    write_weights,
)
from streamer.engine.acoustics.encoder_config import STEM_CONTEXT, AnyEncoder, EncoderConfig
from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.acoustics.speech_detector import PieceEnergies, SpeechDetector
from streamer.engine.acoustics.streaming_model import ACTIVITY, Emissions, Floats, ModelState
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.encoder import Encoder
from streamer.engine.networks.host_arrays import HostFeatures, host_array, network_detector
from streamer.engine.networks.log_mel import LogMelNetwork
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from streamer.engine.waiting import Work

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class AcousticNetwork(nn.Module):
    """A SpeechModel that computes the log-probabilities of every head from samples."""

    writes = False
    sample_rate = SAMPLE_RATE
    ahead_samples = 0

    def __init__(self, description: ModelDescription) -> None:
        super().__init__()
        self.description = description
        self.name = description.name
        self.units = description.units
        self.step_ms = description.step_ms
        self.frame_samples = description.encoder.frame_samples
        self.features = LogMelNetwork(description.encoder.mels, description.encoder.hop)
        self.encoder = encoder_of(description.encoder)
        # How many samples before a step its frames need.
        self.context = max(self.features.context, self.encoder_context)
        # In a tuple, so that torch does not make it a part of this module: it has its own file and its own training.
        self._activity: tuple[ActivityNetwork, ...] = ()

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        activity: bool = True,
    ) -> AcousticNetwork:
        """Read the model of a bundle, by default to the CPU in float32, with its activity network if wanted.

        The encoder computes in `dtype`, the features in float32. BundleError says what is wrong.
        """
        model, path = cls(read_description(Path(folder))), Path(folder) / WEIGHTS_FILE
        _fill(model, path, f"{path} does not fit the description of the model")
        model.encoder.lower(dtype or torch.float32)
        model.set_activity(read_activity(Path(folder)) if activity else None)
        return model.to(device or "cpu").eval().requires_grad_(False)

    def save(self, folder: Path | str) -> None:
        """Write a bundle, with weights in half precision. Replace whole files, but only those that change."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        write_weights(weights_of(self, torch.float16), target / WEIGHTS_FILE)
        write_description(self.description, target)

    def set_activity(self, activity: ActivityNetwork | None) -> None:
        """Use this network for the activity head, or none."""
        self._activity = () if activity is None else (activity.to(self.device).eval().requires_grad_(False),)

    def detector(self, slots: int) -> SpeechDetector | None:
        """Return a detector of speech for this many slots; None without an activity network."""
        return next((network_detector(self.features, activity, slots) for activity in self._activity), None)

    def piece_energies(self, slots: int) -> PieceEnergies:
        """Return what computes the energies of pieces in this many slots."""
        return PieceEnergies(HostFeatures(self.features), slots)

    @property
    def device(self) -> torch.device:
        """The device on which the model computes and keeps its state."""
        return self.features.mean.device

    def forward(
        self, samples: Tensor, lengths: Tensor, chunk_frames: int = 0, left_frames: int | None = None
    ) -> Emissions:
        """Return the log-probabilities of whole utterances: [batch, samples of whole frames], `lengths` in frames."""
        emissions: Emissions = self.encoder(self.inputs(samples), lengths, chunk_frames, left_frames)
        return emissions

    def inputs(self, samples: Tensor) -> Tensor:
        """Return what the encoder reads of whole utterances."""
        padded = functional.pad(samples, (self.encoder_context, 0))
        return self.features(padded).to(self._dtype) if self.reads_features else padded

    @property
    def reads_features(self) -> bool:
        """Whether the encoder reads features. Otherwise it reads samples, and only the activity network reads them."""
        return isinstance(self.encoder, Encoder)

    @property
    def encoder_context(self) -> int:
        """How many samples before its first frame the encoder needs."""
        return self.features.context if self.reads_features else STEM_CONTEXT

    @torch.inference_mode()
    def frames(self, samples: Tensor, lengths: Tensor, chunk_frames: int) -> Tensor:
        """Return the frames of whole utterances, as `encode` gives them."""
        left = self.description.encoder.left_frames
        return self.encoder.frames(self.inputs(samples), lengths, chunk_frames, left).float()

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        state = {"wav": self.features.mean.new_zeros(slots, self.context), **self.encoder.make_state(slots)}
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
        emissions = self.step_tensors(state, torch.tensor(slots, device=self.device), self._audio(samples))
        return {name: host_array(tensor) for name, tensor in emissions.items()}

    @torch.inference_mode()
    def step_tensors(self, state: ModelState, slots: Tensor, samples: Tensor) -> Emissions:
        """Compute one step like `step`, with tensors on the device of the model, and samples in [-1, 1)."""
        if samples.shape[1] % self.frame_samples:
            raise ValueError(f"a step must have a multiple of {self.frame_samples} samples, not {samples.shape[1]}")
        recent = self._recent(state, slots, samples)
        # This comes before the encoder, because the weights of the encoder fill the cache.
        emissions: Emissions = {}
        energies = self._energies(recent)
        for activity in self._activity:
            emissions[ACTIVITY] = activity.step(state, slots, energies)
        return emissions | self.encoder.emissions(self._encode(state, slots, recent, energies))

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        """Return the emissions of a segment that is complete, [1, frames, units]."""
        yield
        return self._whole(samples)

    @torch.inference_mode()
    def _whole(self, samples: NDArray[np.int16]) -> Emissions:
        if not len(samples) or len(samples) % self.frame_samples:
            raise ValueError(f"a segment must have a multiple of {self.frame_samples} samples, not {len(samples)}")
        emissions = self.encoder.emissions(self.encoder.whole(self.inputs(self._audio(samples).unsqueeze(0))))
        return {name: host_array(tensor) for name, tensor in emissions.items()}

    @torch.inference_mode()
    def emissions(self, frames: Floats) -> Emissions:
        """Return the log-probabilities of the heads that read these frames, [batch, frames, units]."""
        emissions = self.encoder.emissions(torch.from_numpy(frames).to(self.device, self._dtype))
        return {name: host_array(tensor) for name, tensor in emissions.items()}

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[Floats, Floats]:
        """Return the frames of the next samples of these slots, and the energies for the activity network."""
        frames, energies = self.encode(state, torch.tensor(slots, device=self.device), self._audio(samples))
        return host_array(frames), host_array(energies)

    @torch.inference_mode()
    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        """Return the probabilities of speech in the frames after the last step of this slot. Change no state."""
        probabilities: list[float] = []
        for activity in self._activity:
            energies = self._energies(torch.cat((state["wav"][slot], self._audio(samples))).unsqueeze(0))
            state_copy = {name: state[name][[slot]] for name in activity.make_state(1)}
            first = torch.zeros(1, dtype=torch.long, device=self.device)
            probabilities = activity.step(state_copy, first, energies)[0, :, 0].exp().tolist()
        return probabilities

    @torch.inference_mode()
    def encode(self, state: ModelState, slots: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the frames of the encoder, which are the input of the heads, and the energies of the samples."""
        recent = self._recent(state, slots, samples)
        energies = self._energies(recent)
        return self._encode(state, slots, recent, energies), energies

    def _encode(self, state: ModelState, slots: Tensor, recent: Tensor, energies: Tensor) -> Tensor:
        if not self.reads_features:
            return self.encoder.step(state, slots, recent[:, self.context - self.encoder_context :])
        return self.encoder.step(state, slots, self.features.normalise(energies))

    def _recent(self, state: ModelState, slots: Tensor, samples: Tensor) -> Tensor:
        """Return the next samples after those before them, which the slots keep."""
        recent = torch.cat((state["wav"].index_select(0, slots), samples), dim=1)
        state["wav"].index_copy_(0, slots, recent[:, -self.context :])
        return recent

    def _energies(self, recent: Tensor) -> Tensor:
        return self.features.energies(recent[:, self.context - self.features.context :])

    def _audio(self, samples: NDArray[np.int16]) -> Tensor:
        return torch.from_numpy(samples).to(self.device).float() / 32768

    @property
    def _dtype(self) -> torch.dtype:
        return self.encoder.dtype

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AcousticNetwork:
        for activity in self._activity:
            activity._apply(fn, recurse)
        return super()._apply(fn, recurse)


def encoder_of(config: AnyEncoder) -> Encoder | MoonshineEncoder:
    """Return an encoder of this shape, with random weights."""
    return Encoder(config) if isinstance(config, EncoderConfig) else MoonshineEncoder(config)


def read_activity(folder: Path) -> ActivityNetwork | None:
    """Return the activity network of a bundle, None if it has none. BundleError if it is damaged."""
    path = folder / ACTIVITY_FILE
    if not path.is_file():
        return None
    network = ActivityNetwork()
    _fill(network, path, f"{path} does not contain an activity network")
    return network


def save_activity(network: ActivityNetwork, folder: Path) -> None:
    """Write the activity network of a bundle, replacing the file as a whole."""
    write_weights(weights_of(network), folder / ACTIVITY_FILE)


def weights_of(network: nn.Module, dtype: torch.dtype = torch.float32) -> dict[str, NDArray[Any]]:
    """Return the weights of a network as arrays."""
    return {name: tensor.detach().cpu().to(dtype).numpy() for name, tensor in network.state_dict().items()}


def _fill(network: nn.Module, path: Path, failure: str) -> None:
    """Give a network the weights in a file. BundleError begins with `failure` if they do not fit."""
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in read_weights(path).items()})
    except RuntimeError as error:
        raise BundleError(f"{failure}: {error}") from error


def quick_precision(device: torch.device | str) -> str:
    """Return the number format in which torch is fastest: bfloat16 on processors that support it, else float32."""
    capabilities = torch.cpu.get_capabilities() if torch.device(device).type == "cpu" else {}
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
