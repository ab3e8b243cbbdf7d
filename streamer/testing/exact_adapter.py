"""Runs in Triton. It is the shipped adapter with the exact recogniser, which may have a fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamer.adapters.event_model import EventModel
from streamer.adapters.instance import Instance
from streamer.engine.recogniser import Recogniser
from streamer.engine.stream_events import StreamEvent
from streamer.machine.torch_import import import_torch
from streamer.testing.exact_recogniser import FaultyRecogniser, exact_recogniser
from streamer.testing.exact_repository import Fault
from streamer.triton import MODEL
from streamer.triton.repository import asr_repository

if TYPE_CHECKING:
    from streamer.engine.punctuation.punctuation_model import PunctuationModel


def adapter(source: str, fault: Fault | None = None, *, punctuation: bool = False) -> type[EventModel]:
    """Return the class for Triton, with the exact recogniser. `source` is the file of the model.

    With `punctuation`, the shipped punctuation model decides marks.
    """

    class ExactAdapter(EventModel):
        """The shipped adapter with another recogniser."""

        def load(self, instance: Instance) -> Recogniser:
            if fault == "does not load":
                raise RuntimeError("no weights")
            if fault is None:
                marks = _shipped_punctuation() if punctuation else None
                return exact_recogniser(instance.slots, instance.idle_limit_s, marks)
            return FaultyRecogniser(fault, Path(source).resolve().parent, instance.slots, instance.idle_limit_s)

        def text(self, event: StreamEvent) -> str:
            return "nonsense" if fault == "talks nonsense" else super().text(event)

    return ExactAdapter


def _shipped_punctuation() -> PunctuationModel:
    import_torch()  # most of these models need none
    import streamer.engine.punctuation.punctuation_model as models

    return models.PunctuationModel.load(asr_repository() / MODEL / "1")
