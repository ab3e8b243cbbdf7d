"""A model of Triton that is a step of an ensemble. It gives requests to a part, such as a head, and answers at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from streamer.engine.adapters.event_model import EventModel
from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.requests import END, START, InstanceMetrics, array, options_of, text, texts
from streamer.engine.loading_times import LOADING, loading_line
from streamer.engine.recogniser import Recogniser
from streamer.engine.slots import OpenStreams
from streamer.engine.stream_events import StreamError
from streamer.heads.activity_head import Energies
from streamer.heads.keywords import Frames, KeywordNetwork, KeywordSpotter, as_event
from streamer.heads.passage import Passage, activity_of
from streamer.heads.speech_encoder import AGAIN, Sound
from streamer.heads.transcript_head import EncodedChunk

Outputs = Mapping[str, str | NDArray[Any]]
"""What a step gives for one request, by name: texts and arrays."""


class StepModel(ABC):
    """An instance of a step that keeps a state for each stream.

    A request that fails still gets a response. Its passage takes the failure to the later steps, so that all of them
    get the START and END of every stream. Only the last step reports the failure to the client.
    """

    @abstractmethod
    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the part, and return its streams."""

    @abstractmethod
    def compute(self, requests: Sequence[Any]) -> list[Outputs]:
        """Compute a batch. Return the outputs of each request by name: an array or a text."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the part."""
        LOADING.mark("Python and libraries")
        instance = Instance(args)
        self._streams = self.load(instance)
        self._metrics = InstanceMetrics(instance)
        LOADING.mark("rest")
        pb_utils.Logger.log_info(loading_line(instance.name))

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request."""
        with self._metrics.computing(requests):
            responses = [
                pb_utils.InferenceResponse([_tensor(name, value) for name, value in outputs.items()])
                for outputs in self.compute(requests)
            ]
        self._streams.expire()
        self._metrics.streams(self._streams.live, self._streams.expired)
        return responses


def frame_width(ports: Sequence[Mapping[str, Any]]) -> int:
    """Return how many numbers a frame has, from the inputs or the outputs of the configuration of a step."""
    return next(int(port["dims"][1]) for port in ports if port["name"] == "FRAMES")


def _tensor(name: str, value: Any) -> Any:
    array = np.array([value.encode()], dtype=np.object_) if isinstance(value, str) else value
    return pb_utils.Tensor(name, array[None])


# The encoder as a step of an ensemble. It gets audio, and gives frames, energies and their passage.


class EncoderModel(StepModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the encoder from the bundle."""
        device = instance.device
        from streamer.heads.loading import load_speech_encoder

        self._encoder = load_speech_encoder(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )
        return self._encoder.streams

    def compute(self, requests: Sequence[Any]) -> list[Outputs]:
        """Encode a batch."""
        return [
            {"PASSAGE": encoded.passage.to_json(), "FRAMES": encoded.frames, "ENERGIES": encoded.energies}
            for encoded in self._encoder.encode([_sound(request) for request in requests])
        ]


def _sound(request: Any) -> Sound:
    flags = request.flags()
    try:
        options = options_of(request)
    except StreamError:
        options = {
            "step_ms": 0
        }  # the encoder refuses this step with START; later, the transcript head reports the error
    return Sound(request.correlation_id(), array(request, "AUDIO"), options, bool(flags & START), bool(flags & END))


# The activity head as a step of an ensemble. It gets energies, and gives the probability, start and end of speech.


class ActivityModel(StepModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the activity network from the bundle."""
        device = instance.device
        from streamer.heads.loading import load_activity_head

        self._head = load_activity_head(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )
        return self._head.streams

    def compute(self, requests: Sequence[Any]) -> list[Outputs]:
        """Detect the activity in a batch."""
        return [
            {"PROBABILITY": activity.probabilities, "ACTIVITY": activity.to_json()}
            for activity in self._head.follow([self._energies(request) for request in requests])
        ]

    def _energies(self, request: Any) -> Energies:
        passage, flags = Passage.from_json(text(request, "PASSAGE")), request.flags()
        energies = array(request, "ENERGIES", self._head.mels)
        return Energies(request.correlation_id(), passage, energies, bool(flags & START), bool(flags & END))


# The transcript head as the last step of an ensemble. It gets frames and activity, and gives events.


class TranscriptModel(EventModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> Recogniser:
        """Load everything that comes after the encoder from the bundle."""
        device = instance.device
        from streamer.heads.loading import load_transcript_head

        self._width = frame_width(instance.config["input"])
        return load_transcript_head(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )

    def content(self, request: Any) -> EncodedChunk:
        """Return the passage of a request. StreamError if an earlier step has failed."""
        passage = Passage.from_json(text(request, "PASSAGE"))
        activity = activity_of(text(request, "ACTIVITY"))
        Passage(failure=activity.failure).check()
        frames = array(request, "FRAMES", self._width)
        return EncodedChunk(passage, frames, activity.readings, self.samples(request), activity.pieces)

    def samples(self, request: Any) -> int:
        """Return the number of samples of audio behind the frames of a request."""
        passage = Passage.from_json(text(request, "PASSAGE"))
        return passage.frames * self._recogniser.model.frame_samples

    def options(self, request: Any) -> dict[str, object]:
        """Return the options of a request without the option that only the encoder reads."""
        options = options_of(request)
        options.pop(AGAIN, None)
        return options

    def other_events(self, request: Any) -> list[str]:
        """Return the events of other heads."""
        return texts(request, "HEAD_EVENTS")


# A keyword spotter as a step of an ensemble: the worked example of docs/how-to/heads.md.

NAME = "keywords"
"""The name of this head in the events that the client receives."""


class KeywordModel(StepModel):
    """An instance. It computes with numpy, so it starts at once."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the network from the folder of the version."""
        network = KeywordNetwork.load(instance.bundle)
        self._spotter = KeywordSpotter(network, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._spotter.streams

    def compute(self, requests: Sequence[Any]) -> list[Outputs]:
        """Find the keywords in a batch."""
        return [
            {"HEAD_EVENTS": np.array([as_event(NAME, keyword).encode() for keyword in keywords], dtype=np.object_)}
            for keywords in self._spotter.listen([self._frames(request) for request in requests])
        ]

    def _frames(self, request: Any) -> Frames:
        passage, flags = Passage.from_json(text(request, "PASSAGE")), request.flags()
        frames = array(request, "FRAMES", self._spotter.network.width)
        return Frames(request.correlation_id(), passage, frames, bool(flags & START), bool(flags & END))
