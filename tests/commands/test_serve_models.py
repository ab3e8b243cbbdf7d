"""The models that `serve` offers: several by public names, public ones, and some that are loaded on demand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray
from websockets.asyncio.client import connect

from streamer.base.events import Final
from streamer.commands.cli import run
from streamer.engine.public.loading import load_public_model
from streamer.engine.public.moonshine_model import MoonshineModel
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_options import StreamOptions
from streamer.models.layout import WINDOW_FILE
from streamer.models.library import ModelLibrary
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say
from streamer.wire.dialects import deepgram, openai_upload
from tests.bridge.service_client import disturbed, lasting, recognise, rest, text
from tests.bridge.uploads.uploading import form, post, recording
from tests.command_run import SHORT, streamer, streamer_here
from tests.engine.reader.scripted_whisper import write_whisper
from tests.project import ROOT
from tests.samples import TWO_SEGMENTS_S, pcm
from tests.serve_process import Serving, serving
from tests.triton_processes import recognisers
from workshop.graphs.comparison import random_sound
from workshop.graphs.exact_icefall import make_ctc_folder, make_int8_folder, make_whole_icefall_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder
from workshop.graphs.exact_nemo import (
    SIZES,
    make_nemotron_folder,
    make_t_one_folder,
    make_whole_ctc_folder,
    make_whole_folder,
)


async def test_models(tmp_path: Path) -> None:
    """Models come from the repository and from another folder, under public names; one of them can be replaced."""
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    for folder, name in ((repository, "one"), (repository, "three"), (elsewhere, "two")):
        add_exact_model(folder, name, slots=8)
    models = f"one,fast={elsewhere / 'two'}"
    with serving("--repository", str(repository), "--model", models, "--slots", "4") as served:
        assert {name: state["model"] for name, state in served.state["models"].items()} == {
            "default": "one",
            "fast": "two",
        }
        audio = say("hello").tobytes()
        asked: list[dict[str, Any]] = [{}, {"model": "fast"}]
        for options in asked:
            assert text(await recognise(served.url, audio, **options)) == "hello"
        assert served.roll("three", "--name", "slow").returncode == 1
        assert served.roll("three", "--name", "fast").returncode == 0
        assert served.state["models"]["fast"]["model"] == "three"
        assert served.end() == 0


async def test_public_models_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One service has several of them; each session gets the words of the model that it asks for."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    library = ModelLibrary()
    audio = random_sound(np.random.default_rng(1), 4.0)
    expected = {}
    for name, make in (("first", make_ctc_folder), ("second", make_t_one_folder)):
        (library.folder / name).mkdir(parents=True)
        recogniser = load_public_model(make(library.folder / name), name=name, slots=1)
        recogniser.open(1, StreamOptions(search="greedy", step_ms=recogniser.model.step_ms[0]))
        [(_, events)] = recogniser.step([Chunk(1, audio, end=True)])
        assert not isinstance(events, Exception)
        expected[name] = " ".join(event.text for event in events if isinstance(event, Final))
    assert expected["first"] != expected["second"] != ""
    with serving("--model", "first,other=second", "--slots", "2") as served:
        for public, name in (("default", "first"), ("other", "second")):
            assert text(await recognise(served.url, audio.tobytes(), model=public)) == expected[name]
        served.wait_for("first hears sessions that name no model, second those that ask for other.")
        assert served.end() == 0


async def test_a_model_of_several_languages(tmp_path: Path) -> None:
    """Each session gets the words of its language, even if the process of the model is killed; others are refused."""
    folder = tmp_path / "nemotron"
    folder.mkdir()
    recogniser = load_public_model(make_nemotron_folder(folder), name="nemotron", slots=1)
    [step_ms] = recogniser.model.step_ms
    audio = random_sound(np.random.default_rng(1), 3.0)
    expected = {}
    for language in ("auto", "ja-JP"):
        recogniser.open(1, StreamOptions(step_ms=step_ms, search="greedy", language=language))
        [(_, events)] = recogniser.step([Chunk(1, audio, end=True)])
        assert not isinstance(events, Exception)
        expected[language] = " ".join(event.text for event in events if isinstance(event, Final))
    assert expected["auto"] != expected["ja-JP"] != ""
    with serving("--model", str(folder), "--slots", "6") as served:
        assert text(await recognise(served.url, audio.tobytes())) == expected["auto"]
        found = await disturbed(served.url, partial(_kill_model, served), audio.tobytes(), language="ja")
        assert "recovered" in {event["type"] for event in found}
        assert text(found) == expected["ja-JP"]
        async with connect(served.url) as websocket:
            await websocket.send('{"type":"start","language":"nl"}')
            [refused] = await rest(websocket)
        assert (refused["code"], websocket.close_code) == ("bad_option", 4000)
        assert "this model has no language 'nl'; it has auto, de-DE, en-GB" in refused["message"]
        sound = recording(audio, "FLAC")
        body, kind = form(("language", "ja"), ("response_format", "text"), ("file", sound))
        status, _, content = post(served.url, openai_upload.PATH, body, Content_Type=kind)
        assert (status, content.decode().strip()) == (200, expected["ja-JP"])
        status, _, content = post(served.url, f"{deepgram.PATH}?language=ja", sound)
        assert json.loads(content)["results"]["channels"][0]["alternatives"][0]["transcript"] == expected["ja-JP"]
        status, _, content = post(served.url, f"{deepgram.PATH}?language=nl", sound)
        assert (status, json.loads(content)["err_code"]) == (400, "Bad Request")
        assert served.end() == 0


async def test_a_streaming_model_of_moonshine(tmp_path: Path) -> None:
    """Its words and events are those of the engine, even if the process of the model or Triton itself is killed."""
    recogniser = load_public_model(make_moonshine_folder(tmp_path), name="moonshine", slots=1)
    audio = np.frombuffer(pcm("talk.flac", TWO_SEGMENTS_S), np.int16)
    recogniser.open(1, StreamOptions(search="greedy"))
    [(_, events)] = recogniser.step([Chunk(1, audio, end=True)])
    assert not isinstance(events, Exception)
    expected = [event.text for event in events if isinstance(event, Final)]
    assert len(expected) == 2
    with serving("--model", str(tmp_path), "--slots", "4") as served:
        whole = await recognise(served.url, audio.tobytes())
        assert [event["text"] for event in whole if event["type"] == "final"] == expected
        assert any(event["type"] == "partial" and event["stable"] for event in whole)
        undisturbed = lasting(whole)
        for kill in (_kill_model, _kill_triton):
            found = await disturbed(served.url, partial(kill, served), audio.tobytes())
            assert "recovered" in {event["type"] for event in found}
            assert lasting(found) == undisturbed
        assert served.end() == 0


def _make_windows(folder: Path, make: Callable[[Path], Path]) -> Path:
    (folder / WINDOW_FILE).write_text('{"left": 1.6, "step": 0.32, "right": 0.32}')
    return make(folder)


@pytest.mark.parametrize(
    ("make", "cost"),
    [
        (partial(_make_windows, make=make_whole_ctc_folder), "it has no caches, so it computes each moment 7 times: "),
        (partial(make_whole_folder, durations=5, sizes=SIZES), "it has no caches, so it computes each moment 4.33 "),
        (partial(_make_windows, make=make_whole_icefall_folder), "it has no caches, so it computes each moment 7 "),
        (make_int8_folder, "encoder-epoch-1-avg-1.onnx rounds by the whole batch ("),
        (partial(make_moonshine_folder, batch=1), "encoder.ort computes one stream at a time, so many cost as much "),
    ],
    ids=["NeMo with CTC", "NeMo with durations", "icefall", "int8", "Moonshine"],
)
async def test_models_that_cost_more(make: Callable[[Path], Path], cost: str, tmp_path: Path) -> None:
    """The service says what they cost. Two sessions at once have the words of the engine, also if Triton is killed."""
    recogniser = load_public_model(make(tmp_path), name="costly", slots=1)
    options = StreamOptions(search="greedy", step_ms=recogniser.model.step_ms[0])
    random = np.random.default_rng(3)
    sounds = [random_sound(random, seconds) for seconds in (6.0, 5.0)]
    if isinstance(recogniser.model, MoonshineModel):  # it reads only where somebody speaks
        talk = np.frombuffer(pcm("talk.flac", TWO_SEGMENTS_S), np.int16)
        sounds = [talk, talk[32_000:]]
    expected = []
    for sound in sounds:
        recogniser.open(1, options)
        [(_, events)] = recogniser.step([Chunk(1, sound, end=True)])
        assert not isinstance(events, Exception)
        expected.append(" ".join(event.text for event in events if isinstance(event, Final)))
    assert all(expected)
    with serving("--model", str(tmp_path), "--slots", "4") as served:
        served.wait_for(f"{tmp_path.name}: {cost}")
        both = await asyncio.gather(*(recognise(served.url, sound.tobytes()) for sound in sounds))
        assert list(map(text, both)) == expected
        found = await asyncio.gather(
            disturbed(served.url, partial(_kill_triton, served), sounds[0].tobytes()),
            disturbed(served.url, _nothing, sounds[1].tobytes()),
        )
        assert list(map(text, found)) == expected
        assert list(map(_finals, found)) == list(map(_finals, both))
        assert "recovered" in {event["type"] for event in found[0]}
        assert served.end() == 0


def _finals(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the finals with their times. The ends of speech may differ by a frame: the detector began again, too."""
    return [event for event in lasting(events) if event["type"] == "final"]


async def _nothing() -> None:
    """Leave the service as it is."""


async def _kill_triton(served: Serving) -> None:
    processes = psutil.Process(served.process.pid).children(recursive=True)
    [triton] = [process for process in processes if process.name() == "tritonserver"]
    triton.kill()


async def _kill_model(served: Serving) -> None:
    [stub] = recognisers(served.process.pid)
    stub.kill()


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("nowhere", "which is not in "),
        ("one,one", "has one twice"),
        ("no/such/folder", "which is not the folder of a model"),
        ("../one", "which is not the folder of a model"),
        ("a b", "must be the name or folder of a model"),
    ],
)
def test_models_that_cannot_be(models: str, words: str) -> None:
    """Impossible models are refused before anything is started."""
    done = streamer_here("serve", "--model", models)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_repository_that_is_not_there(tmp_path: Path) -> None:
    """The setting with the wrong folder is named, and not the models that are not in it."""
    done = streamer_here("serve", "--repository", "missing", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "streamer: --repository names missing, which is not a folder.\n"


async def test_models_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all models of this machine, the first is loaded at the start, and another one when a session asks for it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    library = ModelLibrary()
    for name in ("first", "second"):
        (library.folder / name).mkdir(parents=True)
        make_ctc_folder(library.folder / name)
    with serving("--model", "first,library", "--load", "on-demand", "--slots", "4") as served:

        def states() -> dict[str, str]:
            return {name: model["state"] for name, model in served.state["models"].items()}

        assert states() == {"default": "loaded", "streaming_asr": "unloaded", "second": "unloaded"}
        async with connect(served.url) as websocket:
            await websocket.send('{"type":"start","model":"second"}')
            await websocket.send(bytes(32_000))
            await websocket.send('{"type":"stop"}')
            events = await rest(websocket)
        assert [event["type"] for event in events[:2]] == ["starting", "ready"]
        assert (events[1]["triton_model"], events[-1]["type"]) == ("second", "done")
        assert states() == {"default": "loaded", "streaming_asr": "unloaded", "second": "loaded"}
        told = streamer(SHORT, SHORT, "--server", served.url, "--model", "streaming_asr").stderr.splitlines()
        assert told.count("streamer: the model streaming_asr is being loaded …") == 1
        assert served.end() == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--load", "on-demand", "--triton", "localhost:1"], "--load on-demand is only for the embedded Triton"),
        (["--load", "on-demand", "--instances", "1-2"], "--load on-demand cannot be combined with a range"),
        (["--models-memory", "3"], "--models-memory is only for --load on-demand."),
    ],
)
def test_loading_that_cannot_be(given: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A combination that cannot load models on demand is refused before anything is started."""
    assert run(["serve", "--port", "0", *given]) == 2
    assert words in capfd.readouterr().err


def test_a_model_without_room() -> None:
    """A model that does not fit into the memory even alone is refused before anything is started."""
    done = streamer("serve", "--port", "0", "--load", "on-demand", "--models-memory", "0.2")
    assert done.returncode == 1
    assert re.search(r"default needs about 0\.\d GB, and models may hold 0\.2 GB: give more with --models", done.stderr)


def test_a_range_that_cannot_be() -> None:
    """A range of instances is only for the embedded Triton, and not for an ensemble; nothing is started."""
    done = streamer_here("serve", "--instances", "1-2", "--triton", "localhost:1")
    assert done.returncode == 2
    assert done.stderr == "streamer: --instances can be a range only for the embedded Triton, not with --triton.\n"
    done = streamer("serve", "--instances", "1-2", "--model", "asr_heads", "--port", "0")
    assert done.returncode == 1
    assert "asr_heads is an ensemble: the number of its instances cannot follow the load" in done.stderr


async def test_a_whisper_model_reads_alone(tmp_path: Path) -> None:
    """A folder with one is served like any model, in its languages, and translates for OpenAI's clients."""
    folder = tmp_path / "whisper"
    write_whisper(folder, ("ĠGuten", "ĠTag", "."))
    with serving("--model", str(folder), "--slots", "4", "--instances", "1") as served:
        default = served.state["models"]["default"]
        assert (default["model"], default["languages"]) == ("whisper", ["auto", "en", "zh", "de", "es", "ja"])
        audio = pcm("quilter.ogg")
        assert text(await recognise(served.url, audio, language="de")) == "Guten Tag."
        sound = recording(np.frombuffer(audio, np.int16), "FLAC")
        for path, language in ((openai_upload.PATH, "es"), (openai_upload.TRANSLATIONS, None)):
            wanted = [("language", language)] if language else []
            body, kind = form(("model", "whisper-1"), *wanted, ("file", sound))
            status, _, content = post(served.url, path, body, Content_Type=kind)
            assert (status, json.loads(content)["text"]) == (200, "Guten Tag.")
        assert served.end() == 0


@pytest.mark.parametrize("others", [["--reader", "moonshine-tiny"], ["--model", "other=OTHER"]])
def test_a_service_has_one_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: list[str]
) -> None:
    """A Whisper model is the reader of its service, so there can be no other one."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        write_whisper(tmp_path / name, ("ĠGuten",))
    given = [each.replace("OTHER", "./two") for each in others]
    assert run(["serve", "--model", "./one", *given]) == 2
    assert "a service has one reader" in capsys.readouterr().err


def _dialled(keys: str, random: np.random.Generator) -> NDArray[np.int16]:
    """The tones of these keys, each with a pause after it."""
    at = np.arange(3_200) / 16_000
    parts = []
    for key in keys:
        row, column = divmod("123A456B789C*0#D".index(key), 4)
        heights = (697, 770, 852, 941)[row], (1209, 1336, 1477, 1633)[column]
        parts += [sum(3_000 * np.sin(2 * np.pi * height * at) for height in heights), np.zeros(3_200)]
    sound = np.concatenate(parts)
    return (sound + random.normal(0, 20, len(sound))).astype(np.int16)


async def test_the_example_of_a_model_of_your_own() -> None:
    """It is short, and has batches, recovery and all the rest like any model."""
    folder = ROOT / "examples" / "telephone_keys"
    files = (folder / "config.pbtxt", folder / "1" / "model.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 200
    random = np.random.default_rng(1)
    numbers = ["0301234567", "112*#"]
    sounds = [_dialled(number, random).tobytes() for number in numbers]
    with serving("--repository", str(folder.parent), "--model", "telephone_keys", "--slots", "4") as served:
        both = await asyncio.gather(*(recognise(served.url, sound) for sound in sounds))
        assert [text(events) for events in both] == [" ".join(number) for number in numbers]
        found = await disturbed(served.url, partial(_kill_triton, served), sounds[0])
        assert "recovered" in {event["type"] for event in found}
        assert lasting(found) == lasting(both[0])
        assert served.end() == 0
