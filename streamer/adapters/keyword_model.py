"""A keyword spotter as a step of an ensemble: the worked example of docs/how-to/heads.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamer.adapters.instance import Instance
from streamer.adapters.requests import END, START, array, text
from streamer.adapters.step_model import StepModel
from streamer.engine.heads.keyword_network import KeywordNetwork
from streamer.engine.heads.keyword_spotter import Frames, KeywordSpotter, as_event
from streamer.engine.heads.passage import Passage
from streamer.engine.open_streams import OpenStreams

NAME = "keywords"
"""The name of this head in the events that the client receives."""


class KeywordModel(StepModel):
    """An instance. It computes with numpy, so it starts at once."""

    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the network from the folder of the version."""
        network = KeywordNetwork.load(instance.bundle)
        self._spotter = KeywordSpotter(network, slots=instance.slots, idle_limit_s=instance.idle_limit_s)
        return self._spotter.streams

    def compute(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        """Find the keywords in a batch."""
        return [
            {"HEAD_EVENTS": np.array([as_event(NAME, keyword).encode() for keyword in keywords], dtype=np.object_)}
            for keywords in self._spotter.listen([self._frames(request) for request in requests])
        ]

    def _frames(self, request: Any) -> Frames:
        passage, flags = Passage.from_json(text(request, "PASSAGE")), request.flags()
        frames = array(request, "FRAMES", self._spotter.network.width)
        return Frames(request.correlation_id(), passage, frames, bool(flags & START), bool(flags & END))
