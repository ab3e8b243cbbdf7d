"""No word is lost, doubled or split at the end of a segment, whatever the pauses."""

from __future__ import annotations

import difflib
import functools
import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.bundle import load_recogniser
from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_events import Cut, Final
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say
from tests.engine.exact_streams import HearingModel, hear, lexicon_search, text
from tests.project import BUNDLE
from tests.samples import pcm

PAUSES_MS = range(100, 3001, 40)
ENDPOINTS = {
    "default": EndpointRule(),
    "off": EndpointRule(silence=False),
    "shortest": EndpointRule(after_text_ms=400, without_text_ms=400, longest_ms=6000),
    "long": EndpointRule(after_text_ms=2000, without_text_ms=5000, longest_ms=60_000),
}


def pause(milliseconds: int, *, faint: bool) -> NDArray[np.int16]:
    """Digital silence, or faint noise."""
    noise = np.random.default_rng(milliseconds).integers(-3, 4, milliseconds * 16)
    return (noise * faint).astype(np.int16)


def paused(seed: int) -> tuple[str, NDArray[np.int16]]:
    """A word or two before each pause; the pauses come in random order."""
    dice = random.Random(seed)
    spoken, audio = [], []
    for milliseconds in dice.sample(PAUSES_MS, len(PAUSES_MS)):
        words = ["".join(dice.choices("abcdefgh", k=dice.randint(1, 6))) for _ in range(dice.randint(1, 2))]
        spoken += words
        audio += [say(" ".join(words)), pause(milliseconds, faint=dice.random() < 0.5)]
    return " ".join(spoken), np.concatenate(audio)


def in_pieces(audio: NDArray[np.int16]) -> list[NDArray[np.int16]]:
    """Audio in chunks that a recogniser accepts."""
    return np.array_split(audio, len(audio) // 400_000 + 1)


@pytest.mark.parametrize("step_ms", [160, 320, 640])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("model", [ExactModel, HearingModel])
def test_every_pause_leaves_every_word_whole(model: type[ExactModel], endpoint: str, step_ms: int) -> None:
    """Pauses from 0.1 to 3 s in small steps, of zeros and of noise: the finals have each word once and whole."""
    words, audio = paused(step_ms)
    recogniser = Recogniser(model(), {"lexicon": GreedySearch(UNITS, 1)}, slots=1)
    options = StreamOptions(step_ms=step_ms, endpoint=ENDPOINTS[endpoint])
    events = hear(recogniser, in_pieces(audio), options)
    assert text(events) == words
    finals = [event for event in events if isinstance(event, Final)]
    longest = ENDPOINTS[endpoint].longest_ms + step_ms
    assert all(final.end_ms - final.start_ms <= longest for final in finals)
    if endpoint == "off":
        assert len(finals) <= 1 + len(audio) // 16 // (ENDPOINTS[endpoint].longest_ms - EndpointRule.gap_stretch_ms)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_pause_leaves_every_word_of_a_lexicon_whole(endpoint: str) -> None:
    """The same with the beam search, which shows a word later than it is said."""
    words, audio = paused(7)
    recogniser = Recogniser(HearingModel(), {"lexicon": lexicon_search(words, 1)}, slots=1)
    assert text(hear(recogniser, in_pieces(audio), StreamOptions(endpoint=ENDPOINTS[endpoint]))) == words


@functools.cache
def shipped() -> Recogniser:
    """The recogniser of the bundle in the repository."""
    return load_recogniser(BUNDLE, slots=1)


@functools.cache
def alone(name: str) -> list[str]:
    """The words that the shipped model finds in this recording alone."""
    return text(hear(shipped(), in_pieces(recording(name)))).split()


def recording(name: str) -> NDArray[np.int16]:
    return np.frombuffer(pcm(name, 3.0), dtype=np.int16)


@pytest.mark.parametrize("faint", [False, True], ids=["zeros", "noise"])
def test_recordings_with_pauses_lose_no_word(faint: bool) -> None:
    """Recordings one after another, with pauses from 0.1 to 3 s, have as many words as they have alone."""
    names, pauses = ["airplane.mp3", "quilter.ogg", "airplane.mp3"], [(100, 450), (850, 1000), (1200, 2200)]
    for lengths in pauses:
        audio, expected = [recording(names[0])], list(alone(names[0]))
        for name, milliseconds in zip(names[1:], lengths, strict=True):
            audio += [pause(milliseconds, faint=faint), recording(name)]
            expected += alone(name)
        options = replace(StreamOptions(), endpoint=EndpointRule(after_text_ms=400 + lengths[0] // 2))
        events = hear(shipped(), in_pieces(np.concatenate(audio)), options)
        found = text(events).split()
        matcher = difflib.SequenceMatcher(None, expected, found, autojunk=False)
        same = sum(block.size for block in matcher.get_matching_blocks())
        # What stands before a word may make another one of it: a few, but it may not be missing or there twice.
        assert -1 <= len(found) - len(expected) <= len(names)
        assert same >= 0.7 * len(expected)
        assert len([event for event in events if isinstance(event, Cut)]) >= 1
