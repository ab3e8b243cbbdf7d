"""What Triton tells an instance of a model when the instance starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.base.torch_import import import_torch

if TYPE_CHECKING:
    import torch

BUNDLE = "bundle"
"""The parameter in config.pbtxt that names the folder of the bundle, relative to the folder of the model."""


class Instance:
    """The name, configuration and device of an instance."""

    def __init__(self, args: Mapping[str, str]) -> None:
        """`args` are the arguments of initialize()."""
        self._args = args
        self.config: dict[str, Any] = json.loads(args["model_config"])
        self.model, self.version = args["model_name"], args["model_version"]
        self.name = args["model_instance_name"]

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return Path(self._args["model_repository"])

    @property
    def slots(self) -> int:
        """How many sequences Triton may send to the instance at a time."""
        return int(self.config["sequence_batching"]["oldest"]["max_candidate_sequences"])

    @property
    def idle_limit_s(self) -> float:
        """The time after which the instance must drop a stream that gets no request."""
        # Triton does not report when it drops an idle sequence. So the stream is dropped a little later.
        return int(self.config["sequence_batching"]["max_sequence_idle_microseconds"]) / 1e6 + 2

    @property
    def bundle(self) -> Path:
        """The folder with the weights; by default, the folder of this version."""
        parameter = self.config.get("parameters", {}).get(BUNDLE)
        return self.folder / (parameter["string_value"] if parameter else self.version)

    @property
    def gpu(self) -> int | None:
        """The number of the GPU that Triton has chosen for the instance; None for the CPU."""
        return int(self._args["model_instance_device_id"]) if self._args["model_instance_kind"] == "GPU" else None

    @property
    def device(self) -> torch.device:
        """The device that computes. On a CPU, torch gets one thread."""
        import_torch()  # here, because not all models need torch, and the import takes more than a second
        import torch

        if self.gpu is not None and torch.cuda.is_available():
            return torch.device("cuda", self.gpu)
        torch.set_num_threads(1)  # instances share the cores, so more threads would only wait for other instances
        return torch.device("cpu")
