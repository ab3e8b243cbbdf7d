"""A reader reads any segment, and never raises."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.engine.reader.pieces import PiecesError
from streamer.engine.reader.reader import LONGEST, RATE, Reader, load_reader, parts
from streamer.engine.reader.reading_words import phrases_of
from tests.engine.reader.random_reader import PIECES, random_weights, write_reader

_PACKAGE = importlib.util.find_spec("moonshine_voice")
_TINY = Path((_PACKAGE and _PACKAGE.origin) or "none").parent / "assets" / "tiny-en"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("reader")
    write_reader(folder, random_weights(), signed=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return load_reader(folder)


def _noise(samples: int, size: float = 3_000) -> NDArray[np.int16]:
    return np.clip(np.random.default_rng(3).normal(size=samples) * size, -32_768, 32_767).astype(np.int16)


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, np.int16),
        np.zeros(1, np.int16),
        np.zeros(900, np.int16),
        np.zeros(5 * RATE, np.int16),
        _noise(1_000),
        _noise(3 * RATE, 1e6),
        np.full(2 * RATE, -32_768, np.int16),
    ],
    ids=["empty", "one sample", "short silence", "silence", "short", "full scale", "constant"],
)
def test_no_segment_raises(reader: Reader, samples: NDArray[np.int16]) -> None:
    """Empty and short segments, silence and noise are read like others."""
    reading = reader.read(samples)
    assert len(reading.tokens) <= 6.5 * len(samples) / RATE + 8
    assert np.isfinite(reading.log_probability)
    assert all(np.isfinite(token.log_probability) and token.log_probability <= 0 for token in reading.tokens)
    assert reading.text == "".join(token.text for token in reading.tokens).strip()


def test_nothing_is_read_in_next_to_nothing(reader: Reader) -> None:
    """Less than 50 ms have no words."""
    assert reader.read(_noise(RATE // 20 - 1)).tokens == ()


def test_a_long_segment_is_read_in_parts(reader: Reader) -> None:
    """The text of the parts is that of each part alone, one after the other."""
    samples = _noise(LONGEST + 2 * RATE)
    pause = (LONGEST // 2 + RATE, LONGEST // 2 + 2 * RATE)
    cut = sum(pause) // 2
    alone = [reader.read(part) for part in (samples[:cut], samples[cut:])]
    both = reader.read(samples, [pause])
    assert both.text == " ".join(each.text for each in alone)
    assert both.tokens == alone[0].tokens + alone[1].tokens


def test_any_words_can_be_compared(reader: Reader) -> None:
    """Whatever others say, a reading stays what it is, and no word that cannot be written raises."""
    samples = _noise(2 * RATE)
    alone = reader.read(samples)
    for words in (["a"], ["\u8c22\u8c22", "x"] * 40, [""], ["it's"] * 300):
        compared = reader.read(samples, (), words)
        assert replace(compared, differences=()) == alone
        assert all(np.isfinite(one.gain) and one.own <= 0 for one in compared.differences)


def test_a_segment_is_cut_in_its_longest_pause() -> None:
    """Pauses that would leave a short part are not used."""
    sound = np.ones(LONGEST + RATE, np.float32)
    pauses = [(RATE, 5 * RATE), (18 * RATE, 19 * RATE), (20 * RATE, 20 * RATE + 100)]
    cut = 18 * RATE + RATE // 2
    assert list(parts(sound, pauses)) == [(0, cut), (cut, len(sound))]
    assert list(parts(sound[:LONGEST], pauses)) == [(0, LONGEST)]


def test_without_pauses_a_segment_is_cut_where_it_is_quietest() -> None:
    """No part is too long, and together they are the segment."""
    sound = np.ones(100 * RATE, np.float32)
    sound[20 * RATE : 20 * RATE + 1_000] = 0
    found = list(parts(sound, ()))
    assert 20 * RATE <= found[0][1] <= 20 * RATE + 1_000
    assert [start for start, _ in found] == [0, *(end for _, end in found[:-1])]
    assert found[-1][1] == len(sound)
    assert all(end - start <= LONGEST for start, end in found)


def test_what_is_no_english_speech_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs for music and letters of other scripts are what Moonshine writes into noise."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_reader(tmp_path, random_weights(), signed=False)
    spoken = load_reader(tmp_path).read(_noise(RATE))
    assert spoken.tokens
    for sign in ("\u266a", "\u8c22", "\u00a9"):
        path = tmp_path / "tokenizer.bin"
        path.write_bytes(b"".join(bytes([len(piece)]) + piece for piece in [sign.encode()] * PIECES))
        reading = load_reader(tmp_path).read(_noise(RATE))
        assert (reading.text, reading.tokens, reading.complete) == ("", (), False)
        assert reading.log_probability == spoken.log_probability


def test_a_folder_without_pieces_is_refused(tmp_path: Path) -> None:
    """The message names the file that is missing."""
    write_reader(tmp_path, random_weights(), signed=False)
    (tmp_path / "tokenizer.bin").unlink()
    with pytest.raises(PiecesError, match="tokenizer"):
        load_reader(tmp_path)


if _TINY.is_dir():  # the package is only for some processors

    @pytest.fixture(scope="module")
    def tiny() -> Reader:
        return load_reader(_TINY)

    def test_moonshine_tiny_reads_speech(tiny: Reader) -> None:
        """Real weights read a recording word by word, surely, and with marks."""
        reading = tiny.read(read_audio(Path("audio_samples/quilter.ogg")))
        assert reading.text.lower().startswith("mr. quilter is the apostle of the middle classes")
        assert reading.complete
        assert -0.3 < reading.log_probability < 0

    def test_a_reading_is_compared_with_other_words(tiny: Reader) -> None:
        """Where others have another word, the reader says how likely it is; absurd words are very unlikely."""
        samples = read_audio(Path("audio_samples/quilter.ogg"))
        read = tiny.read(samples)
        words = [word.text for phrase in phrases_of(read.tokens, lambda word: True) for word in phrase[0]]
        place = words.index("apostle")
        others = ["well", *words[:place], "epistle", *words[place + 1 :], "zebra"]
        compared = tiny.read(samples, (), others)
        assert replace(compared, differences=()) == read
        assert [one.words for one in compared.differences] == [("well",), ("epistle",), ("zebra",)]
        text = "".join(token.text for token in read.tokens)
        first, wrong, last = compared.differences
        assert (first.start, text[wrong.start : wrong.end], last.start) == (1, "apostle", len(text) - 1)
        assert (first.own, last.own) == (0.0, 0.0)
        assert -1 < wrong.own < 0
        assert all(one.gain < -3 for one in compared.differences)
        assert tiny.read(samples, (), words).differences == ()

    def test_the_parts_of_a_long_segment_are_compared(tiny: Reader) -> None:
        """Each difference is compared in its part, as likely as there alone."""
        samples = read_audio(Path("audio_samples/quilter.ogg"))
        gap = np.zeros(RATE, np.int16)
        long = np.concatenate([samples, gap] * (LONGEST // len(samples) + 1))
        middle = (len(samples) + len(gap)) * (LONGEST // 2 // len(samples) + 1) - len(gap)
        read = tiny.read(long, [(middle, middle + len(gap))])
        words = [word.text for phrase in phrases_of(read.tokens, lambda word: True) for word in phrase[0]]
        others = ["epistle" if word == "apostle" else word for word in words]
        found = tiny.read(long, [(middle, middle + len(gap))], others).differences
        assert len(found) == words.count("apostle") > 2
        assert all(one.words == ("epistle",) and one.gain < -1 for one in found)

    def test_moonshine_tiny_reads_silence_and_noise(tiny: Reader) -> None:
        """What is no speech gives no words, or words that are not sure."""
        for samples in (np.zeros(4 * RATE, np.int16), _noise(4 * RATE)):
            reading = tiny.read(samples)
            assert not reading.text or reading.log_probability < -0.5
