"""What Triton tells an instance of a model when the instance starts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamer.base.limits import READER
from streamer.base.machine import processors
from streamer.base.torch_import import CPU, reason_not_on_gpu
from streamer.models.readers import find_reader, reader_languages

_LOG: Final = logging.getLogger(__name__)

BUNDLE = "bundle"
"""The parameter in config.pbtxt that names the folder of the bundle, relative to the folder of the model."""

THREADS = "threads"
"""The parameter in config.pbtxt for the number of threads that compute a batch."""

PIPELINED = "pipelined"
"""The parameter in config.pbtxt that says whether the networks may compute a batch while another one is searched."""

READS_ALONE = "reads_alone"
"""The parameter in config.pbtxt that leaves the words of all streams to the reader, if it is `true`."""


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
    def reader_languages(self) -> tuple[str, ...]:
        """The codes of the languages of the model `reader` in the same repository.

        A service puts its weights there, or a link to them. Otherwise that model uses the best reader of this machine.
        """
        own = self.folder.parent / READER / BUNDLE
        return reader_languages(own if own.is_dir() else find_reader())

    @property
    def has_bundle(self) -> bool:
        """Whether the configuration names the folder of the bundle."""
        return BUNDLE in self.config.get("parameters", {})

    @property
    def reads_alone(self) -> bool:
        """Whether the configuration leaves the words of all streams to the reader."""
        parameter = self.config.get("parameters", {}).get(READS_ALONE)
        return parameter is not None and parameter["string_value"] == "true"

    @property
    def bundle(self) -> Path:
        """The folder with the weights; by default, the folder of this version."""
        parameter = self.config.get("parameters", {}).get(BUNDLE)
        return self.folder / (parameter["string_value"] if parameter else self.version)

    @property
    def threads(self) -> int:
        """How many threads compute a batch: what the configuration says, or the share of the processors.

        In a pipeline, one of these is left for the thread of the other batch. ValueError if the configuration has no
        whole number from 1 on.
        """
        parameter = self.config.get("parameters", {}).get(THREADS)
        if parameter is None:
            instances = sum(group.get("count", 1) for group in self.config.get("instance_group", ()))
            return max(1, processors() // max(1, instances) - self.pipelined)
        value = str(parameter["string_value"])
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"the parameter {THREADS!r} must be a whole number from 1 on, not {value!r}")
        return int(value)

    @property
    def pipelined(self) -> bool:
        """Whether the networks may compute a batch while another one is searched: as configured, or on a GPU.

        On a CPU both want the same processors, and then fewer and larger batches cost less. ValueError if the
        configuration has neither `true` nor `false`.
        """
        parameter = self.config.get("parameters", {}).get(PIPELINED)
        if parameter is None:
            return self.gpu is not None
        value = str(parameter["string_value"])
        if value not in ("true", "false"):
            raise ValueError(f"the parameter {PIPELINED!r} must be true or false, not {value!r}")
        return value == "true"

    @property
    def gpu(self) -> int | None:
        """The number of the GPU that Triton has chosen for the instance; None for the CPU."""
        return int(self._args["model_instance_device_id"]) if self._args["model_instance_kind"] == "GPU" else None

    @property
    def device(self) -> str:
        """The name of the device that computes, in torch. Only if Triton has chosen a GPU, torch is imported."""
        if self.gpu is None:
            return CPU
        if reason := reason_not_on_gpu():
            _LOG.warning("%s computes on the CPU, although there is a GPU: %s", self.name, reason)
            return CPU
        return f"cuda:{self.gpu}"
