"""Witnesses say what was spoken: readers, our recogniser, and public models, by their names or folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import read_audio
from streamer.engine.reader.reading import Token
from tests.engine.reader.random_reader import random_weights, write_reader
from tests.project import BUNDLE, SAMPLES
from tests.samples import reference
from tests.workshop.labelling.scripted_witnesses import SAID, write_witness
from workshop.data.corpus import Samples
from workshop.graphs.exact_icefall import make_ctc_folder
from workshop.labelling.witnesses import SHIPPED, WitnessError, fingerprint, load_witness, spoken_words

FEW = {"it", "is", "nato"}


@pytest.fixture(scope="module")
def airplane() -> Samples:
    return read_audio(SAMPLES / "airplane.mp3")


def test_a_reader_of_many_languages_says_which_it_was(tmp_path: Path, airplane: Samples) -> None:
    """It is not told to read English."""
    heard = load_witness(str(write_witness(tmp_path, language="es")), FEW.__contains__).hear(airplane)
    assert (heard.words, heard.language, heard.complete) == (tuple(SAID.split()), "es", True)
    assert heard.cpu_s > 0


def test_a_reader_of_english_says_no_language(tmp_path: Path, airplane: Samples) -> None:
    """The folder of a reader of the other family, with random weights."""
    write_reader(tmp_path, random_weights(), signed=False)
    assert load_witness(str(tmp_path), FEW.__contains__).hear(airplane).language == ""


@pytest.mark.parametrize("name", [SHIPPED, str(BUNDLE)])
def test_our_recogniser_is_a_witness(airplane: Samples, name: str) -> None:
    """It hears one piece after another, and the same in the same one."""
    witness = load_witness(name, FEW.__contains__)
    first, silence, again = witness.hear(airplane), witness.hear(np.zeros(20_000, np.int16)), witness.hear(airplane)
    assert first.words == again.words
    assert len({*first.words} & {*reference("airplane.mp3").split()}) >= 5
    assert silence.words == ()


def test_a_public_model_is_a_witness(tmp_path: Path, airplane: Samples) -> None:
    """It hears as much in a piece as it hears again, and another piece changes nothing."""
    witness = load_witness(str(make_ctc_folder(tmp_path)), FEW.__contains__)
    first, _, again = witness.hear(airplane), witness.hear(airplane[:9_000]), witness.hear(airplane)
    assert first.words
    assert first.words == again.words


def test_a_name_that_nobody_has_is_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    for name in ("no-such-reader", str(tmp_path)):
        with pytest.raises(WitnessError):
            load_witness(name, FEW.__contains__)


def test_a_reader_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It can be fetched."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(WitnessError, match="streamer models get moonshine-base"):
        load_witness("moonshine-base", FEW.__contains__)


def test_words_are_as_they_are_spoken() -> None:
    """Figures are words, and capitals that are no word are letters."""
    tokens = [Token(" It's 5 o'clock, Mr. Müller: NATO and the", 0.0), Token(" FBI…", 0.0)]
    words = "it's five o'clock mister muller nato and the f b i"
    assert spoken_words(tokens, FEW.__contains__) == tuple(words.split())


def test_a_change_of_the_files_is_seen(tmp_path: Path) -> None:
    """The sign of a copy is the same, wherever it is."""
    one, other = write_witness(tmp_path / "one"), tmp_path / "other"
    shutil.copytree(one, other)
    assert fingerprint(str(one)) == fingerprint(str(other))
    with (other / "model.bin").open("ab") as file:
        file.write(b"\0")
    assert fingerprint(str(one)) != fingerprint(str(other))
    assert fingerprint(SHIPPED) == fingerprint(str(BUNDLE))
