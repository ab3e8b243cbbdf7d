"""Prompts for synthetic voices, the voices, and speech of the form of other sets, without a text of dev."""

from __future__ import annotations

import random
import re
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tests.workshop.data.given_folder import make_given
from workshop.data.corpus import Corpus, CorpusError, prepare
from workshop.data.synthetic_speech import (
    DICTATION,
    LETTER_NAMES,
    Voice,
    cardinal,
    check_installed,
    draw_voice,
    planned_speech,
    prompts,
    spoken,
    synthesise,
    transcript,
)


def test_synthetic_speech_lies_beside_train(tmp_path: Path) -> None:
    """The set has the requested length, comes from each engine, and is the same for the same seed."""
    prepare(make_given(tmp_path / "given"), tmp_path / "work", 1, print)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=1)
    made = Corpus(tmp_path / "work", "synthetic")
    before = made.everything().tobytes()
    assert 4 <= len(before) / 32000 < 16
    assert {utterance.corpus for utterance in made.utterances} == {"synthetic_espeak-ng", "synthetic_flite"}
    assert all(utterance.speaker and utterance.text.islower() for utterance in made.utterances)
    assert len({utterance.name for utterance in made.utterances}) == len(made.utterances)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=2)
    assert Corpus(tmp_path / "work", "synthetic").everything().tobytes() == before


def test_synthetic_speech_needs_what_was_prepared(tmp_path: Path) -> None:
    """Without train the rare words are unknown, which is an error."""
    with pytest.raises(CorpusError, match="prepare_speech"):
        synthesise(tmp_path / "work", 1, ["flite"], seed=1, processes=1)


def test_no_text_of_dev_is_said() -> None:
    """Texts of dev are skipped, and no others."""
    said, kept = (
        [transcript(text) for _, text in islice(planned_speech(["zebra"], unwanted, ["flite"], random.Random(3)), 400)]
        for unwanted in (set(), {"zebra", "stop"})
    )
    assert {"zebra", "stop"} <= set(said)
    assert {"zebra", "stop"}.isdisjoint(kept)
    assert "play the next song" in kept


WORDS = [f"{first}{second}ord" for first in "bcdfghjk" for second in "aeiou"]


def some(number: int, seed: int = 1) -> list[str]:
    """Return the first prompts."""
    return list(islice(prompts(WORDS, random.Random(seed)), number))


def test_the_same_seed_says_the_same() -> None:
    """The same seed gives the same prompts, and another seed other ones."""
    assert some(50) == some(50)
    assert some(50) != some(50, seed=2)


def test_a_transcript_is_words_of_small_letters() -> None:
    """Transcripts have no digits, no signs but the apostrophe, and no empty gaps."""
    for prompt in some(2000):
        assert re.fullmatch(r"[a-z']+( [a-z']+)*", transcript(prompt)), prompt


def test_every_word_comes_once_before_any_comes_twice() -> None:
    """Every word of a long list comes once before any word comes twice."""
    said = [word for prompt in some(200) for word in prompt.split() if word in WORDS]
    assert len(said) > 2 * len(WORDS)
    assert set(said[: len(WORDS)]) == set(said[len(WORDS) : 2 * len(WORDS)]) == set(WORDS)


def test_all_letters_and_digits_are_said() -> None:
    """All letters and digits come within a few hundred prompts."""
    said = {word for prompt in some(1500) for word in prompt.split()}
    assert set(LETTER_NAMES) <= said
    assert {"zero", "oh", "one", "nine", "fifteen", "forty", "hundred", "thousand"} <= said


def test_dictation_spells_words_and_says_digits() -> None:
    """Dictated text spells words letter by letter, and sometimes says "double" for two equal letters or digits."""
    said = [transcript(prompt) for prompt in islice(prompts(["hello"], random.Random(1), DICTATION), 2000)]
    assert all(re.fullmatch(r"[a-z']+( [a-z']+)*", prompt) for prompt in said)
    text = " | ".join(said)
    for part in ("h e l l o", "h e double l o", "my phone number is ", " double seven", " hello street"):
        assert part in text, part


def test_a_voice_is_given_the_names_of_letters() -> None:
    """Single letters are replaced by their names for a voice, and words stay."""
    assert spoken("it is spelled A W I") == "it is spelled ay, double-you, eye."
    assert spoken("i have a cat") == "I have a cat."


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (91, "ninety one"),
        (100, "one hundred"),
        (612, "six hundred twelve"),
        (1000, "one thousand"),
        (20_305, "twenty thousand three hundred five"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    """Numbers in words have no hyphens, as in transcripts."""
    assert cardinal(number) == words


ENGINES = ["espeak-ng", "flite", *(["rhvoice"] if shutil.which("RHVoice-test") else [])]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_voice_says_the_same_twice(engine: str) -> None:
    """A voice gives about a second of sound, and the same samples again."""
    check_installed([engine])
    voice = draw_voice(engine, random.Random(1))
    said = voice.say("a good morning to all of you")
    assert 0.8 < len(said) / 16000 < 4
    assert np.abs(said).max() > 2000
    assert np.array_equal(said, voice.say("a good morning to all of you"))
    assert voice.speaker.startswith(f"{engine} ")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_faster_voice_needs_less_time(engine: str) -> None:
    """A faster voice takes less time; another throat changes the sound, not the time."""
    name = draw_voice(engine, random.Random(2)).name
    slow, fast, small = (
        Voice(engine, name, rate, 1.0, throat).say("the quick brown fox jumps over the lazy dog")
        for rate, throat in ((0.8, 1.0), (1.25, 1.0), (1.25, 1.1))
    )
    assert len(fast) < 0.85 * len(slow)
    assert len(small) == pytest.approx(len(fast), rel=0.1)


def test_voices_are_drawn_by_the_seed() -> None:
    """Many voices are drawn, and the same ones for the same seed."""
    drawn = [[draw_voice("espeak-ng", random.Random(seed)) for seed in range(30)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({voice.speaker for voice in drawn[0]}) > 20


def test_missing_engines_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says what to install, and an unknown engine is refused."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="apt-get install flite"):
        check_installed(["flite"])
    with pytest.raises(CorpusError, match="no engine 'hal'; there are espeak-ng, flite, rhvoice"):
        check_installed(["hal"])
    with pytest.raises(CorpusError, match="cannot say 'hello'"):
        Voice("flite", "slt", 1.0, 1.0, 1.0).say("hello")
