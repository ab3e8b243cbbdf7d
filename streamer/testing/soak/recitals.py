"""Sessions that say recordings to the shipped model: what each is told is what an undisturbed one was told.

That is the weaker test, as many say the same words, and the model is slow. But it is the model that people use.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamer.evaluate.manifest import read_manifest
from streamer.shipped import shipped
from streamer.testing.exact_speech import silence
from streamer.testing.soak.plan import LONGEST_AWAY_S, STOP, Audio, Deed, Item, Plan
from streamer.testing.soak.speech import PER_MS, Said, Speech
from streamer.testing.soak.talker import Talker

DEFAULT = "audio_samples/samples.tsv"
# Of all that differs in what the model is asked for.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}},
    {"search": "greedy", "step_ms": 640, "partial_words": True},
    {"stability": "high", "settle_ms": 1000},
)
KINDS = {"plain": 40, "cut": 30, "second": 15, "vanish": 8, "leave": 7}
FRAMES = (6400, 10_240, 32_001, 200_000)


class UndisturbedError(Exception):
    """A session that nothing disturbed did not get to its end."""


@dataclass(frozen=True)
class Recital:
    """A recording said with certain options, and what is told of it when nothing happens."""

    options: Mapping[str, Any]
    speech: Speech


async def learn(url: str) -> list[Recital]:
    """What the service tells of each recording, undisturbed."""
    found = []
    for number, utterance in enumerate(read_manifest(shipped(DEFAULT))):
        sound = np.concatenate([utterance.samples(), silence(1500)])
        sound = sound[: len(sound) // PER_MS * PER_MS]
        for options in OPTIONS:
            recital = Recital(options, Speech(number, sound, (), ()))
            made = _plan(0, 0, "plain", recital, (Audio(0, 2 * len(sound)), STOP), None)
            record = await Talker(made, url, time.monotonic()).talk()
            if record.ended != "done":
                raise UndisturbedError(f"{utterance.name} ended by {record.ended!r}: {record.error}")
            finals = [event for _, event in record.events if event["type"] == "final"]
            words = [Said(w["word"], w["start_ms"], w["end_ms"]) for final in finals for w in final["words"]]
            found.append(replace(recital, speech=replace(recital.speech, words=tuple(words))))
    return found


def recite(seed: int, number: int, recitals: list[Recital]) -> Plan:
    """The session of this number."""
    dice = random.Random(f"{seed} {number}")
    recital = dice.choice(recitals)
    [kind] = dice.choices(list(KINDS), list(KINDS.values()))
    items: list[Item] = []
    size, place, length = dice.choice(FRAMES), 0, 2 * len(recital.speech.sound)
    while place < length:
        items.append(Audio(place, min(place + size, length)))
        place += size
    items.append(STOP)
    if kind in ("cut", "second"):
        for _ in range(dice.choice((1, 2))):
            items.insert(dice.randint(0, len(items)), Deed(kind, dice.choice((0.0, 0.5, LONGEST_AWAY_S))))
    elif kind in ("vanish", "leave"):
        items = [*items[: dice.randint(0, len(items) - 1)], Deed(kind)]
    return _plan(seed, number, kind, recital, tuple(items), dice.choice((None, 8.0, 4.0, 2.0)))


def _plan(seed: int, number: int, kind: str, recital: Recital, items: tuple[Item, ...], pace: float | None) -> Plan:
    ends = {"vanish": "vanished", "leave": "left"}.get(kind, "done")
    audio = recital.speech.sound.tobytes()
    options = dict(recital.options)
    return Plan(seed, number, kind, options, (recital.speech,), audio, items, frozenset({ends}), pace, late_ms=(-1, 1))
