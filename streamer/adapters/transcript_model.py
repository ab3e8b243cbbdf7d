"""The transcript head as the last step of an ensemble: frames and activity in, events out."""

from __future__ import annotations

from typing import Any

from streamer.adapters.event_model import EventModel
from streamer.adapters.instance import Instance
from streamer.adapters.requests import array, options_of, text, texts
from streamer.engine.heads.passage import Passage, activity_of
from streamer.engine.heads.speech_encoder import AGAIN
from streamer.engine.heads.transcript_head import Heard
from streamer.engine.recogniser import Recogniser


class TranscriptModel(EventModel):
    """One instance, on the device that Triton has chosen."""

    def load(self, instance: Instance) -> Recogniser:
        """Load everything that comes after the encoder from the bundle."""
        device = instance.device
        from streamer.engine.bundle import load_transcript_head

        self._width = next(each["dims"][1] for each in instance.config["input"] if each["name"] == "FRAMES")
        return load_transcript_head(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )

    def content(self, request: Any) -> Heard:
        """The passage of a request. StreamError if an earlier step has failed."""
        passage = Passage.from_json(text(request, "PASSAGE"))
        found = activity_of(text(request, "ACTIVITY"))
        Passage(failure=found.failure).check()
        frames = array(request, "FRAMES", self._width)
        return Heard(passage, frames, found.readings, self.samples(request), found.pieces)

    def samples(self, request: Any) -> int:
        """How much audio the frames of a request stand for."""
        passage = Passage.from_json(text(request, "PASSAGE"))
        return passage.frames * self._recogniser.model.frame_samples

    def options(self, request: Any) -> dict[str, Any]:
        """The options of a request, without those for the encoder alone."""
        given = options_of(request)
        given.pop(AGAIN, None)
        return given

    def other_events(self, request: Any) -> list[str]:
        """The events of other heads."""
        return texts(request, "HEAD_EVENTS")
