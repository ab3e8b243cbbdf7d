"""Swear words in results: kept, masked, or left out."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest

from streamer.base.events import Final, Partial, StreamEvent, Word
from streamer.base.transcript import Transcript
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.profanity import Profanity, clean_words, swear_words
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import hear
from tests.engine.random_marks import random_marks

SAID = "this is shit and the bastard's fucking boat sank"


def cleaned(text: str, how: str) -> str:
    """The text of these words, which are a second long."""
    words = [Word(word, 1000 * number, 1000 * number + 900) for number, word in enumerate(text.split())]
    return " ".join(word.word for word in clean_words(words, Profanity(how)))


def heard(spoken: str, pieces: int = 30, **options: object) -> list[StreamEvent]:
    """The events of a stream that hears these words."""
    recogniser = Recogniser(
        ExactModel(), {"lexicon": GreedySearch(UNITS, 1)}, slots=1, punctuation=random_marks() if options else None
    )
    audio = np.concatenate([say(spoken), silence(1500)])
    return hear(recogniser, np.array_split(audio, pieces), StreamOptions.from_dict(options, [320], ["lexicon"]))


@pytest.mark.parametrize(
    ("text", "masked", "removed"),
    [
        (SAID, "this is s*** and the b******'s f****** boat sank", "this is and the boat sank"),
        ("Shit, we left.", "S***, we left.", "We left."),
        ("This is shit. And so on.", "This is s***. And so on.", "This is. And so on."),
        ("Well, damn! Shitake, Scunthorpe", "Well, d***! Shitake, Scunthorpe", "Well, Shitake, Scunthorpe"),
        ("What the FUCK?", "What the F***?", "What the?"),
        ("mother-fucker", "mother-f*****", ""),
        ("我 damn 9", "我 d*** 9", "我 9"),
    ],
)
def test_what_is_written(text: str, masked: str, removed: str) -> None:
    """A mask has the first letter and the length of the word. What is left of a sentence keeps its capital and end."""
    assert cleaned(text, "keep") == text
    assert cleaned(text, "mask") == masked
    assert cleaned(text, "remove") == removed


def test_the_list() -> None:
    """It has lower-case words without doubles, and no comment is one of them."""
    assert len(swear_words()) > 60
    assert all(word.isalpha() and word.islower() for word in swear_words())


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(("how", "parts"), [("mask", ("s***", "f******")), ("remove", ("shit", "fucking"))])
def test_all_formats_have_the_same_words(how: str, parts: tuple[str, ...], written: bool) -> None:
    """Text, subtitles and JSON show no swear word, spoken or written, and the other words keep their times."""
    options = {"written": written, "alternatives": 2}
    usual, clean = (
        next(event for event in heard(SAID, **options, profanity=each) if isinstance(event, Final))
        for each in ("keep", how)
    )
    kept = {(word.start_ms, word.end_ms) for word in usual.words or ()}
    times = [(word.start_ms, word.end_ms) for word in clean.words or ()]
    assert len(times) == (9 if how == "mask" else 6)
    assert set(times) <= kept
    assert clean.text == " ".join(word.word for word in clean.words or ())
    transcript = Transcript("talk.wav")
    transcript.add({"type": "final", **{name: value for name, value in asdict(clean).items() if value is not None}})
    for format in ("text", "srt", "vtt", "json"):
        shown = transcript.render(format).lower()
        assert "fuck" not in shown
        assert "shit" not in shown
        assert all((part in shown) == (how == "mask") for part in parts)


@pytest.mark.parametrize("how", ["mask", "remove"])
@pytest.mark.parametrize("written", [False, True])
def test_stable_text_stays(how: str, written: bool) -> None:
    """The stable part of a partial only grows, and the final begins with it, wherever the swear words are."""
    dice = random.Random(7)
    spoken = " ".join(dice.choices(["boat", "shit", "a", "damn", "sea", "fucking"], k=40))
    stable: dict[int, str] = {}
    for event in heard(spoken, profanity=how, written=written):
        if isinstance(event, Partial | Final):
            assert event.text.startswith(stable.get(event.segment, ""))
            assert not {"shit", "damn", "fucking"} & set(event.text.lower().split())
        if isinstance(event, Partial):
            stable[event.segment] = event.text[: event.stable]
    assert any(stable.values())


def test_a_segment_of_swear_words_has_no_final() -> None:
    """If nothing is left, there is no final; masked words are a text."""
    assert not [event for event in heard("shit", profanity="remove") if isinstance(event, Final)]
    assert [event.text for event in heard("shit", profanity="mask") if isinstance(event, Final)] == ["s***"]
