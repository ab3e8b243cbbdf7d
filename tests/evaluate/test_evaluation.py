"""Evaluations without the command: the library with the real service and the real engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamer.bridge.service import Service
from streamer.evaluate.evaluation import Setup, evaluation, recognise_with_engine, recognise_with_service
from streamer.evaluate.manifest import read_manifest
from streamer.evaluate.results import Unavailable
from tests.project import SAMPLES

if TYPE_CHECKING:
    from streamer.bridge.service import Service

LIGHT = (
    "import sys; sys.modules.update(torch=None, torchaudio=None); import streamer.evaluate.evaluation; "
    "print(*sys.modules)"
)


def test_a_recording_is_heard_and_judged(service: Service) -> None:
    """Progress is reported for each utterance; the evaluation has the options of the setup."""
    utterances = read_manifest(SAMPLES / "samples.tsv")[2:]
    told = []
    setup = Setup({"step_ms": 640}, sessions=2)
    run = asyncio.run(recognise_with_service(utterances, setup, service.url, lambda *done: told.append(done)))
    assert [utterance for utterance, _ in told] == utterances
    found = evaluation("samples.tsv", setup, run, half="first")
    assert (found.through, found.failed) == ("the service", [])
    assert found.options == {"step_ms": 640, "sessions": 2, "paced": False, "half": "first"}
    assert [" ".join(result.hypothesis) for result in found.scored] == [" ".join(run.results[0].words)]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder without a model is refused with a sentence."""
    with pytest.raises(Unavailable, match=r"is missing: the folder does not contain a trained model\.$"):
        recognise_with_engine([], Setup({}, engine=True, bundle=tmp_path), lambda *_: None)


def test_it_works_without_torch() -> None:
    """Evaluation through a service neither loads nor needs torch."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert "streamer.evaluate.service_runner" in done.stdout
    assert not [name for name in done.stdout.split() if name.startswith(("streamer.engine", "streamer.bridge", "grpc"))]
