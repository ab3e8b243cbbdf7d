"""A public model as one model of Triton. It gets audio and gives events."""

from __future__ import annotations

from streamer.adapters.event_model import EventModel
from streamer.adapters.instance import Instance
from streamer.engine.graphs.loading import load_public_model
from streamer.engine.graphs.placement import on_gpu
from streamer.engine.recogniser import Recogniser


class TritonPythonModel(EventModel):
    """An instance. Its configuration names the folder of the public model."""

    def load(self, instance: Instance) -> Recogniser:
        """Load the recogniser. ModelFolderError says what is wrong with the folder."""
        gpu = instance.gpu
        return load_public_model(
            instance.bundle,
            name=instance.model,
            slots=instance.slots,
            idle_limit_s=instance.idle_limit_s,
            placement=None if gpu is None else on_gpu(gpu),
        )
