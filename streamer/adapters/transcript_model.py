"""The transcript head as the last step of an ensemble. It gets frames and activity, and gives events."""

from __future__ import annotations

from typing import Any

from streamer.adapters.event_model import EventModel
from streamer.adapters.instance import Instance
from streamer.adapters.requests import array, options_of, text, texts
from streamer.engine.heads.passage import Passage, activity_of
from streamer.engine.heads.speech_encoder import AGAIN
from streamer.engine.heads.transcript_head import EncodedChunk
from streamer.engine.recogniser import Recogniser


class TranscriptModel(EventModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> Recogniser:
        """Load everything that comes after the encoder from the bundle."""
        device = instance.device
        from streamer.engine.bundle import load_transcript_head

        self._width = next(port["dims"][1] for port in instance.config["input"] if port["name"] == "FRAMES")
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

    def options(self, request: Any) -> dict[str, Any]:
        """Return the options of a request without the option that only the encoder reads."""
        options = options_of(request)
        options.pop(AGAIN, None)
        return options

    def other_events(self, request: Any) -> list[str]:
        """Return the events of other heads."""
        return texts(request, "HEAD_EVENTS")
