"""The encoder as a step of an ensemble. It gets audio, and gives frames, energies and their passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamer.adapters.instance import Instance
from streamer.adapters.requests import END, START, array, options_of
from streamer.adapters.step_model import StepModel
from streamer.engine.heads.speech_encoder import Sound
from streamer.engine.open_streams import OpenStreams
from streamer.engine.stream_events import StreamError


class EncoderModel(StepModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the encoder from the bundle."""
        device = instance.device
        from streamer.engine.bundle import load_speech_encoder

        self._encoder = load_speech_encoder(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )
        return self._encoder.streams

    def compute(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
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
