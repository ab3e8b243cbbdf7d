"""`streamer plan` as a user runs it, with the shipped model and the real Triton."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

import streamer.commands.capacity.memory as measuring
import streamer.commands.capacity.memory as steps_measuring
from streamer.base.machine import processor_time
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository, link_model, model_config, parts_of, version_folder
from streamer.bridge.triton.server import TritonServer
from streamer.commands.capacity.memory import ModelMemory, model_memory, reader_part, server_parts, speakers_cost
from streamer.commands.capacity.plan import Part
from streamer.commands.capacity.session_limit import SLOTS, Capacities, circumstances
from streamer.commands.cli import run
from streamer.commands.settings.configuration import configure
from streamer.models.readers import choose_reader
from streamer.testing.exact_service import exact_repository
from tests.engine.reader.scripted_whisper import write_whisper
from workshop.graphs.exact_icefall import make_ctc_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder
from workshop.graphs.exact_nemo import make_whole_ctc_folder

# Far apart, because a process also uses memory that was freed while it loaded: some megabytes in all.
FEW, MANY = 16, 272


@pytest.fixture(scope="module")
def measured() -> tuple[ModelMemory, list[Part]]:
    """The real sizes, measured once for all tests."""
    folder = asr_repository()
    return model_memory(version_folder(folder / MODEL), 8, "KIND_CPU"), server_parts(folder)


@pytest.fixture
def known(
    measured: tuple[ModelMemory, list[Part]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[ModelMemory, list[Part]]:
    """The command gets these sizes without measuring again, and remembers nothing."""
    monkeypatch.setattr(measuring, "model_memory", lambda *_: measured[0])
    monkeypatch.setattr(measuring, "server_parts", lambda *_: measured[1])
    monkeypatch.setattr(measuring, "speakers_cost", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return measured


Planned = Callable[..., dict[str, Any]]


@pytest.fixture
def planned(known: object, capsys: pytest.CaptureFixture[str]) -> Planned:
    """Run the command, and return its JSON."""

    def content(*arguments: str) -> dict[str, Any]:
        assert run(["plan", "--json", *arguments]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return content


def test_predicted_and_real_memory(measured: tuple[ModelMemory, list[Part]], tmp_path: Path) -> None:
    """Before streams use its slots, a process takes at most what the sizes predict for slots in use."""
    for slots in (FEW, MANY):
        link_model(asr_repository() / MODEL, tmp_path / f"slots_{slots}", instances=1, slots=slots)
    with TritonServer(tmp_path, private=True) as server:
        processes = {
            int(match[1]): child.pid
            for child in psutil.Process(server.pid).children(recursive=True)
            if (match := re.search(r"slots_(\d+)_", " ".join(child.cmdline())))
        }
        # What slots reserve takes no memory before streams use them.
        taken = {slots: status_bytes(pid, "RssAnon") for slots, pid in processes.items()}
    sizes = {part.name: part.main for part in measured[0].parts}
    slot = sizes["encoder"] + sizes["activity"] + sizes["search"]
    process = sizes["Python and the libraries of the engine"] + sizes["weights and tables of its own"]
    assert 0 <= taken[MANY] - taken[FEW] <= 1.1 * slot * (MANY - FEW)
    for slots, real in taken.items():
        assert 0.5 * process < real < 1.2 * (process + slots * slot)


def status_bytes(process: int, name: str) -> int:
    """Return a size from the status of a process: `RssAnon` is shared with no other process and mapped from no file."""
    [size] = re.findall(rf"^{name}:\s*(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return 1024 * int(size)


def test_the_state_is_counted_exactly(measured: tuple[ModelMemory, list[Part]]) -> None:
    """The encoder of the shipped model takes what its description says: keys, values, frames, features and samples."""
    shape = json.loads((asr_repository() / MODEL / "1" / "model.json").read_text())["encoder"]
    width, layers = shape["width"], shape["layers"]
    numbers = layers * (2 * shape["left_frames"] + shape["kernel"] - 1) * width
    [encoder] = [part.main for part in measured[0].parts if part.name == "encoder"]
    # Features and samples are small. The numbers have 4 bytes.
    assert 0 < encoder - 4 * numbers < 5000


def test_the_recommendation_can_be_served(planned: Planned) -> None:
    """The line is a valid command line of `serve`, and the lines of config.pbtxt are valid with the same numbers."""
    found = planned("--no-measure", "--memory", "3", "--instances", "2")
    recommended = found["recommended"]
    words = shlex.split(recommended["command"])
    assert words[:2] == ["streamer", "serve"]
    flags = {name[2:]: value for name, value in zip(words[2::2], words[3::2], strict=True)}
    settings = configure(flags, {}, None).settings
    assert (settings.instances, settings.slots, settings.sessions) == (2, recommended["slots"], "auto")
    assert f"max_candidate_sequences: {recommended['slots']} " in recommended["config"]
    assert "count: 2 " in recommended["config"]


def test_several_workers(planned: Planned) -> None:
    """Each worker takes as much memory as one bridge, and so does the process that starts them."""
    one, several = (planned("--no-measure", "--memory", "3", "--workers", each) for each in ("1", "3"))
    assert several["recommended"]["workers"] == 3
    assert several["recommended"]["command"].startswith("streamer serve --workers 3 --instances ")
    [bridge, bridges] = [
        next(part["main"] for part in found["parts"] if name in part["name"])
        for found, name in ((one, "bridge"), (several, "workers"))
    ]
    assert bridges == 4 * bridge
    assert any(reason.startswith("3 workers: as --workers says") for reason in several["why"])
    assert planned("--no-measure", "--workers", "auto")["recommended"]["workers"] >= 1


def test_the_memory_is_the_sum_of_its_parts(planned: Planned) -> None:
    """The recommended service takes the sum of the table, and leaves a fifth of the memory free."""
    found = planned("--no-measure", "--memory", "2", "--instances", "1")
    recommended = found["recommended"]
    slots = recommended["slots"]
    times = {"service": 1, "instance": 1, "slot": slots, "stream": slots - 1}
    needed = sum(part["main"] * min(times[part["each"]], part["most"] or slots) for part in found["parts"])
    assert recommended["needed"]["main"] == needed <= found["memory"]["usable"]["main"] == 1_600_000_000
    assert found["memory"]["from"] == "--memory"


def test_a_table(known: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json, it prints a table, the recommendation and the reasons, in lines of a readable length."""
    assert run(["plan", "--no-measure", "--memory", "4"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  encoder +\d\.\d\d +\d+ +\d+(\.\d+)?$", shown, re.MULTILINE)
    assert re.search(r"^  streamer serve --instances \d+ --slots \d+ --sessions auto$", shown, re.MULTILINE)
    assert re.search(r"^- The memory has room for \d+ streams ", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 120


def test_what_was_measured_before(planned: Planned) -> None:
    """A remembered result of `serve --sessions auto` is used, and limits the sessions."""
    Capacities().put(circumstances(asr_repository() / MODEL, 2, SLOTS, reader=choose_reader()), 40)
    found = planned("--memory", "4", "--instances", "2")
    assert (found["carried"], found["recommended"]["sessions"]) == (40, 40)
    assert found["recommended"]["command"].endswith("--instances 2 --slots 64 --sessions 40")
    assert any("carry only 40 sessions" in reason for reason in found["why"])


def test_the_sessions_are_measured(planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a remembered result, the sessions are measured with the real Triton, and remembered."""
    monkeypatch.setattr("streamer.commands.plan.SLOTS", 2)  # a single session, so the measurement is short
    monkeypatch.setattr("streamer.commands.capacity.live_sessions.LEVEL_S", 1.0)
    repository = exact_repository(tmp_path / "exact")
    found = planned("--instances", "1", "--repository", str(repository))
    assert found["carried"] == found["recommended"]["sessions"] == 1
    assert Capacities().get(circumstances(repository / MODEL, 1, 2, reader=choose_reader())) == 1


def test_the_steps_of_an_ensemble(
    measured: tuple[ModelMemory, list[Part]], planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asr_heads` gets a line for `serve` and one configuration for each step; the router has no slots."""
    monkeypatch.setattr(steps_measuring, "steps_memory", lambda _: measured[0])
    ensemble = asr_repository() / "asr_heads"
    parts = parts_of(ensemble, asr_repository())
    Capacities().put(circumstances(ensemble, 2, SLOTS, parts, reader=choose_reader()), 30)
    found = planned("--model", "asr_heads", "--memory", "4", "--instances", "2")
    assert (found["model"], found["carried"], found["recommended"]["sessions"]) == ("asr_heads", 30, 30)
    assert found["recommended"]["command"] == (
        "streamer serve --model asr_heads --instances 2 --slots 64 --sessions 30"
    )
    configs = found["recommended"]["config"]
    assert list(configs) == ["speech_encoder", "feature_router", "activity_head", "transcript_head"]
    assert [name for name, lines in configs.items() if "max_candidate_sequences: 64" not in lines] == ["feature_router"]
    assert all("count: 2 " in lines for lines in configs.values())
    assert "Each of the 4 steps" in found["why"][1]


def test_too_little_memory(known: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says how much memory one stream needs, and that amount is enough."""
    assert run(["plan", "--no-measure", "--memory", "0.5"]) == 1
    [sentence] = capsys.readouterr().err.splitlines()[1:]
    told = re.fullmatch(
        r"streamer: 0.50 GB is too little: with 20 % kept free, 1 instance with one stream needs (\S+) GB\.", sentence
    )
    assert told is not None, sentence
    assert run(["plan", "--no-measure", "--memory", str(float(told[1]) + 0.01)]) == 0


def test_another_repository(planned: Planned, tmp_path: Path) -> None:
    """The only model of a repository needs no name, and the line names both; a folder will do as well."""
    repository = tmp_path / "models"
    link_model(asr_repository() / MODEL, repository_of(repository) / "mine")
    found = planned("--no-measure", "--repository", str(repository))
    assert found["model"] == "mine"
    assert f"serve --repository {repository} --model mine --instances" in found["recommended"]["command"]
    found = planned("--no-measure", "--model", str(repository / "mine"))
    assert f"serve --model {repository / 'mine'} --instances" in found["recommended"]["command"]


def test_a_public_model(
    known: tuple[ModelMemory, list[Part]],
    planned: Planned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A public model is measured like any other, in a folder or by its name on this machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(measuring, "model_memory", cache(model_memory))
    folder = tmp_path / "streamer" / "models" / "mine"
    folder.mkdir(parents=True)
    make_ctc_folder(folder)
    found = planned("--no-measure", "--memory", "2", "--model", str(folder))
    assert f"serve --model {folder} --instances" in found["recommended"]["command"]
    sizes = {part["name"]: part["main"] for part in found["parts"]}
    usual = {part.name: part.main for part in known[0].parts}
    # Its threads take turns at batches on two processors.
    assert found["recommended"]["instances"] == max(1, int(processor_time()) // 2)
    assert 0 < sizes["encoder"] < 50_000
    assert 0 < sizes["Python and the libraries of the engine"] < usual["Python and the libraries of the engine"]
    assert not any("it has no caches" in reason for reason in found["why"])
    found = planned("--no-measure", "--memory", "2", "--model", "mine")
    assert "serve --model mine --instances" in found["recommended"]["command"]
    (folder.parent / "heavy").mkdir()
    make_whole_ctc_folder(folder.parent / "heavy")
    found = planned("--no-measure", "--memory", "2", "--model", "heavy")
    assert any(reason.startswith("Of heavy: it has no caches, so it computes each") for reason in found["why"])
    assert {part["name"]: part["main"] for part in found["parts"]}["encoder"] > 5.6 * 16_000 * 2
    (folder.parent / "moonshine").mkdir()
    make_moonshine_folder(folder.parent / "moonshine", batch=1)
    found = planned("--no-measure", "--memory", "2", "--model", "moonshine")
    assert any(reason.startswith("Of moonshine: encoder.ort computes one stream at a") for reason in found["why"])


def repository_of(folder: Path) -> Path:
    """An empty repository."""
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--instances", "0"], 2, "--instances: must be 1 or more, not 0"),
        (["--memory", "0"], 2, "--memory: must be a number of GB from 0.001 to 1000000, not 0"),
        (["--model", "missing"], 2, "there is no model missing in "),
        (["--model", "./missing"], 2, "is not the folder of a model"),
        (["--model", "a,b"], 2, "--model must be one model"),
        (["--repository", "nowhere"], 2, "is not a model repository"),
        (["--repository", "several"], 2, "has several models: choose one with --model (one, other)"),
        (["--workers", "0"], 2, "--workers"),
        (["--repository", "unversioned"], 1, "has no folder of a version"),
        (["--repository", "unstateful"], 1, "slots cannot be set: the model any has no sequence_batching"),
    ],
)
def test_a_wrong_argument(
    arguments: list[str],
    status: int,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sentence says what is wrong, before anything is measured."""
    monkeypatch.chdir(tmp_path)
    config = (asr_repository() / MODEL / "config.pbtxt").read_text()
    for model in ("several/one", "several/other", "unversioned/streaming_asr", "unstateful/any"):
        (tmp_path / model).mkdir(parents=True)
        text = 'backend: "python"' if "any" in model else config.replace(f'name: "{MODEL}"', "")
        (tmp_path / model / "config.pbtxt").write_text(text)
    try:
        found = run(["plan", *arguments])
    except SystemExit as end:
        found = int(str(end.code))
    assert found == status
    told = capsys.readouterr()
    assert sentence in told.err.splitlines()[-1]
    assert told.out == ""


def test_a_broken_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence of the model says which file is wrong."""
    shutil.copytree(asr_repository() / MODEL, tmp_path / MODEL, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / MODEL / "1" / "model.json").write_text("{}")
    assert model_config(tmp_path / MODEL).name == MODEL
    assert run(["plan", "--no-measure", "--repository", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert f"{tmp_path / MODEL / '1' / 'model.json'} does not describe a model" in told.err.splitlines()[-1]
    assert told.out == ""


@pytest.mark.parametrize("option", ["--reader", "--model"])
def test_a_whisper_model_counts(
    measured: tuple[ModelMemory, list[Part]],
    planned: Planned,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
) -> None:
    """The memory of its process is measured, whether it reads beside the recogniser or alone."""
    write_whisper(tmp_path / "many", ("ĠGuten",))
    parts: list[Part] = []

    def counted(repository: Path, steps: int = 1, reader: Path | None = None) -> list[Part]:
        assert reader is not None
        parts.append(reader_part(reader))
        return [*measured[1], *parts]

    monkeypatch.setattr(measuring, "server_parts", counted)
    folder = str((tmp_path / "many").resolve())
    plan = planned(option, folder, "--no-measure")
    assert parts[0].main > 20_000_000
    assert (folder in str(plan)) is (option == "--model")


def test_speakers_count(known: object, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that tells voices apart is measured while it hears speech, and so is its share of a processor."""
    cost = speakers_cost()
    assert cost is not None
    assert cost.part.main > 80_000_000
    assert 0 < cost.share < 10
    monkeypatch.setattr(measuring, "speakers_cost", lambda: cost)
    plan = planned("--no-measure")
    assert [part["main"] for part in plan["parts"] if part["name"] == cost.part.name] == [cost.part.main]
    [reason] = [reason for reason in plan["why"] if "speakers" in reason]
    assert f"{round(100 * cost.share)} % of a processor" in reason
    monkeypatch.setattr("streamer.commands.capacity.memory.find_speaker_networks", lambda: None)
    assert speakers_cost() is None


def test_a_reader_that_is_not_here(known: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says which readers there are."""
    assert run(["plan", "--reader", "moonshine-bass"]) == 1
    assert "no reader moonshine-bass is known" in capsys.readouterr().err
