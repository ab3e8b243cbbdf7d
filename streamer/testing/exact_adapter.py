"""Runs in Triton: the shipped adapter with the exact recogniser, as one model or in steps, which may have a fault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from streamer.base.events import StreamEvent
from streamer.base.torch_import import import_torch
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.engine.acoustics.acoustic_model import SpeechModel
from streamer.engine.acoustics.encoder_config import SUBSAMPLING
from streamer.engine.acoustics.features import LogMel
from streamer.engine.acoustics.speech_detector import PieceEnergies
from streamer.engine.acoustics.streaming_model import Emissions, Floats, ModelState
from streamer.engine.adapters.event_model import EventModel
from streamer.engine.adapters.instance import Instance
from streamer.engine.recogniser import Recogniser
from streamer.engine.slots import OpenStreams
from streamer.heads.activity_head import ActivityHead, Energies
from streamer.heads.passage import Followed
from streamer.heads.speech_encoder import SpeechEncoder
from streamer.heads.step_models import ActivityModel, EncoderModel, TranscriptModel, frame_width
from streamer.heads.transcript_head import EncodedAcoustics, FrameHeads
from streamer.testing.exact_model import ExactModel, FaultyRecogniser, exact_recogniser, searches
from streamer.testing.exact_service import Fault
from streamer.testing.exact_speech import UNITS

if TYPE_CHECKING:
    from streamer.engine.reader.reader_pass import ReaderPass
    from streamer.engine.text.punctuation_model import PunctuationModel


def adapter(
    source: str, fault: Fault | None = None, *, punctuation: bool = False, reader: bool = False
) -> type[EventModel]:
    """Return the class for Triton, with the exact recogniser. `source` is the file of the model.

    With `punctuation`, the shipped punctuation model decides marks. With `reader`, the model `reader` reads segments.
    """

    class ExactAdapter(EventModel):
        """The shipped adapter with another recogniser."""

        def load(self, instance: Instance) -> Recogniser:
            if fault == "does not load":
                raise RuntimeError("no weights")
            reading = _reader_pass() if reader else None
            if fault is None:
                marks = _shipped_punctuation() if punctuation else None
                return exact_recogniser(instance.slots, instance.idle_limit_s, marks, reading)
            folder = Path(source).resolve().parent
            return FaultyRecogniser(fault, folder, instance.slots, instance.idle_limit_s, reading)

        def text(self, event: StreamEvent) -> str:
            return "nonsense" if fault == "talks nonsense" else super().text(event)

    return ExactAdapter


def _shipped_punctuation() -> PunctuationModel:
    import_torch()  # most of these models need none
    import streamer.engine.text.punctuation_model as models

    return models.PunctuationModel.load(asr_repository() / MODEL / "1")


def _reader_pass() -> ReaderPass:
    # Imported only here, because these modules import compiled loops, and the other one Triton's.
    from streamer.engine.adapters.reader_calls import ReaderCalls
    from streamer.testing.exact_reader import exact_reader_pass

    return exact_reader_pass(ReaderCalls())


# The exact recogniser in steps. The models of an exact `asr_heads` load these classes in place of the shipped ones.

MELS = 80  # as in the configurations of the steps
HEAD = "characters"


class ExactEncoding(ExactModel):
    """The exact model as an encoder, which returns frames and energies."""

    def __init__(self, width: int) -> None:
        """`width`: the numbers of a frame."""
        self.description = SimpleNamespace(encoder=SimpleNamespace(frame_width=width, mels=MELS))

    def encode_samples(
        self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]
    ) -> tuple[Floats, Floats]:
        """Return the emissions as frames, and energies of zero."""
        emissions = self.step(state, slots, samples)[HEAD]
        frames = np.zeros((*emissions.shape[:2], self.description.encoder.frame_width), np.float32)
        frames[:, :, : len(UNITS)] = emissions
        return frames, np.zeros((len(samples), SUBSAMPLING * frames.shape[1], MELS), np.float32)

    def piece_energies(self, slots: int) -> PieceEnergies:
        """Return what computes the energies of the pieces in which the activity head looks for speech."""
        return PieceEnergies(LogMel.plain(MELS), slots)


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


class DeafNetwork:
    """A network for activity that hears no speech."""

    def make_state(self, slots: int) -> ModelState:
        """Return an empty state."""
        return {}

    def step(self, state: ModelState, slots: Sequence[int], energies: Floats) -> Floats:
        """Return a small probability of speech in each frame."""
        return np.full((len(energies), energies.shape[1] // SUBSAMPLING, 1), -9.0, np.float32)


class SilentActivity(ActivityHead):
    """Follows every passage, so that it notices a missing one, but reports no activity."""

    def follow(self, batch: Sequence[Energies]) -> list[Followed]:
        """Return the passages without readings."""
        return [Followed(each.passage, each.probabilities[:0], ()) for each in super().follow(batch)]


class ExactEncoder(EncoderModel):
    """The first step."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Make the encoder."""
        model = cast("SpeechModel", ExactEncoding(frame_width(instance.config["output"])))
        self._encoder = SpeechEncoder(model, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._encoder.streams


class ExactActivity(ActivityModel):
    """The activity head. The exact model reports no activity."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Make the head with a network that hears nothing."""
        self._head = SilentActivity(DeafNetwork(), mels=MELS, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._head.streams


class ExactTranscript(TranscriptModel):
    """The last step."""

    def load(self, instance: Instance) -> Recogniser:
        """Make the recogniser."""
        self._width = frame_width(instance.config["input"])
        frames = ExactFrames()
        acoustics = WithoutDetector(cast("FrameHeads", frames))
        return Recogniser(
            frames,
            searches(instance.slots),
            slots=instance.slots,
            acoustics=acoustics,
            idle_limit_s=instance.idle_limit_s,
        )
