"""Messages about command lines that cannot be understood, and the model that a command uses, through a real Triton."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import AudioFile
from streamer.base.events import Final
from streamer.base.text import joined, words_of
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.arguments import ModelChoice, Parser, count, model_choice, number, port, public_folder
from streamer.commands.cli import parser_of, run
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_options import StreamOptions
from streamer.models.library import ModelLibrary
from tests.command_run import PHRASE, streamer, streamer_here
from workshop.graphs.exact_icefall import make_ctc_folder, make_transducer_folder

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def parser() -> Parser:
    """A parser with a single option, one in each kind of group, one with two names, and a required argument."""
    parser = Parser(prog="streamer test", allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("-o", "--output")
    parser.add_argument("--jobs", type=count)
    parser.add_argument("--format", choices=("text", "srt"))
    parser.add_argument_group("more").add_argument("--port", type=port)
    parser.add_mutually_exclusive_group().add_argument("--limit", type=number)
    return parser


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "--prot", "1"], "unknown option --prot; did you mean --port? See streamer test --help."),
        (["--prot=1"], "unknown option --prot; did you mean --port? See streamer test --help."),
        (["--limti"], "unknown option --limti; did you mean --limit? See streamer test --help."),
        (["--hlep"], "unknown option --hlep; did you mean --help? See streamer test --help."),
        (["--out", "x"], "unknown option --out; did you mean --output? See streamer test --help."),
        (["a", "--zebra"], "unknown option --zebra; see streamer test --help."),
        (["a", "-prot", "1"], "unknown option -prot; did you mean --port? See streamer test --help."),
        (["a", "--srt"], "unknown option --srt; did you mean --format srt? See streamer test --help."),
        (
            ["a", "--format", "strt"],
            "argument --format: invalid choice: 'strt' (choose from 'text', 'srt'); did you mean srt? "
            "See streamer test --help.",
        ),
        (["a", "-x"], "unknown option -x; see streamer test --help."),
        (["a", "b"], "unexpected argument 'b'; see streamer test --help."),
        (["a", "--", "--prot"], "unexpected argument '--prot'; see streamer test --help."),
        (["a", "--jobs", "0"], "argument --jobs: must be 1 or more, not 0; see streamer test --help."),
        (["a", "--jobs", "two"], "argument --jobs: must be 1 or more, not 'two'; see streamer test --help."),
        (["a", "--limit", "-1"], "argument --limit: must be 0 or more, not -1; see streamer test --help."),
    ],
)
def test_a_mistake(parser: Parser, capsys: Shown, arguments: list[str], sentence: str) -> None:
    """A mistake gives one sentence, with a suggestion if an option is similar."""
    with pytest.raises(SystemExit) as caught:
        parser.read(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"streamer: {sentence}\n"


def test_what_looks_like_an_option_may_be_a_value(parser: Parser) -> None:
    """A value may look like an option: if it contains spaces, after an equals sign, or after two dashes."""
    assert parser.read(["-- a b", "--output=--prot"]).output == "--prot"
    assert parser.read(["--", "--name"]).name == "--name"


CHINESE = ("<blk>", "<sos/eos>", "<unk>", *"他说你好我们是的在有这个一了人", "，", "。", "“", "▁OK", "3", "▁")


def test_a_public_model(tmp_path: Path) -> None:
    """The service of the command has the words that the bare engine finds with this model, whatever its folder."""
    folder = tmp_path / "sherpa-onnx-streaming-zipformer-1.0 (模型)"
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


def test_a_script_without_spaces(tmp_path: Path) -> None:
    """Each character has its own times and confidence, and no format has spaces between two of them."""
    folder, output = tmp_path / "chinese", tmp_path / "out"
    folder.mkdir()
    make_ctc_folder(folder, tokens=CHINESE)
    done = streamer(PHRASE, "--model", str(folder), "--format", "jsonl,json,srt,text", "-o", f"{output}/")
    assert done.returncode == 0, done.stderr
    name = Path(PHRASE).stem
    events = [json.loads(line) for line in (output / f"{name}.jsonl").read_text().splitlines()]
    finals = [event for event in events if event["type"] == "final"]
    for final in finals:
        words = [word["word"] for word in final["words"]]
        assert joined(words) == final["text"]
        assert words_of(final["text"]) == words
        assert all(0 <= word["confidence"] <= 1 for word in final["words"])
        starts = [word["start_ms"] for word in final["words"]]
        assert starts == sorted(starts)
    whole = json.loads((output / f"{name}.json").read_text())["text"]
    assert whole == joined(final["text"] for final in finals)
    assert len(words_of(whole)) > 20
    lines = (output / f"{name}.srt").read_text().splitlines()
    shown = joined(line for line in lines if line and not line[0].isdigit())
    assert shown.replace(" ", "") == whole.replace(" ", "")
    assert (output / f"{name}.txt").read_text().splitlines() == [final["text"] for final in finals]


def cut_off(folder: Path) -> None:
    """A file that was copied in half."""
    encoder = folder / "encoder-epoch-1-avg-1.onnx"
    encoder.write_bytes(encoder.read_bytes()[:5000])


def without_joiner(folder: Path) -> None:
    """One of the three graphs is missing."""
    (folder / "joiner-epoch-1-avg-1.onnx").unlink()


def without_tokens(folder: Path) -> None:
    """The table is missing."""
    (folder / "tokens.txt").unlink()


def pointer(folder: Path) -> None:
    """A clone without Git LFS."""
    (folder / "decoder-epoch-1-avg-1.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut_off, "is cut off or is not an ONNX graph: copy it again"),
        (without_joiner, "is not complete: it has no joiner"),
        (without_tokens, "tokens.txt is missing: the folder is not complete"),
        (pointer, "is only a pointer to a file of Git LFS: run `git lfs pull` beside it"),
    ],
)
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ([PHRASE], 2),
        (["mic"], 2),
        (["evaluate", "samples.tsv"], 2),
        (["evaluate", "samples.tsv", "--engine"], 2),
        (["serve", "--port", "0"], 2),
        (["plan"], 2),
        (["doctor", "--quick"], 1),
    ],
    ids=lambda value: value[0].rpartition("/")[2] if isinstance(value, list) else "",
)
def test_a_folder_that_cannot_be_used(
    command: list[str],
    status: int,
    spoil: Callable[[Path], None],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is wrong with a folder is a sentence of every command, and nothing is started."""
    spoil(make_transducer_folder(tmp_path))
    try:
        found = run([*command, "--model", str(tmp_path)])
    except SystemExit as end:
        found = int(str(end.code))
    assert found == status
    told = capsys.readouterr()
    assert sentence in (told.out if command[0] == "doctor" else told.err)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """Neither a public model nor one of Triton."""
    done = streamer_here(PHRASE, "--model", str(tmp_path), "--server", "127.0.0.1:1")
    assert done.returncode == 2
    assert "it has no config.pbtxt, and no public model" in done.stderr


def test_a_folder_for_a_service_elsewhere(tmp_path: Path) -> None:
    """Only a service of its own can load a folder."""
    done = streamer_here(PHRASE, "--model", str(make_transducer_folder(tmp_path)), "--server", "127.0.0.1:1")
    assert done.returncode == 1
    assert "leave out --server" in done.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelLibrary:
    """A library with the model `mine`, and no service on this machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("streamer.commands.arguments.is_ready", lambda: False)
    library = ModelLibrary()
    (library.folder / "mine").mkdir(parents=True)
    make_transducer_folder(library.folder / "mine")
    return library


def asked(*arguments: str) -> ModelChoice:
    """What these arguments ask for."""
    return model_choice(parser_of(None).read([PHRASE, *arguments], intermixed=True))


def test_a_name(home: ModelLibrary) -> None:
    """It is a model of this machine, or of the service that was named."""
    assert asked() == ModelChoice()
    assert asked("--model", "mine") == ModelChoice(folder=home.folder / "mine")
    assert asked("--model", "mine", "--server", "embedded") == ModelChoice(folder=home.folder / "mine")
    assert asked("--model", "mine", "--server", "127.0.0.1:1") == ModelChoice(name="mine")
    assert asked("--model", "shipped") == ModelChoice(folder=asr_repository() / MODEL)
    assert asked("--model", "default") == ModelChoice(name="default")
    assert public_folder("mine") == home.folder / "mine"
    assert public_folder("./mine") == public_folder("mine").relative_to(home.folder)


@pytest.mark.usefixtures("home")
def test_a_name_for_the_bare_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No service is used, so the variable that names one means nothing."""
    monkeypatch.setenv("STREAMER_SERVER", "127.0.0.1:1")
    options = parser_of("evaluate").read(["talk.tsv", "--engine", "--model", "mine"])
    assert model_choice(options).folder == ModelLibrary().folder / "mine"
    options = parser_of("evaluate").read(["talk.tsv", "--engine", "--model", "shipped"])
    assert model_choice(options) == ModelChoice()


@pytest.mark.usefixtures("home")
def test_a_shipped_model() -> None:
    """The recogniser in steps is for a service of its own; a step alone is no model."""
    for server in ((), ("--server", "embedded")):
        assert asked("--model", "asr_heads", *server) == ModelChoice(folder=asr_repository() / "asr_heads")
    assert asked("--model", "asr_heads", "--server", "127.0.0.1:1") == ModelChoice(name="asr_heads")
    with pytest.raises(TritonError, match="there is no model speech_encoder on this machine"):
        asked("--model", "speech_encoder")


def test_a_name_of_a_running_service(home: ModelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a service runs on this machine, it may have models with other names. Those that are here come first."""
    monkeypatch.setattr("streamer.commands.arguments.is_ready", lambda: True)
    for name in ("english", "asr_heads"):
        assert asked("--model", name) == ModelChoice(name=name)
    assert asked("--model", "mine") == ModelChoice(folder=home.folder / "mine")


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
    done = streamer_here(PHRASE, "--server", "embedded")
    assert done.returncode == 1
    assert "tokens.txt is missing" in done.stderr
    assert "It is the default; `streamer models default shipped` changes that." in done.stderr
