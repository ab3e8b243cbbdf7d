"""Whisper reads segments in any of its languages, with the times of its words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.reader.pieces import Pieces
from streamer.engine.reader.reader import LONGEST, RATE, Reader, load_reader
from streamer.engine.reader.reading import Reading, ReadingOptions
from streamer.engine.reader.whisper import spectrum
from streamer.models.whisper_folder import UnknownWhisper
from tests.engine.reader.scripted_whisper import WIDTH, write_whisper

SAID = ("ĠGuten", "ĠTag", ",", "ĠFrau", "ĠM", "Ã¼ller", ".")
TIMED = ReadingOptions(times=True)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("whisper")
    write_whisper(folder, SAID)
    return load_reader(folder)


def _noise(samples: int) -> NDArray[np.int16]:
    return np.clip(np.random.default_rng(3).normal(size=samples) * 3_000, -32_768, 32_767).astype(np.int16)


def _read(folder: Path, *tokens: str, options: ReadingOptions = TIMED, english_only: bool = False) -> Reading:
    write_whisper(folder, tokens, english_only=english_only)
    return load_reader(folder).read(_noise(2 * RATE), options=options)


def test_a_segment_is_read(reader: Reader) -> None:
    """The language is heard, and all tokens are likely."""
    reading = reader.read(_noise(2 * RATE), options=TIMED)
    assert reading.text == "Guten Tag, Frau Müller."
    assert (reading.language, reading.complete, reading.width) == ("de", True, WIDTH)
    assert reading.text == "".join(token.text for token in reading.tokens).strip()
    assert all(-0.1 < token.log_probability <= 0 for token in reading.tokens)
    assert Reading.from_json(reading.as_json()) == reading


def test_words_have_times_and_their_marks(reader: Reader) -> None:
    """The times grow, and lie in the segment."""
    words = reader.read(_noise(2 * RATE), options=TIMED).words
    assert [word.text for word in words] == ["Guten", "Tag,", "Frau", "Müller."]
    bounds = [bound for word in words for bound in (word.start_ms, word.end_ms)]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= 2_040
    assert all(0.9 < word.probability <= 1 for word in words)
    assert reader.read(_noise(2 * RATE)).words == ()


def test_a_long_segment_is_read_in_parts(reader: Reader) -> None:
    """The words of the second part come after those of the first one."""
    pause = (LONGEST // 2 + RATE, LONGEST // 2 + 2 * RATE)
    reading = reader.read(_noise(LONGEST + 2 * RATE), [pause], options=TIMED)
    assert reading.text == "Guten Tag, Frau Müller. Guten Tag, Frau Müller."
    assert [word.start_ms >= sum(pause) // 2 * 1000 // RATE for word in reading.words] == [False] * 4 + [True] * 4


@pytest.mark.parametrize("samples", [0, 1, RATE // 20, 2_000])
def test_no_length_raises(reader: Reader, samples: int) -> None:
    """Short segments are read like others, and next to nothing has no words."""
    assert bool(reader.read(_noise(samples)).text) is (samples >= RATE // 20)


def test_a_language_may_be_chosen(reader: Reader) -> None:
    """A language in any spelling; another one is refused with those that there are."""
    assert reader.languages == ("en", "zh", "de", "es", "ja")
    assert reader.read(_noise(RATE), options=ReadingOptions("es-MX")).language == "es"
    with pytest.raises(ValueError, match="no language 'fr'; it has en, zh, de, es, ja"):
        reader.read(_noise(RATE), options=ReadingOptions("fr"))


def test_a_prompt_comes_before_the_text(reader: Reader) -> None:
    """The script moves by the prompt and its sign. Any text can be a prompt, and of a long one the end counts."""
    assert reader.read(_noise(RATE), options=ReadingOptions(prompt="x")).text == "Frau Müller."
    assert reader.read(_noise(RATE), options=ReadingOptions(prompt="\u8c22 x" * 500)).text == ""


def test_characters_are_words_without_spaces(tmp_path: Path) -> None:
    """In Japanese each character is a word, and a mark belongs to the one before it."""
    write_whisper(tmp_path, ("æĹ¥", "æľ¬", "ãĢĤ"), language="ja")
    reading = load_reader(tmp_path).read(_noise(2 * RATE), options=TIMED)
    assert reading.text == "日本。"
    assert [word.text for word in reading.words] == ["日", "本。"]


def test_a_mark_that_opens_belongs_to_the_word_after_it(tmp_path: Path) -> None:
    """Quotation marks and brackets stand with the word that they open."""
    reading = _read(tmp_path, "ĠEr", 'Ġ"', "ja", '"', ".")
    assert [word.text for word in reading.words] == ["Er", '"ja".']


def test_no_word_is_lost_where_more_is_said_than_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a part is divided for a stream that has only these words; beside a recogniser, it is not complete."""
    monkeypatch.setattr("streamer.engine.reader.whisper._MOST_TOKENS", 20)  # half of it for the text
    words = [f"\u0120{letter * 3}" for letter in "abcdefghijklmno"]
    write_whisper(tmp_path, words)
    reader = load_reader(tmp_path)
    whole = reader.read(_noise(10 * RATE), options=TIMED)
    assert whole.text.split().count("aaa") > 1  # this model writes the same in each part
    assert whole.words[0].start_ms < 3_000
    assert 3_000 < whole.words[-1].start_ms < 10_000
    beside = reader.read(_noise(10 * RATE))
    assert (beside.text.split().count("aaa"), beside.complete) == (1, False)


def test_circles_are_cut(tmp_path: Path) -> None:
    """Of what is read again and again, the beginning stays, and the reading is not complete."""
    reading = _read(tmp_path, "ĠNa", *["Ġja"] * 20)
    assert (reading.text.split()[0], reading.complete) == ("Na", False)
    assert len(reading.tokens) < 8


def test_text_that_is_far_too_long_is_not_complete(tmp_path: Path) -> None:
    """In 0.1 s nobody says 30 words."""
    write_whisper(tmp_path, [f"Ġw{number}" for number in range(30)])
    reading = load_reader(tmp_path).read(_noise(RATE // 10))
    assert len(reading.tokens) == 10
    assert not reading.complete


def test_what_is_no_speech_has_no_words(tmp_path: Path) -> None:
    """If Whisper hears no speech and finds no likely text, there is none."""
    write_whisper(tmp_path, (), no_speech=True)
    reading = load_reader(tmp_path).read(_noise(RATE), options=ReadingOptions("de"))
    assert (reading.text, reading.complete) == ("", True)


def test_a_reading_is_compared_with_other_words(reader: Reader) -> None:
    """What the script does not say is unlikely, and the reading stays."""
    samples = _noise(2 * RATE)
    reading = reader.read(samples, (), ["guten", "abend", "frau", "muller"])
    assert reading.text == reader.read(samples).text
    [difference] = reading.differences
    assert (difference.start, difference.end, difference.words) == (7, 10, ("abend",))
    assert difference.gain < -10
    assert -0.5 < difference.own <= 0
    assert reader.read(samples, (), ["guten", "tag", "frau", "muller"]).differences == ()
    for words in (["a"], ["\u8c22\u8c22", "x"] * 40, [""], ["it's"] * 300):
        assert all(np.isfinite(one.gain) for one in reader.read(samples, (), words).differences)


def test_a_model_for_english_alone(tmp_path: Path) -> None:
    """It has no choice of languages, and takes any wish for one."""
    reading = _read(tmp_path, "ĠGood", "Ġday", ".", options=ReadingOptions("auto", translate=True), english_only=True)
    assert (reading.text, reading.language) == ("Good day.", "en")


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """The message names what is wrong."""
    write_whisper(tmp_path, SAID)
    vocabulary = tmp_path / "vocabulary.json"
    content = vocabulary.read_bytes()
    vocabulary.unlink()
    with pytest.raises(UnknownWhisper, match=r"has no vocabulary\.json or vocabulary\.txt"):
        load_reader(tmp_path)
    vocabulary.write_bytes(content)
    model = tmp_path / "model.bin"
    model.write_bytes(model.read_bytes()[:1_000])
    with pytest.raises(UnknownWhisper, match="is no model that CTranslate2 can use"):
        load_reader(tmp_path)


def test_pieces_are_joined_as_whisper_was_taught() -> None:
    """The piece with the lowest number is joined first."""
    pieces = Pieces([b" ", b"t", b"h", b"e", b"th", b" th", b" the", b"he"])
    assert pieces.tokens("the") == [6]


# The spectrum shows where sound is, in time and in frequency.


@pytest.mark.parametrize(("hertz", "band"), [(200, 4), (1_000, 26), (4_000, 62)])
def test_a_tone_is_in_one_band(hertz: int, band: int) -> None:
    """Bands are as wide as Slaney's scale says: 80 of them up to 8000 Hz."""
    tone = 0.5 * np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE)
    heard = spectrum(tone.astype(np.float32), 80)
    assert heard.shape == (80, 100)
    assert abs(int(heard[:, 50].argmax()) - band) <= 1


def test_sound_is_where_it_was() -> None:
    """A frame is 10 ms, and silence is two below the loudest band."""
    sound = np.zeros(RATE, np.float32)
    sound[8_000:8_160] = np.random.default_rng(1).normal(size=160) / 4
    loud = spectrum(sound, 128).max(axis=0)
    assert abs(int(loud.argmax()) - 50) <= 1
    assert loud[:48].max() == pytest.approx(loud.max() - 2)


@pytest.mark.parametrize("samples", [1, 159, 800, 801])
def test_any_length_has_frames(samples: int) -> None:
    """The last part of a frame is left out, but there is always one."""
    heard = spectrum(np.ones(samples, np.float32) / 2, 80)
    assert heard.shape == (80, max(1, samples // 160))
    assert np.isfinite(heard).all()
