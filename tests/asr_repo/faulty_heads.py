"""Makes a model repository whose activity head fails once on request, and that has keyword spotters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.acoustics.bundle_files import read_description
from streamer.heads.keywords import KeywordNetwork
from tests.heads.keyword_networks import with_equal_layers
from tests.project import BUNDLE
from workshop.keywords.measurement import keyword_repository

Fault = Literal["raises", "fails", "is slow"]
FAULT_FILE = "fault"
SLOW_S = 1.0
HEAD = "activity_head"
SPOTTER = "asr_spotter"
TRAINED = Path(__file__).parents[2] / "examples" / "keywords"

_MODEL = """import time
from pathlib import Path

from streamer.heads.step_models import ActivityModel

FAULT = Path({fault!r})


class TritonPythonModel(ActivityModel):
    def load(self, instance):
        streams = super().load(instance)
        self._step, self._head._network.step = self._head._network.step, self._compute_step
        return streams

    def _compute_step(self, *arguments):
        if self._fault("fails"):
            raise RuntimeError("out of memory")
        return self._step(*arguments)

    def execute(self, requests):
        if self._fault("raises", {{request.correlation_id() for request in requests}}):
            raise RuntimeError("an error in the adapter")
        if self._fault("is slow"):
            time.sleep({slow})
        return super().execute(requests)

    def _fault(self, kind, streams=frozenset()):
        if not FAULT.exists():
            return False
        requested, _, only = FAULT.read_text().partition(" of ")
        due = requested == kind and (not only or streams == {{int(only)}})
        if due:
            FAULT.unlink()
        return due
"""


def faulty_repository(folder: Path, idle_s: float) -> Path:
    """Link the shipped models into this folder, except for one head. It forgets an idle sequence after `idle_s`."""
    keyword_repository(folder, restless_network(read_description(BUNDLE).encoder.frame_width))
    keyword_repository(folder, KeywordNetwork.load(TRAINED), "spotter_head", SPOTTER)
    (folder / HEAD).unlink()
    shipped, head = asr_repository() / HEAD, folder / HEAD
    (head / "1").mkdir(parents=True)
    config = (shipped / "config.pbtxt").read_text()
    idle = rf"\1 {int(idle_s * 1e6)}"
    config, changed = re.subn(r"(max_sequence_idle_microseconds:) \d+", idle, config)
    assert changed == 1
    (head / "config.pbtxt").write_text(config)
    (head / "1" / "model.py").write_text(_MODEL.format(fault=str(folder / FAULT_FILE), slow=SLOW_S))
    return folder


def restless_network(width: int) -> KeywordNetwork:
    """Return an untrained network that finds its only word again and again, in frames of any encoder."""
    # So small that no unit is ever certain, and the word is always among those that may be said.
    phones = np.random.default_rng(0).normal(0, 0.1, (width, 3))
    return with_equal_layers(("word",), ((0, (2,)),), phones, np.zeros(3), threshold=0.01, doubt=3.0)


def let_fail(repository: Path, fault: Fault) -> None:
    """Let the next batch of the activity head fail, also if it is a probe's."""
    _request(repository, fault)


def let_raise(repository: Path, stream: int) -> None:
    """Let the head raise at the next batch that has a request of this stream, and of no other."""
    _request(repository, f"raises of {stream}")


def _request(repository: Path, fault: str) -> None:
    partial = repository / f"{FAULT_FILE}.partial"
    partial.write_text(fault)
    partial.replace(repository / FAULT_FILE)


def failed(repository: Path) -> bool:
    """Return whether the fault has happened."""
    return not (repository / FAULT_FILE).exists()
