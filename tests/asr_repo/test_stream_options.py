"""The options of a stream in a real Triton with the shipped model: each has its effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.server import TritonServer
from tests.asr_repo.model_client import STEP, Events, plain, recognise, text
from tests.samples import TWO_SEGMENTS_S, pcm, reference

TALK = pcm("talk.flac", TWO_SEGMENTS_S)
STEP_MS = 320
SILENCE = bytes(2 * 16_000)


@pytest.fixture
async def link(triton: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(triton.grpc_address) as link:
        yield link


def finals(events: Events) -> Events:
    return [event for event in events if event["type"] == "final"]


def partials(events: Events) -> Events:
    return [event for event in events if event["type"] == "partial"]


Talk = Callable[..., Awaitable[Events]]

# The options with which tests look at the talk.
TALKS: list[dict[str, Any]] = [
    {},
    {"partial_words": True},
    {"settle_ms": 500},
    {"written": True},
    {"stability": "medium", "written": True},
    {"stability": "low"},
    {"stability": "medium"},
    {"stability": "high"},
    {"second_pass": True},
]


@pytest.fixture(scope="module")
def heard_before() -> dict[str, Events]:
    """Provide the results for the talk with each of these options, computed when a test first needs them."""
    return {}


@pytest.fixture
def talk(link: Link, heard_before: dict[str, Events]) -> Talk:
    """Provide the results for the talk with some options. All are computed as one batch, which saves much time."""

    async def heard(**options: Any) -> Events:
        if not heard_before:
            found = await asyncio.gather(*(recognise(link, TALK, **each) for each in TALKS))
            heard_before.update(zip(map(json.dumps, TALKS), found, strict=True))
        return heard_before[json.dumps(options)]

    return heard


async def test_words_have_times_and_confidences(talk: Talk) -> None:
    """Finals have words with ordered times and probabilities; partials have words if that was requested."""
    events = await talk(partial_words=True)
    for event in (*finals(events), *partials(events)):
        assert " ".join(word["word"] for word in event["words"]) == event["text"]
        times = [time for word in event["words"] for time in (word["start_ms"], word["end_ms"])]
        assert times == sorted(times)
        assert event["start_ms"] == times[0]
        assert times[-1] <= len(TALK) // 32
    confidences = [word["confidence"] for final in finals(events) for word in final["words"]]
    assert all(0 < confidence < 1 for confidence in confidences)
    assert len(set(confidences)) > len(confidences) / 2
    assert not any("words" in event for event in partials(await talk()))


async def test_a_flush_takes_one_request_and_loses_nothing(link: Link) -> None:
    """A flush in a pause, with less than a step waiting, makes all words final; later words are complete."""
    first, second = pcm("quilter.ogg"), pcm("airplane.mp3")
    whole = [text(events) for events in await asyncio.gather(recognise(link, first), recognise(link, second))]
    sequence = link.sequence({})
    for start in range(0, len(first), STEP):
        await sequence.send(first[start : start + STEP])
    flushed = plain(await sequence.send(b"", flush=True))
    assert [event["type"] for event in flushed if event["type"] == "flushed"] == ["flushed"]
    rest = plain(await sequence.send(second) + await sequence.send(b"", end=True))
    assert text(flushed)
    assert whole[0].endswith(text(flushed))
    assert text(rest) == whole[1]


async def test_stability_and_settling_are_a_trade(talk: Talk) -> None:
    """With "high" shown words never change; with "low" they come sooner; settled words are stable in time."""
    shown: dict[str, Events] = {}
    for stability in ("low", "medium", "high"):
        shown[stability] = partials(await talk(stability=stability))
    steady = ""
    for event in shown["high"]:
        assert event["stable"] == len(event["text"])
        steady = steady if event["segment"] == 0 else ""
        assert event["text"].startswith(steady) or event["segment"] > 0
        steady = event["text"]
    assert shown["low"][0]["audio_ms"] <= shown["medium"][0]["audio_ms"] <= shown["high"][0]["audio_ms"]

    def waiting(events: Events) -> float:
        return float(np.mean([len(event["text"]) - event["stable"] for event in events]))

    settled = partials(await talk(settle_ms=500))
    assert waiting(settled) < waiting(shown["low"])


async def test_stable_text_is_in_the_final(talk: Talk) -> None:
    """With every option that affects it, the stable part only grows, and the final begins with it."""
    medium = {"stability": "medium", "written": True}
    for options in ({}, {"settle_ms": 500}, {"written": True}, medium):
        sure: dict[int, str] = {}
        for event in await talk(**options):
            if event["type"] in ("partial", "final"):
                stable = event["text"][: event.get("stable")]
                assert stable.startswith(sure.get(event["segment"], ""))
                sure[event["segment"]] = stable


async def test_a_second_pass_finds_more_of_the_words(talk: Talk) -> None:
    """Partials come from the first pass, and nothing in them is stable. Finals are nearer to the spoken words."""
    once, twice = await talk(), await talk(second_pass=True)
    assert {event["text"] for event in partials(twice)} == {event["text"] for event in partials(once)}
    assert {event["stable"] for event in partials(twice)} == {0}
    ends = [[final["end_ms"] for final in finals(events)] for events in (once, twice)]
    assert ends[1] == pytest.approx(ends[0], abs=120)
    said = reference("talk.flac").split()
    wrong = [Levenshtein.distance(said, text(events).split()) for events in (once, twice)]
    assert wrong[1] < wrong[0]


async def test_segments_end_where_a_stream_wants_it(link: Link) -> None:
    """A shorter silence makes more finals, `off` makes one, and the shortest maximum length cuts it."""
    audio = pcm("airplane.mp3") + SILENCE + pcm("airplane.mp3") + SILENCE + pcm("airplane.mp3")

    async def count(endpoint: Any) -> int:
        return len(finals(await recognise(link, audio, endpoint=endpoint)))

    counts = await asyncio.gather(
        *(
            count(endpoint)
            for endpoint in ({"after_text_ms": 500}, {"after_text_ms": 3000}, "off", {"longest_ms": 6000})
        )
    )
    assert counts[0] >= 3 > counts[1] >= counts[2] == 1
    assert counts[3] >= 2


async def test_alternatives_begin_with_the_final(link: Link) -> None:
    """Alternatives are different texts, the likeliest first, as many as requested; their sum is at most 1."""
    events = await recognise(link, pcm("quilter.ogg"), alternatives=4)
    for final in finals(events):
        texts = [other["text"] for other in final["alternatives"]]
        assert texts[0] == final["text"]
        assert len(set(texts)) == len(texts) == 4
        assert sum(other["confidence"] for other in final["alternatives"]) <= 1.01
    assert not any("alternatives" in final for final in finals(await recognise(link, pcm("airplane.mp3"))))


async def test_hotwords_are_heard_and_are_nobody_else_s(link: Link) -> None:
    """A word that was missed is found as a hotword, only in its own stream, and harms no other text."""
    audio = pcm("talk.flac")
    plain = await recognise(link, audio)
    assert "heady" not in text(plain).split()
    wanted, other, plain_again = await asyncio.gather(
        recognise(link, audio, hotwords=["xanthippe", {"text": "heady", "weight": 2}]),
        recognise(link, audio, hotwords=["xanthippe", "brobdingnag"]),
        recognise(link, audio),
    )
    assert "heady" in text(wanted).split()
    assert text(other) == text(plain_again) == text(plain)
    spoken = reference("talk.flac").split()
    assert Levenshtein.distance(spoken, text(wanted).split()) <= Levenshtein.distance(spoken, text(plain).split())


async def test_the_written_form_has_the_spoken_beside_it(talk: Talk) -> None:
    """Finals begin with a capital, and `spoken` is the text without the option."""
    plain, written = await talk(), await talk(written=True)
    assert [final["spoken"] for final in finals(written)] == [final["text"] for final in finals(plain)]
    assert finals(written)[0]["text"][0].isupper()
    for final in finals(written):
        assert " ".join(word["spoken"] for word in final["words"]) == final["spoken"]
        assert " ".join(word["word"] for word in final["words"]) == final["text"]


async def test_steps_share_a_server(link: Link) -> None:
    """Streams with all step lengths at once get the same results as each alone."""
    audio = pcm("airplane.mp3")
    alone = {step: text(await recognise(link, audio, step_ms=step)) for step in (160, 320, 640)}
    together = await asyncio.gather(*(recognise(link, audio, step_ms=step) for step in [160, 320, 640] * 2))
    assert [text(events) for events in together] == list(alone.values()) * 2


async def test_noise_and_music_open_no_utterance(link: Link) -> None:
    """Chords, typing and noise give no words and no speech; the same stream then hears a speaker."""
    dice = np.random.default_rng(5)
    seconds = np.arange(16_000 * 4) / 16_000
    chord = sum(np.sin(2 * np.pi * pitch * seconds) for pitch in (220, 277, 330)) * 2500
    keys = dice.normal(0, 4000, len(seconds)) * (np.exp(-(seconds % 0.23) * 300))
    noise = dice.normal(0, 300, len(seconds))
    sounds = [sound.astype(np.int16).tobytes() for sound in (chord, keys, noise)]
    heard = [recognise(link, audio) for audio in (*sounds, sounds[1] + pcm("airplane.mp3"))]
    *without_words, events = await asyncio.gather(*heard)
    for found in without_words:
        assert not [event for event in found if event["type"] in ("partial", "final", "speech")]
    starts = [event["at_ms"] for event in events if event["type"] == "speech" and event["state"] == "start"]
    assert len(starts) == 1
    assert 4000 - 100 <= starts[0] <= 4000 + 1000
    assert text(events)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"hotwords": ["?!"]}, "bad_options"),
        ({"hotwords": ["fine"], "search": "greedy"}, "bad_options"),
        ({"endpoint": {"after_text_ms": 1}}, "after_text_ms of the endpoint must be a whole number from 400 to 10000"),
        ({"alternatives": 99}, "alternatives must be a whole number from 0 to 10"),
    ],
)
async def test_what_cannot_be_is_refused(link: Link, options: dict[str, Any], complaint: str) -> None:
    """Invalid options are refused with a sentence, and no slot is lost."""
    sequence = link.sequence(options)
    with pytest.raises(LinkError, match=complaint) as caught:
        await sequence.send(b"")
    assert caught.value.code == "bad_options"
    sequence.discard()
