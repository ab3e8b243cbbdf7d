"""Checks of the model's files, damaged in a copy of the repository."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.checks import packages
from streamer.commands.checks.finding import FINE, WARNING, WRONG
from streamer.commands.checks.models import NEEDED, model_files, public_model, public_models, readers, speakers
from streamer.models.library import ModelLibrary, part_file
from streamer.models.readers import reader_library
from tests.engine.reader.scripted_whisper import write_whisper
from tests.models.small_readers import FILES, NAME, catalogue, entry, put
from workshop.graphs.exact_icefall import make_ctc_folder, make_transducer_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder
from workshop.graphs.exact_nemo import make_nemotron_folder, make_whole_ctc_folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository whose files are links to the shipped ones."""
    for name in NEEDED:
        path = tmp_path / MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(asr_repository() / MODEL / name)
    return tmp_path


def test_the_shipped_model_is_complete() -> None:
    """A complete model gives one line with its name and size."""
    (found,) = model_files()
    assert (found.state, found.remedy) == (FINE, "")
    assert "all complete" in found.said


def cut(content: bytes) -> bytes:
    """Half of the content."""
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """The content with one changed byte in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def pointer(content: bytes) -> bytes:
    """The content of a clone without git-lfs."""
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("1/weights.safetensors", cut, "bytes instead of"),
        ("1/weights.safetensors", flipped, "its checksum is that of other weights"),
        ("1/weights.safetensors", pointer, "a pointer of git-lfs"),
        ("1/language.safetensors", cut, "bytes instead of"),
        ("1/lexicon.safetensors", lambda content: content[:100], "its header is incomplete or damaged"),
        ("1/lexicon.safetensors", lambda content: b"x" * 100, "its header is damaged"),
        ("1/model.json", cut, "it is not JSON"),
        ("config.pbtxt", lambda content: b"", "it is empty"),
        ("1/letters.safetensors", None, "No such file"),
    ],
)
def test_a_damaged_file_is_named(copy: Path, name: str, damage: Callable[[bytes], bytes] | None, words: str) -> None:
    """Only damaged files are named, with what is wrong and how to restore them."""
    path = copy / MODEL / name
    content = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(content))
    (found,) = model_files(copy)
    assert found.state == WRONG
    assert str(path) in found.said
    assert words in found.said
    assert "git checkout -- asr_repo" in found.remedy


def test_what_may_be_missing_is_a_warning(copy: Path) -> None:
    """A missing optional file is a warning, because the model works without it."""
    (copy / MODEL / "1" / "calibration.json").unlink()
    assert [found.state for found in model_files(copy)] == [WARNING, FINE]


def test_a_file_that_cannot_be_read(copy: Path) -> None:
    """The message repeats the system's reason."""
    path = copy / MODEL / "1" / "search.json"
    path.unlink()
    path.mkdir()
    (found,) = model_files(copy)
    assert "Is a directory" in found.said


def test_a_public_model(tmp_path: Path) -> None:
    """The folder of a public model is described in one line, and so is what is wrong with it."""
    (found,) = public_model(make_transducer_folder(tmp_path))
    assert found.state == FINE
    assert found.said.startswith("Zipformer-2 transducer, 24 tokens, 0.1 MB, complete; steps of 320 ms, which read 13")
    (tmp_path / "nemotron").mkdir()
    (found,) = public_model(make_nemotron_folder(tmp_path / "nemotron"))
    assert "24 tokens, 5 names of languages, " in found.said
    (tmp_path / "moonshine").mkdir()
    (found,) = public_model(make_moonshine_folder(tmp_path / "moonshine"))
    assert found.said.startswith("Moonshine streaming, 64 tokens, ")
    assert "; steps of 320 ms, which read 320 ms ahead; " in found.said
    (tmp_path / "whole").mkdir()
    found, cost = public_model(make_whole_ctc_folder(tmp_path / "whole"))
    assert "steps of 1120 ms, which read 1120 ms ahead" in found.said
    assert (cost.state, cost.said.startswith("it has no caches, so it computes each moment 7 times")) == (WARNING, True)
    (tmp_path / "joiner-epoch-1-avg-1.onnx").unlink()
    (found,) = public_model(tmp_path)
    assert (found.state, "it has no joiner" in found.said) == (WRONG, True)


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    """A library with one model."""
    (tmp_path / "mine").mkdir()
    make_ctc_folder(tmp_path / "mine")
    return ModelLibrary(tmp_path)


def test_no_models(tmp_path: Path) -> None:
    """Without public models, the shipped one is the default."""
    (found,) = public_models(ModelLibrary(tmp_path / "none"))
    assert (found.state, found.said) == (FINE, "none is here; the shipped model is the default")


def test_models(library: ModelLibrary, tmp_path: Path) -> None:
    """Models are listed with the default; an interrupted one is named with the command that continues it."""
    library.set_default("mine")
    (library.work_folder("begun") / "archive.part").touch()
    begun, listed = public_models(library)
    assert (begun.state, begun.remedy) == (WARNING, "streamer models get begun")
    assert (listed.state, listed.said) == (FINE, f"1 in {tmp_path}: mine; mine is the default")


def test_a_broken_model(library: ModelLibrary) -> None:
    """A broken model is a warning, because others work; a model of the catalogue can be fetched again."""
    for name in ("sherpa-onnx-streaming-zipformer-en-2023-06-26", "unknown"):
        (library.folder / name).mkdir()
    known, unknown, listed = public_models(library)
    assert (known.state, unknown.state, listed.state) == (WARNING, WARNING, FINE)
    assert "the model unknown cannot be used: " in unknown.said
    assert known.remedy == "streamer models get sherpa-onnx-streaming-zipformer-en-2023-06-26"
    assert unknown.remedy == "streamer models remove unknown"


def test_too_little_memory(library: ModelLibrary) -> None:
    """A model that does not fit beside the default is named, and what to do if all do not fit at a time."""
    (library.folder / "other").mkdir()
    make_ctc_folder(library.folder / "other")
    mine, other, _ = public_models(library, 700_000_000)
    assert (mine.state, other.state) == (WARNING, WARNING)
    assert "mine and shipped, which is always loaded, need about 0.8 GB of memory, and models may hold 0.7" in mine.said
    together, _ = public_models(library, 900_000_000)
    assert "all models together need about 1.0 GB" in together.said
    assert together.remedy == "streamer serve --model library --load on-demand"
    (listed,) = public_models(library, 2 * 10**9)
    assert listed.state == FINE
    library.set_default("mine")
    mine, other, _ = public_models(library, 100_000_000)
    assert "mine needs about 0.2 GB of memory, and models may hold 0.1 GB here" in mine.said
    assert "other and mine, which is always loaded, need about 0.3 GB" in other.said
    together, _ = public_models(library, 250_000_000)
    assert together.state == WARNING


@pytest.mark.parametrize(("light", "state"), [(False, WRONG), (True, WARNING)])
def test_a_default_that_does_not_work(
    library: ModelLibrary, monkeypatch: pytest.MonkeyPatch, light: bool, state: str
) -> None:
    """A default that does not work is a problem, unless only the light client is installed."""
    monkeypatch.setattr(packages, "is_light", lambda: light)
    library.set_default("mine")
    (library.folder / "mine" / "tokens.txt").unlink()
    (found,) = public_models(library)
    assert found.state == state
    assert "the default does not work: the model mine cannot be used: " in found.said
    assert found.remedy == "streamer models default shipped, or: streamer models get mine"


@pytest.fixture
def folder_of_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One small reader is known, and none is here."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = catalogue(tmp_path / "catalogue.json", entry("https://example.org/a", b""))
    monkeypatch.setattr("streamer.models.library.CATALOGUE", path)
    return reader_library().folder


def test_no_reader(folder_of_readers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reader, a warning says what is used instead and how to get one; a light client needs none."""
    monkeypatch.setitem(packages.PARTS, "reader", ("small-voice",))
    monkeypatch.setattr(packages, "CLONE", False)
    (found,) = readers()
    assert (found.state, found.remedy) == (
        WARNING,
        f"streamer models get {NAME}, or: pip install 'streamer-asr[reader]'",
    )
    assert found.said == "none is here: ended segments are read by the second pass alone"
    monkeypatch.setattr(packages, "CLONE", True)
    (found,) = readers()
    assert found.remedy == f"streamer models get {NAME}"
    monkeypatch.setattr(packages, "is_light", lambda: True)
    assert list(readers()) == []
    assert not folder_of_readers.exists()


def test_a_reader_that_was_fetched(folder_of_readers: Path) -> None:
    """A complete reader is a line with its folder; a damaged or incomplete one says what is wrong with it."""
    folder = put(folder_of_readers / NAME)
    (found,) = readers()
    assert (found.state, found.said, found.remedy) == (FINE, f"{NAME}, 0 MB, complete; {folder}", "")
    (folder / "decoder.ort").write_bytes(FILES["decoder.ort"][::-1])
    (found,) = readers()
    assert (found.state, found.remedy) == (WARNING, f"streamer models get {NAME}")
    assert found.said.startswith(f"{NAME} cannot be used: {folder / 'decoder.ort'} is damaged: its sha256 is ")
    (folder / "decoder.ort").unlink()
    found, none = readers()
    assert found.said == f"{NAME} is not complete: {folder / 'decoder.ort'}: No such file or directory"
    assert none.said.startswith("none is here")


def test_a_reader_that_was_begun(folder_of_readers: Path) -> None:
    """What an interrupted command left is told, with the command that goes on."""
    part = part_file(folder_of_readers / ".work" / NAME)
    part.parent.mkdir(parents=True)
    part.touch()
    begun, _ = readers()
    assert (begun.state, begun.remedy) == (WARNING, f"streamer models get {NAME}")
    assert begun.said == f"{NAME} was not fetched to its end"


@pytest.mark.usefixtures("folder_of_readers")
def test_a_reader_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a package is as good. A version of the package without weights is told with the one that has them."""
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    folder = put(tmp_path / "site-packages" / "small_voice" / "assets" / "en")
    (found,) = readers()
    assert (found.state, found.said) == (FINE, f"{NAME}, 0 MB, complete; {folder}")
    (folder / "encoder.ort").write_bytes(bytes(len(FILES["encoder.ort"])))
    (found,) = readers()
    assert found.remedy == "pip install --force-reinstall --no-deps small-voice==1.0"
    shutil.rmtree(folder)
    found, _ = readers()
    assert found.said.startswith(f"small-voice None has no {NAME}: ")
    assert found.remedy == "pip install --force-reinstall --no-deps small-voice==1.0"


def test_speakers_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A finding says whether speakers can be told apart, and what is missing."""
    (found,) = speakers()
    assert found.state == FINE
    assert "pyannote (CC BY 4.0)" in found.said
    broken = tmp_path / "libmoonshine.so"
    broken.write_bytes(b"broken" * 99)
    monkeypatch.setattr("streamer.commands.checks.models.find_speaker_networks", lambda: broken)
    (found,) = speakers()
    assert found.state == WARNING
    assert "--force-reinstall" in found.remedy
    monkeypatch.setattr("streamer.commands.checks.models.find_speaker_networks", lambda: None)
    (found,) = speakers()
    assert found.state == FINE
    assert "pip install 'moonshine-voice==" in found.said


def test_whisper_models_are_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is complete can be used; what is missing is named: a file, or the package that computes it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = reader_library().folder / "many"
    folder.parent.mkdir(parents=True)
    write_whisper(folder, ("ĠGuten",))
    assert "many, Whisper for 5 languages (en, zh, de, es, ja)" in list(readers())[-1].said
    monkeypatch.setattr(packages, "installed_version", lambda name: None if name == "ctranslate2" else "1.0")
    [found] = [each for each in readers() if "many" in each.said]
    assert (found.state, found.said) == (WARNING, "many needs the package ctranslate2")
    assert "whisper" in found.remedy
    (folder / "vocabulary.json").unlink()
    [found] = [each for each in readers() if "many" in each.said]
    assert (found.state, found.remedy) == (WARNING, "streamer models remove many")


def test_a_whisper_model_in_the_place_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its languages are told; weights that are cut off, a vocabulary that is missing, and the package are problems."""
    folder = tmp_path / "many"
    write_whisper(folder, ("ĠGuten",))
    [found] = public_model(folder)
    assert (found.state, found.remedy) == (FINE, "")
    assert found.said.startswith("many, Whisper for 5 languages (en, zh, de, es, ja); ")
    with monkeypatch.context() as patch:
        patch.setattr(packages, "installed_version", lambda name: None if name == "ctranslate2" else "1.0")
        [found] = public_model(folder)
        assert (found.state, found.said) == (WRONG, "many needs the package ctranslate2")
        assert "whisper" in found.remedy
    model = folder / "model.bin"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    [found] = public_model(folder)
    assert found.state == WRONG
    assert f"many cannot be used: {model} is not complete" in found.said
    model.write_bytes(whole)
    (folder / "vocabulary.json").unlink()
    [found] = public_model(folder)
    assert found.state == WRONG
    assert "has no vocabulary.json or vocabulary.txt" in found.said
    write_whisper(folder, ("ĠGood",), english_only=True)
    [found] = public_model(folder)
    assert "Whisper for English alone" in found.said
