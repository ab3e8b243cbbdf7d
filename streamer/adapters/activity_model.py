"""The activity head as a step of an ensemble. It gets energies, and gives the probability, start and end of speech."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamer.adapters.instance import Instance
from streamer.adapters.requests import END, START, array, text
from streamer.adapters.step_model import StepModel
from streamer.engine.heads.activity_head import Energies
from streamer.engine.heads.passage import Passage
from streamer.engine.open_streams import OpenStreams


class ActivityModel(StepModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the activity network from the bundle."""
        device = instance.device
        from streamer.engine.bundle import load_activity_head

        self._head = load_activity_head(
            instance.bundle, slots=instance.slots, device=device, idle_limit_s=instance.idle_limit_s
        )
        return self._head.streams

    def compute(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        """Detect the activity in a batch."""
        return [
            {"PROBABILITY": activity.probabilities, "ACTIVITY": activity.to_json()}
            for activity in self._head.follow([self._energies(request) for request in requests])
        ]

    def _energies(self, request: Any) -> Energies:
        passage, flags = Passage.from_json(text(request, "PASSAGE")), request.flags()
        energies = array(request, "ENERGIES", self._head.mels)
        return Energies(request.correlation_id(), passage, energies, bool(flags & START), bool(flags & END))
