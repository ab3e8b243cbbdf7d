"""The exact recogniser in steps. The models of an exact `asr_heads` load these classes in place of the shipped ones.

The steps, their adapters and passages are the shipped ones. Only their results are different: the frames of the encoder
are the emissions of the exact model, filled up to the usual width.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.adapters.activity_model import ActivityModel
from streamer.adapters.encoder_model import EncoderModel
from streamer.adapters.instance import Instance
from streamer.adapters.transcript_model import TranscriptModel
from streamer.engine.heads.activity_head import ActivityHead, Energies
from streamer.engine.heads.passage import Followed
from streamer.engine.heads.speech_encoder import SpeechEncoder
from streamer.engine.heads.transcript_head import EncodedAcoustics, FrameHeads
from streamer.engine.models.acoustic_model import AcousticModel
from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.encoder import SUBSAMPLING
from streamer.engine.models.features import LogMel
from streamer.engine.models.streaming_model import Emissions, ModelState
from streamer.engine.open_streams import OpenStreams
from streamer.engine.recogniser import Recogniser
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_recogniser import searches
from streamer.testing.exact_speech import UNITS

WIDTH, MELS = 192, 80  # as in the configurations of the steps
HEAD = "characters"


class ExactEncoding(ExactModel):
    """The exact model as an encoder, which returns frames and energies."""

    features = LogMel(MELS)  # for the pieces in which the activity head looks for speech
    description = SimpleNamespace(encoder=SimpleNamespace(width=WIDTH, mels=MELS))

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the emissions as frames, and energies of zero."""
        emissions = self.step(state, slots, samples)[HEAD]
        frames = np.zeros((*emissions.shape[:2], WIDTH), np.float32)
        frames[:, :, : len(UNITS)] = emissions
        return torch.from_numpy(frames), torch.zeros(len(samples), SUBSAMPLING * frames.shape[1], MELS)


class ExactFrames(ExactModel):
    """The exact model as a transcript head: reads emissions in frames, and keeps no state."""

    def make_state(self, slots: int) -> ModelState:
        """Return an empty state."""
        return {}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Do nothing."""

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[Any]) -> Emissions:
        """Return the emissions in these frames, which take the place of samples."""
        return {HEAD: samples[:, :, : len(UNITS)]}


class WithoutDetector(EncodedAcoustics):
    """Takes steps that were computed elsewhere. It has no detector, so only words say where somebody speaks."""

    detects = False


class SilentActivity(ActivityHead):
    """Follows every passage, so that it notices a missing one, but reports no activity."""

    def follow(self, batch: Sequence[Energies]) -> list[Followed]:
        """Return the passages without readings."""
        return [Followed(each.passage, each.probabilities[:0], ()) for each in super().follow(batch)]


class ExactEncoder(EncoderModel):
    """The first step."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Make the encoder."""
        torch.set_num_threads(1)
        model = cast("AcousticModel", ExactEncoding())
        self._encoder = SpeechEncoder(model, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._encoder.streams


class ExactActivity(ActivityModel):
    """The activity head. The exact model reports no activity."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Make the head with a network that was not trained."""
        torch.set_num_threads(1)
        network = ActivityNetwork().eval().requires_grad_(False)
        mels = len(network.mean)
        self._head = SilentActivity(network, mels=mels, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._head.streams


class ExactTranscript(TranscriptModel):
    """The last step."""

    def load(self, instance: Instance) -> Recogniser:
        """Make the recogniser."""
        torch.set_num_threads(1)
        self._width = WIDTH
        frames = ExactFrames()
        acoustics = WithoutDetector(cast("FrameHeads", frames))
        return Recogniser(
            frames,
            searches(instance.slots),
            slots=instance.slots,
            acoustics=acoustics,
            idle_limit_s=instance.idle_limit_s,
        )
