"""Loading bundles: the shipped one, and damaged ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.base.events import Final, as_json
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE, load_recogniser, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.punctuation_model import PUNCTUATION_FILE
from tests.project import BUNDLE
from tests.samples import pcm

SHIPPED = BUNDLE


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Provide a copy of the shipped bundle, for damaging."""
    folder = tmp_path / "bundle"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def said(words: str, search: str, seconds: float | None = None) -> str:
    """Return the words that the shipped bundle gives for a recording."""
    recogniser = load_recogniser(SHIPPED, slots=1)
    recogniser.open(1, StreamOptions(search=search))
    audio = np.frombuffer(pcm(words, seconds), dtype=np.int16)
    finals = []
    for start in range(0, len(audio), 16000):
        [(_, answer)] = recogniser.step([Chunk(1, audio[start : start + 16000], end=start + 16000 >= len(audio))])
        assert not isinstance(answer, StreamError)
        finals += [event.text for event in answer if isinstance(event, Final)]
    return " ".join(finals)


def test_the_shipped_bundle_has_both_searches() -> None:
    """The lexicon search gives words of the language model; the greedy search gives something else."""
    found = said("quilter.ogg", "lexicon")
    words = set(load_recogniser(SHIPPED, slots=1).searches["lexicon"]._texts)  # type: ignore[attr-defined]
    assert found
    assert set(found.split()) <= words
    assert said("quilter.ogg", "greedy") not in ("", found)


@pytest.mark.parametrize("recording", ["quilter.ogg", "talk.flac", "airplane.mp3"])
def test_torch_gives_the_same_events(recording: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no onnxruntime, torch computes the networks, with the same events up to rounding."""
    found = events(recording)
    assert {"partial", "final", "speech"} <= {event["type"] for event in found}
    monkeypatch.setattr("streamer.engine.bundle.computes_graphs", lambda device: False)
    expected = events(recording)
    for ours, theirs in zip(found, expected, strict=True):
        assert words_of(ours) == words_of(theirs)
        assert confidences(ours) == pytest.approx(confidences(theirs), abs=0.002)


def test_only_graphs_compute_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch computes, the precision of graphs is refused in one sentence."""
    monkeypatch.setattr("streamer.engine.bundle.computes_graphs", lambda device: False)
    with pytest.raises(BundleError, match=r"only onnxruntime on a CPU computes .* in int8"):
        load_recogniser(SHIPPED, slots=1, precision="int8")


def events(recording: str) -> list[dict[str, Any]]:
    """Return the events for the first seconds of a recording, with a second pass."""
    recogniser = load_recogniser(SHIPPED, slots=1, precision="float32")
    recogniser.open(1, StreamOptions(partial_words=True, second_pass=True, alternatives=2))
    audio = np.frombuffer(pcm(recording, 6.0), dtype=np.int16)
    found = []
    for start in range(0, len(audio), 2560):
        [(_, answer)] = recogniser.step([Chunk(1, audio[start : start + 2560], end=start + 2560 >= len(audio))])
        assert not isinstance(answer, StreamError)
        found += [json.loads(as_json(event)) for event in answer]
    return found


def words_of(part: Any) -> Any:
    """Return an event, or a part of one, without confidences."""
    if isinstance(part, dict):
        return {name: words_of(value) for name, value in part.items() if name != "confidence"}
    return [words_of(each) for each in part] if isinstance(part, list) else part


def confidences(part: Any) -> list[float]:
    """Return all confidences in an event, or in a part of one."""
    if isinstance(part, dict):
        return [
            number
            for name, value in part.items()
            for number in ([value] if name == "confidence" else confidences(value))
        ]
    return [number for each in part for number in confidences(each)] if isinstance(part, list) else []


def test_the_shipped_bundle_is_small() -> None:
    """The recogniser takes at most 45 MB in the repository, and the model of marks and capitals 8 MB besides."""
    punctuation = SHIPPED / PUNCTUATION_FILE
    assert punctuation.stat().st_size < 8e6
    assert sum(path.stat().st_size for path in SHIPPED.iterdir() if path.is_file() and path != punctuation) < 45e6


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", LEXICON_FILE, LANGUAGE_FILE, SEARCH_FILE])
def test_a_missing_part_is_named(bundle: Path, name: str) -> None:
    """The error names the missing file."""
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=name):
        load_recogniser(bundle, slots=1)


def test_a_damaged_part_is_named(bundle: Path) -> None:
    """A truncated file and unknown search options are refused with the reason."""
    whole = (bundle / LEXICON_FILE).read_bytes()
    (bundle / LEXICON_FILE).write_bytes(whole[:1000])
    with pytest.raises(BundleError, match=LEXICON_FILE):
        load_recogniser(bundle, slots=1)
    (bundle / LEXICON_FILE).write_bytes(whole)
    (bundle / SEARCH_FILE).write_text(json.dumps({"width": 3}))
    with pytest.raises(BundleError, match="width"):
        load_recogniser(bundle, slots=1)


def test_a_bundle_without_rescoring_works(bundle: Path) -> None:
    """The neural language model is optional; one for other words is refused."""
    assert load_rescorer(bundle, LanguageModel.load(bundle / LANGUAGE_FILE)) is not None
    (bundle / NEURAL_FILE).unlink()
    assert load_rescorer(bundle, LanguageModel.load(bundle / LANGUAGE_FILE)) is None
    assert "lexicon" in load_recogniser(bundle, slots=1).searches
    NeuralNetwork(5, 2, 2, "others").save(bundle / NEURAL_FILE)
    with pytest.raises(BundleError, match="for other words"):
        load_recogniser(bundle, slots=1)


def test_a_lexicon_of_other_words_is_refused(bundle: Path) -> None:
    """A lexicon for another vocabulary is refused."""
    Lexicon.build([(3, (4,))], np.zeros(4, np.float32), "others").save(bundle / LEXICON_FILE)
    with pytest.raises(BundleError, match="do not have the same words"):
        load_recogniser(bundle, slots=1)
