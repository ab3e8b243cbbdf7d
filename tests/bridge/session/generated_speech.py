"""The audio of generated sessions, and the events that they receive if nothing disturbs them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from streamer.testing.exact_speech import say, silence
from tests.bridge.session.simulation import Speaker, World

# Each session speaks words with its own letters.
LETTERS = ("abc", "def", "ghi")
WORDS = 6


def talk(seed: int) -> list[tuple[str, bytes]]:
    """Return a text and its audio for each session, with pauses of every length."""
    found = []
    for number, letters in enumerate(LETTERS):
        dice = random.Random(f"{seed} {number}")
        words = ["".join(dice.choices(letters, k=dice.randint(1, 4))) for _ in range(WORDS)]
        audio = [silence(dice.choice([0, 37, 900]))]
        for word in words:
            audio += [say(word), silence(dice.choice([0, 0, 55, 310, 640, 1090, 2411]))]
        found.append((" ".join(words), np.concatenate(audio).tobytes()))
    return found


OPTIONS: list[dict[str, Any]] = [
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}, "partial_words": True},
    {"written": True, "endpoint": {"longest_ms": 6000}, "alternatives": 3, "second_pass": True},
    {"step_ms": 640, "stability": "medium", "endpoint": {"turn": True, "longest_pause_ms": 900}, "turns": True},
]


def letters(speaker: Speaker) -> str:
    """Return the text of all finals without spaces, because a flush may divide a word."""
    finals = [event for event in speaker.told if event["type"] == "final"]
    return "".join(str(event.get("spoken") or event["text"]) for event in finals).replace(" ", "")


def undisturbed(audio: bytes, flushes: list[int], options: dict[str, Any]) -> Speaker:
    """Return the events for the same audio and flushes without any fault."""
    world = World()
    speaker = world.add(audio, options)
    for place in flushes:
        while speaker.place < place or speaker.session.full:
            world.say(speaker, min(place - speaker.place, 32_000))
            world.ask(speaker)
            world.answer(speaker)
        world.flush(speaker)
    world.end()
    return speaker


def check(speaker: Speaker, whole: Speaker) -> None:
    told = speaker.told
    assert kept(told) == kept(whole.told)
    assert [event["n"] for event in told] == list(range(1, len(told) + 1))
    ends = [word[name] for event in told if event["type"] == "final" for word in event["words"] for name in TIMES]
    assert ends == sorted(ends)
    heard = [event["audio_ms"] for event in told if event["type"] in ("heard", "flushed", "done")]
    assert heard == sorted(heard)
    promised: dict[int, str] = {}
    for event in told:
        if event["type"] in ("partial", "final"):
            assert event["text"].startswith(promised.get(event["segment"], ""))
        if event["type"] == "partial":
            promised[event["segment"]] = event["text"][: event["stable"]]


TIMES = ("start_ms", "end_ms")


def kept(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events without those that depend on the pace: acknowledgements, recoveries and identities."""
    return [{**event, "n": 0} for event in told if event["type"] not in ("ready", "heard", "recovered")]
