"""The model that a command uses, through a real Triton server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import AudioFile
from streamer.cli import parser_of
from streamer.commands.arguments.model import AskedModel, asked_model
from streamer.engine.graphs.loading import load_public_model
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_events import Final
from streamer.engine.stream_options import StreamOptions
from streamer.library.model_library import ModelLibrary
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder
from streamer.triton import MODEL, TritonError
from streamer.triton.repository import asr_repository
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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelLibrary:
    """A library with the model `mine`, and no service on this machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("streamer.commands.arguments.model.is_ready", lambda: False)
    library = ModelLibrary()
    (library.folder / "mine").mkdir(parents=True)
    make_transducer_folder(library.folder / "mine")
    return library


def asked(*arguments: str) -> AskedModel:
    """What these arguments ask for."""
    return asked_model(parser_of(None).read([PHRASE, *arguments], intermixed=True))


def test_a_name(home: ModelLibrary) -> None:
    """It is a model of this machine, or of the service that was named."""
    assert asked() == AskedModel()
    assert asked("--model", "mine") == AskedModel(folder=home.folder / "mine")
    assert asked("--model", "mine", "--server", "embedded") == AskedModel(folder=home.folder / "mine")
    assert asked("--model", "mine", "--server", "127.0.0.1:1") == AskedModel(name="mine")
    assert asked("--model", "shipped") == AskedModel(folder=asr_repository() / MODEL)
    assert asked("--model", "default") == AskedModel(name="default")


@pytest.mark.usefixtures("home")
def test_a_name_for_the_bare_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No service is used, so the variable that names one means nothing."""
    monkeypatch.setenv("STREAMER_SERVER", "127.0.0.1:1")
    options = parser_of("evaluate").read(["talk.tsv", "--engine", "--model", "mine"])
    assert asked_model(options).folder == ModelLibrary().folder / "mine"
    options = parser_of("evaluate").read(["talk.tsv", "--engine", "--model", "shipped"])
    assert asked_model(options) == AskedModel()


@pytest.mark.usefixtures("home")
def test_a_shipped_model() -> None:
    """The recogniser in steps is for a service of its own; a step alone is no model."""
    for server in ((), ("--server", "embedded")):
        assert asked("--model", "asr_heads", *server) == AskedModel(folder=asr_repository() / "asr_heads")
    assert asked("--model", "asr_heads", "--server", "127.0.0.1:1") == AskedModel(name="asr_heads")
    with pytest.raises(TritonError, match="there is no model speech_encoder on this machine"):
        asked("--model", "speech_encoder")


def test_a_name_of_a_running_service(home: ModelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a service runs on this machine, it may have models with other names. Those that are here come first."""
    monkeypatch.setattr("streamer.commands.arguments.model.is_ready", lambda: True)
    for name in ("english", "asr_heads"):
        assert asked("--model", name) == AskedModel(name=name)
    assert asked("--model", "mine") == AskedModel(folder=home.folder / "mine")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mina", r"there is no model mina on this machine; did you mean mine\?$"),
        ("zipformer-bn", r"did you mean sherpa-onnx-streaming-zipformer-bn-vosk-2026-02-09\?$"),
        ("zebra", r"`streamer models` lists those that can be fetched\.$"),
        ("sherpa-onnx-streaming-zipformer-en-2023-06-26", r"yet: `streamer models get sherpa-\S+-26` fetches it\.$"),
        (
            "broken",
            r"the model broken cannot be used: .*no decoder.*; `streamer models get broken` fetches it",
        ),
    ],
)
def test_a_name_that_means_nothing(home: ModelLibrary, name: str, words: str) -> None:
    """The sentence has the nearest names, and the command that fetches the model."""
    (home.folder / "broken").mkdir()
    shutil.copy(home.folder / "mine" / "encoder-epoch-1-avg-1.onnx", home.folder / "broken")
    with pytest.raises(TritonError, match=words):
        asked("--model", name)


def test_the_default_of_this_machine(home: ModelLibrary) -> None:
    """A service of our own gets it, and a line says so. One that cannot be used stops the command."""
    home.set_default("mine")
    done = streamer(PHRASE, "--server", "embedded", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "streamer: using mine, the default model of this machine.\n")
    assert json.loads(done.stdout)["text"]
    (home.folder / "mine" / "tokens.txt").unlink()
    done = streamer(PHRASE, "--server", "embedded")
    assert done.returncode == 1
    assert "tokens.txt is missing" in done.stderr
    assert "It is the default; `streamer models default shipped` changes that." in done.stderr
