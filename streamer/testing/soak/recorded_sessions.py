"""Makes sessions that send recordings to the shipped model. Each must get the words that an undisturbed one got.

This test is weaker than that with the exact model, because many sessions say the same words and the model is slow. But
it uses the model that people use.
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
from streamer.testing.soak.scripted_client import ScriptedClient
from streamer.testing.soak.session_plan import LONGEST_AWAY_S, STOP, Action, Audio, Item, SessionPlan
from streamer.testing.soak.traceable_speech import PER_MS, Speech, SpokenWord

DEFAULT = "audio_samples/samples.tsv"
# Options that together cover the different ways of recognition.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}},
    {"search": "greedy", "step_ms": 640, "partial_words": True},
    {"stability": "high", "settle_ms": 1000},
)
KINDS = {"plain": 40, "cut": 30, "takeover": 15, "vanish": 8, "leave": 7}
FRAMES = (6400, 10_240, 32_001, 200_000)


class UndisturbedError(Exception):
    """A session without any fault did not end as it should."""


@dataclass(frozen=True)
class RecordedSession:
    """A recording sent with certain options, and the words that the service recognises without faults."""

    options: Mapping[str, Any]
    speech: Speech


async def undisturbed_sessions(url: str) -> list[RecordedSession]:
    """Recognise each recording with each set of options, without faults."""
    sessions = []
    for number, utterance in enumerate(read_manifest(shipped(DEFAULT))):
        audio = np.concatenate([utterance.samples(), silence(1500)])
        audio = audio[: len(audio) // PER_MS * PER_MS]
        for options in OPTIONS:
            session = RecordedSession(options, Speech(number, audio, (), ()))
            plan = _plan(0, 0, "plain", session, (Audio(0, 2 * len(audio)), STOP), None)
            record = await ScriptedClient(plan, url, time.monotonic()).run()
            if record.ended != "done":
                raise UndisturbedError(f"{utterance.name} ended with {record.ended!r}: {record.error}")
            finals = [event for _, event in record.events if event["type"] == "final"]
            words = [SpokenWord(w["word"], w["start_ms"], w["end_ms"]) for final in finals for w in final["words"]]
            sessions.append(replace(session, speech=replace(session.speech, words=tuple(words))))
    return sessions


def draw_recorded_plan(seed: int, number: int, recorded: list[RecordedSession]) -> SessionPlan:
    """Draw the plan of the session with this number."""
    rng = random.Random(f"{seed} {number}")
    session = rng.choice(recorded)
    [kind] = rng.choices(list(KINDS), list(KINDS.values()))
    items: list[Item] = []
    size, offset, length = rng.choice(FRAMES), 0, 2 * len(session.speech.audio)
    while offset < length:
        items.append(Audio(offset, min(offset + size, length)))
        offset += size
    items.append(STOP)
    if kind in ("cut", "takeover"):
        for _ in range(rng.choice((1, 2))):
            items.insert(rng.randint(0, len(items)), Action(kind, rng.choice((0.0, 0.5, LONGEST_AWAY_S))))
    elif kind in ("vanish", "leave"):
        items = [*items[: rng.randint(0, len(items) - 1)], Action(kind)]
    return _plan(seed, number, kind, session, tuple(items), rng.choice((None, 8.0, 4.0, 2.0)))


def _plan(
    seed: int, number: int, kind: str, session: RecordedSession, items: tuple[Item, ...], pace: float | None
) -> SessionPlan:
    ends = {"vanish": "vanished", "leave": "left"}.get(kind, "done")
    audio = session.speech.audio.tobytes()
    options = dict(session.options)
    return SessionPlan(
        seed, number, kind, options, (session.speech,), audio, items, frozenset({ends}), pace, late_ms=(-1, 1)
    )
