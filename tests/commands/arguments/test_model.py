"""The model that a command uses, through a real Triton server."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from streamer.audio.audio_file import AudioFile
from streamer.engine.graphs.loading import load_public_model
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_events import Final
from streamer.engine.stream_options import StreamOptions
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder
from tests.command_run import PHRASE, streamer


def test_a_public_model(tmp_path: Path) -> None:
    """The service of the command has the words that the bare engine finds with this model."""
    folder = tmp_path / "sherpa-onnx-streaming-zipformer-1.0"
    folder.mkdir()
    make_transducer_folder(folder)
    with AudioFile(PHRASE) as audio:
        samples = np.concatenate([chunk.reshape(-1) for chunk in audio.chunks()])
    recogniser = load_public_model(folder, name="exact", slots=1)
    recogniser.open(1, StreamOptions(search="greedy", written=True))
    [(_, events)] = recogniser.step([Chunk(1, samples, end=True)])
    assert isinstance(events, list)
    expected = [event.text for event in events if isinstance(event, Final)]
    done = streamer(PHRASE, "--model", str(folder), "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    found = [event["text"] for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "final"]
    assert found == expected
    assert len(found) > 1


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """What is wrong with a folder is a sentence, and nothing is started."""
    folder = make_transducer_folder(tmp_path)
    encoder = folder / "encoder-epoch-1-avg-1.onnx"
    encoder.write_bytes(encoder.read_bytes()[:5000])
    done = streamer(PHRASE, "--model", str(folder))
    assert done.returncode == 2
    assert "cut off or is not an ONNX graph: copy it again;" in done.stderr
    done = streamer(PHRASE, "--model", str(tmp_path.parent), "--server", "127.0.0.1:1")
    assert done.returncode == 2
    assert "it has no config.pbtxt, and no public model" in done.stderr


def test_a_folder_for_a_service_elsewhere(tmp_path: Path) -> None:
    """Only a service of its own can load a folder."""
    done = streamer(PHRASE, "--model", str(make_transducer_folder(tmp_path)), "--server", "127.0.0.1:1")
    assert done.returncode == 1
    assert "leave out --server" in done.stderr
