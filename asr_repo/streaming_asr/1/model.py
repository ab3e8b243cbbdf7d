"""The whole recogniser as one model. It gets audio and gives events."""

from __future__ import annotations

from streamer.engine.adapters.event_model import EventModel
from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.reader_calls import ReaderCalls
from streamer.engine.recogniser import Recogniser


class TritonPythonModel(EventModel):
    """An instance on the device that Triton has chosen."""

    def load(self, instance: Instance) -> Recogniser:
        """Load the recogniser from the bundle."""
        device = instance.device
        from streamer.engine.bundle import load_recogniser  # here, because it takes a second

        return load_recogniser(
            instance.bundle,
            slots=instance.slots,
            device=device,
            idle_limit_s=instance.idle_limit_s,
            reader=ReaderCalls(instance.reader_languages),
            reads_alone=instance.reads_alone,
            threads=instance.threads,
            pipelined=instance.pipelined,
        )
