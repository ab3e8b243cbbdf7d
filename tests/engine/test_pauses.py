"""No word is lost, doubled or split at the end of a segment, whatever the pauses."""

from __future__ import annotations

import difflib
import functools
import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Cut, Final, StreamEvent
from streamer.engine.bundle import load_recogniser
from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say
from tests.engine.exact_streams import HearingModel, hear_together, lexicon_search, text
from tests.project import BUNDLE
from tests.samples import pcm

PAUSES_MS = range(100, 3001, 60)
ENDPOINTS = {
    "default": EndpointRule(),
    "off": EndpointRule(silence=False),
    "shortest": EndpointRule(after_text_ms=400, without_text_ms=400, longest_ms=6000),
    "long": EndpointRule(after_text_ms=2000, without_text_ms=5000, longest_ms=60_000),
}


def pause(milliseconds: int, *, faint: bool) -> NDArray[np.int16]:
    """Return digital silence, or faint noise."""
    noise = np.random.default_rng(milliseconds).integers(-3, 4, milliseconds * 16)
    return (noise * faint).astype(np.int16)


def paused(seed: int) -> tuple[str, NDArray[np.int16]]:
    """Return a word or two before each pause; the pauses come in random order."""
    dice = random.Random(seed)
    spoken, audio = [], []
    for milliseconds in dice.sample(PAUSES_MS, len(PAUSES_MS)):
        words = ["".join(dice.choices("abcdefgh", k=dice.randint(1, 6))) for _ in range(dice.randint(1, 2))]
        spoken += words
        audio += [say(" ".join(words)), pause(milliseconds, faint=dice.random() < 0.5)]
    return " ".join(spoken), np.concatenate(audio)


def in_pieces(audio: NDArray[np.int16]) -> list[NDArray[np.int16]]:
    """Return audio in chunks that a recogniser accepts."""
    return np.array_split(audio, len(audio) // 400_000 + 1)


STEPS_MS = (160, 320, 640)
MODELS: dict[str, type[ExactModel]] = {"exact": ExactModel, "hearing": HearingModel}
FAINT = {"zeros": False, "noise": True}


@functools.cache
def heard(model: str) -> dict[tuple[str, int], list[StreamEvent]]:
    """Return the events of every kind of end with every step, of streams that are computed together."""
    kinds = [(endpoint, step_ms) for endpoint in ENDPOINTS for step_ms in STEPS_MS]
    recogniser = Recogniser(MODELS[model](), {"lexicon": GreedySearch(UNITS, len(kinds))}, slots=len(kinds))
    streams = [
        (in_pieces(paused(step_ms)[1]), StreamOptions(step_ms=step_ms, endpoint=ENDPOINTS[endpoint]))
        for endpoint, step_ms in kinds
    ]
    return dict(zip(kinds, hear_together(recogniser, streams), strict=True))


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("model", MODELS)
def test_every_pause_leaves_every_word_whole(model: str, endpoint: str, step_ms: int) -> None:
    """Pauses from 0.1 to 3 s in small steps, of zeros and of noise: the finals have each word once and whole."""
    words, audio = paused(step_ms)
    events = heard(model)[endpoint, step_ms]
    assert text(events) == words
    finals = [event for event in events if isinstance(event, Final)]
    longest = ENDPOINTS[endpoint].longest_ms + step_ms
    assert all(final.end_ms - final.start_ms <= longest for final in finals)
    if endpoint == "off":
        assert len(finals) <= 1 + len(audio) // 16 // (ENDPOINTS[endpoint].longest_ms - EndpointRule.gap_stretch_ms)


@functools.cache
def heard_with_a_lexicon() -> dict[str, str]:
    """Return the text that the beam search finds with every kind of end, in streams that are computed together."""
    words, audio = paused(7)
    recogniser = Recogniser(HearingModel(), {"lexicon": lexicon_search(words, len(ENDPOINTS))}, slots=len(ENDPOINTS))
    streams = [(in_pieces(audio), StreamOptions(endpoint=endpoint)) for endpoint in ENDPOINTS.values()]
    return dict(zip(ENDPOINTS, map(text, hear_together(recogniser, streams)), strict=True))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_pause_leaves_every_word_of_a_lexicon_whole(endpoint: str) -> None:
    """The same with the beam search, which shows a word later than it is said."""
    assert heard_with_a_lexicon()[endpoint] == paused(7)[0]


# Recordings that are read well: where the model hesitates, two readings may differ by a word and nothing is lost.
NAMES, PAIRS_MS = ("quilter.ogg", "talk.flac", "quilter.ogg"), ((100, 450), (850, 1000), (1200, 2200))


@functools.cache
def heard_by_the_shipped_model() -> tuple[dict[str, list[str]], dict[tuple[str, tuple[int, int]], list[StreamEvent]]]:
    """Return the words of each recording alone, and the events of recordings with pauses, computed together."""
    alone = [(in_pieces(recording(name)), StreamOptions()) for name in dict.fromkeys(NAMES)]
    kinds = [(faint, pair) for faint in FAINT for pair in PAIRS_MS]
    paused = [(in_pieces(with_pauses(pair, faint=FAINT[faint])), options_for(pair)) for faint, pair in kinds]
    recogniser = load_recogniser(BUNDLE, slots=len(alone) + len(paused))
    events = hear_together(recogniser, [*alone, *paused])
    words = [text(found).split() for found in events[: len(alone)]]
    return (
        dict(zip(dict.fromkeys(NAMES), words, strict=True)),
        dict(zip(kinds, events[len(alone) :], strict=True)),
    )


def recording(name: str) -> NDArray[np.int16]:
    return np.frombuffer(pcm(name, 3.0), dtype=np.int16)


def with_pauses(lengths_ms: tuple[int, int], *, faint: bool) -> NDArray[np.int16]:
    """Return the recordings one after another, with these pauses."""
    audio = [recording(NAMES[0])]
    for name, milliseconds in zip(NAMES[1:], lengths_ms, strict=True):
        audio += [pause(milliseconds, faint=faint), recording(name)]
    return np.concatenate(audio)


def options_for(lengths_ms: tuple[int, int]) -> StreamOptions:
    """Return options with which a segment ends after a silence that depends on the first pause."""
    return replace(StreamOptions(), endpoint=EndpointRule(after_text_ms=400 + lengths_ms[0] // 2))


@pytest.mark.parametrize("faint", FAINT)
def test_recordings_with_pauses_lose_no_word(faint: str) -> None:
    """Recordings one after another, with pauses from 0.1 to 3 s, have as many words as they have alone."""
    alone, paused = heard_by_the_shipped_model()
    expected = [word for name in NAMES for word in alone[name]]
    for lengths in PAIRS_MS:
        events = paused[faint, lengths]
        found = text(events).split()
        matcher = difflib.SequenceMatcher(None, expected, found, autojunk=False)
        same = sum(block.size for block in matcher.get_matching_blocks())
        # What stands before a word may make another one of it: a few, but it may not be missing or there twice.
        assert -1 <= len(found) - len(expected) <= len(NAMES)
        assert same >= 0.8 * len(expected)
        assert len([event for event in events if isinstance(event, Cut)]) >= 1
