"""Random operations on kept audio, for the clients in both languages."""

from __future__ import annotations

import math
import random
from typing import Any

from streamer.client.sending import KeptAudio, describe_audio

Step = list[Any]
# Byte after byte from any place in it, for longer than the longest piece.
_CYCLES = bytes(range(251)) * 300
# How often each operation happens.
KINDS = {"add": 8, "send": 8, "flush": 2, "answered": 1, "let go": 3, "resume": 1, "restart": 1}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"sample_rate": 44_100, "channels": 2},
    {"encoding": "mulaw", "sample_rate": 8000, "channels": 3, "multichannel": True},
    {"encoding": "pcm_f32le", "channels": 2, "multichannel": True, "endpoint": {"longest_ms": 6000}},
]


def steps(seed: int, channels: int) -> list[Step]:
    """Random steps, including ones that make no sense."""
    dice = random.Random(seed)

    def step() -> Step:
        kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "add":
            return [kind, dice.choice([0, 1, 13, 640, 6400, 32_768, 70_001])]
        if kind == "send":
            return [kind, dice.randrange(6)]
        if kind == "flush":
            return [kind]
        if kind == "answered":
            return [kind, dice.randrange(8)]
        if kind == "let go":
            return [kind, dice.randrange(4000)]
        if kind == "resume":
            return [kind, dice.randrange(40_000), dice.randrange(8)]
        return [kind, [dice.randrange(4000) for _ in range(channels)]]

    return [step() for _ in range(300)]


def microseconds(ms: float) -> int:
    """The time rounded as in JavaScript."""
    return math.floor(ms * 1000 + 0.5)


def outcome(options: dict[str, Any], run: list[Step]) -> list[Any]:
    """What each step returns, and the visible state after it. Audio is given by its length, its ends and its sum."""
    kept, value, seen = KeptAudio(describe_audio(options)), 0, []
    for kind, *how in run:
        given: Any = None
        if kind == "add":
            kept.add(_CYCLES[value % 251 :][: how[0]])
            value += how[0]
        elif kind == "send":
            given = []
            while len(given) < how[0] and (entry := kept.next()) is not None:
                given.append([len(entry), entry[0], entry[-1], sum(entry)] if isinstance(entry, bytes) else "flush")
                kept.sent()
        elif kind == "flush":
            kept.flush()
        elif kind == "answered":
            kept.answered(how[0])
        elif kind == "let go":
            kept.let_go(how[0])
        elif kind == "resume":
            given = kept.resume(*how)
        else:
            given = kept.restart(how[0])
        seen.append([given, kept.flushes, *map(microseconds, (kept.given_ms, kept.sent_ms, kept.kept_ms))])
    return seen
