"""The plan of a session from a seed and a number: its speech, its options, and the actions of its client."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.audio.decoder import SAMPLE_RATE
from streamer.testing.exact_speech import FRAME, say, silence
from streamer.wire.options import with_second_pass

SHORT_IDLE_S = 6.0  # the setting of the service: a silent client is closed after this time
SHORT_START_S = 3.0
SHORT_RESUME_S = 10.0
MOST_VOICES = 2  # in one session; the first voice of a session is its number times this
LARGEST = 1 << 20
EXACT_LATE_MS = (-2, 84)
TOO_MUCH_S = 60  # live audio sent at once
LONGEST_S = 20.0  # the longest time that the audio of a paced session takes
# Clients return soon after a cut. Otherwise the service may end the session.
LONGEST_AWAY_S = 3.0


@dataclass(frozen=True)
class Audio:
    """Bytes of the session's audio, sent as one frame."""

    begin: int
    end: int


@dataclass(frozen=True)
class Text:
    """A text frame; a flush has its number."""

    text: str
    flush: int | None = None


@dataclass(frozen=True)
class Raw:
    """A frame that no session should send: text that is not UTF-8, or too much audio."""

    data: bytes
    text: bool = False


@dataclass(frozen=True)
class Action:
    """An action that is done once, even if the items around it are sent again."""

    what: str  # sleep, stop_reading, cut, takeover, vanish, leave
    seconds: float = 0.0


Item = Audio | Text | Raw | Action
STOP = Text('{"type":"stop"}')
KEEPALIVE = Text('{"type":"keepalive"}')

# The kinds of sessions whose clients find back by themselves, and their relative frequencies.
RETURNING = {"plain": 66, "cut": 20, "leave": 7, "vanish": 7}
# The kinds of sessions and their relative frequencies.
KINDS = {
    "plain": 30,
    "cut": 22,
    "takeover": 6,
    "vanish": 5,
    "leave": 3,
    "garbage": 8,
    "refused": 3,
    "half_sample": 3,
    "too_fast": 2,
    "idle": 3,
    "unread": 2,
    "slow": 3,
    "silent": 4,
    "tiny": 3,
    "no_start": 1,
}
_GARBAGE: dict[str, tuple[Item, ...]] = {
    "bad_json": (Text("[" * 10_000), Text("hello"), Text("[1]")),
    "bad_message": (Text("x" * 70_000),),
    "unknown_type": (Text('{"type":"dance"}'), Text("{}")),
    "unknown_option": (Text('{"type":"flush","now":true}'),),
    "unexpected": (Text('{"type":"start"}'),),
    "1009": (Raw(bytes(LARGEST + 1)),),
    "1007": (Raw(b"\xff\xfe", text=True),),
}
# Wrong options of `start`, and the code of the error they get.
_REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bad_option", {"step_ms": 7}),
    ("bad_option", {"hotwords": ["this model knows none"]}),
    ("unknown_option", {"louder": True}),
    ("unsupported_audio", {"channels": 9}),
    ("unsupported_audio", {"encoding": "mp3"}),
)


@dataclass(frozen=True)
class SessionPlan:
    """One session from its beginning to its end."""

    seed: int
    number: int
    kind: str
    options: dict[str, Any]
    speeches: tuple[Speech, ...]  # one, or with `multichannel` one for each channel
    audio: bytes
    items: tuple[Item, ...]
    # The possible ends without a fault: "done", the code of an error, or the code of a close without an error.
    ends: frozenset[str]
    pace: float | None = None  # how many times as fast as spoken; None: as fast as possible
    eager: bool = False  # audio is sent before the session is ready
    # How much the times of words may differ from the real ones. The exact model emits a letter a frame late, and its
    # frames begin where a segment begins.
    late_ms: tuple[int, int] = EXACT_LATE_MS

    @property
    def exact(self) -> bool:
        """Whether the model recognises exactly what is said, so that every word shows which session it belongs to."""
        return self.late_ms == EXACT_LATE_MS

    @property
    def frame_bytes(self) -> int:
        """The size of one sample of every channel."""
        size = 4 if self.options.get("encoding") == "pcm_f32le" else 2
        return size * int(self.options.get("channels", 1))

    @property
    def bytes_per_ms(self) -> int:
        """The size of a millisecond of audio."""
        return self.frame_bytes * PER_MS

    @property
    def flush_offsets(self) -> tuple[int, ...]:
        """The bytes of audio before each flush."""
        offsets, offset = [], 0
        for item in self.items:
            if isinstance(item, Audio):
                offset = item.end
            elif isinstance(item, Text) and item.flush is not None:
                offsets.append(offset)
        return tuple(offsets)


def draw_plan(seed: int, number: int) -> SessionPlan:
    """Draw the plan of the session with this number."""
    rng = random.Random(f"{seed} {number}")
    [kind] = rng.choices(list(KINDS), list(KINDS.values()))
    options = _options(rng)
    speeches = _speeches(number, kind, rng, options)
    audio = encoded(speeches, options)
    audio_s = max(len(each.audio) for each in speeches) / SAMPLE_RATE
    paces = [pace for pace in (16.0, 8.0, 4.0, 2.0, 1.0) if audio_s / pace <= LONGEST_S]
    pace = None if kind in ("too_fast", "unread") else rng.choice([None, None, None, *paces])
    if pace == 1 and rng.random() < 0.7:
        options["live"] = True
    plan = SessionPlan(seed, number, kind, options, speeches, audio, (), frozenset(), pace, rng.random() < 0.3)
    items, ends = _script(plan, rng)
    return SessionPlan(seed, number, kind, options, speeches, audio, tuple(items), frozenset(ends), pace, plan.eager)


def draw_live_plan(seed: int, number: int, words: tuple[int, int]) -> SessionPlan:
    """Draw the plan of a session that speaks as fast as people do, with so many words, and whose client returns."""
    rng = random.Random(f"{seed} {number} live")
    [kind] = rng.choices(list(RETURNING), list(RETURNING.values()))
    options = _options(rng)
    options["live"] = True
    voices, first = 2 if options.get("multichannel") else 1, number * MOST_VOICES
    speeches = tuple(draw_speech((first + voice) % VOICES, rng.randint(*words), rng) for voice in range(voices))
    plan = SessionPlan(seed, number, kind, options, speeches, encoded(speeches, options), (), frozenset(), pace=1.0)
    items, ends = _script(plan, rng)
    return replace(plan, items=tuple(items), ends=frozenset(ends))


def encoded(speeches: Sequence[Speech], options: dict[str, Any]) -> bytes:
    """Return the interleaved channels, as long as the longest. Without `multichannel` all have the same audio."""
    longest = max(len(each.audio) for each in speeches)
    rows = [np.pad(each.audio, (0, longest - len(each.audio))) for each in speeches]
    rows *= int(options.get("channels", 1)) // len(rows)
    audio: NDArray[Any] = np.stack(rows, axis=1)
    if options.get("encoding") == "pcm_f32le":
        audio = (audio / 32768).astype("<f4")
    return audio.tobytes()


def _options(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    choices: tuple[tuple[str, float, Sequence[Any]], ...] = (
        ("step_ms", 0.5, (160, 640)),
        ("search", 0.2, ("greedy",)),
        ("stability", 0.3, ("medium", "high")),
        ("partial_words", 0.2, (True,)),
        ("partials", 0.1, (False,)),
        ("speech", 0.1, (False,)),
        ("alternatives", 0.1, (1, 3)),
        ("settle_ms", 0.1, (500, 2000)),
        ("encoding", 0.1, ("pcm_f32le",)),
        ("channels", 0.15, (2,)),
        ("endpoint", 0.4, ("off", {"longest_ms": 6000}, {"after_text_ms": 400}, {"after_text_ms": 3000})),
    )
    for name, chance, values in choices:
        if rng.random() < chance:
            options[name] = rng.choice(values)
    if options.get("channels") and rng.random() < 0.6:
        options["multichannel"] = True
    if rng.random() < 0.4:
        options = with_second_pass(options)  # by a reader, unless words must be stable before
        if rng.random() < 0.3:
            options |= {"second_pass": True} if "second_pass" in options else {}
    return options


def _speeches(number: int, kind: str, rng: random.Random, options: dict[str, Any]) -> tuple[Speech, ...]:
    voices = 2 if options.get("multichannel") else 1
    words = {"unread": 60, "tiny": 4, "no_start": 1, "refused": 1}.get(kind) or min(
        1 + int(rng.expovariate(1 / 11)), 60
    )
    pauses: Sequence[int] = PAUSES_MS
    if kind == "unread":
        pauses = (0,)
        options |= {"step_ms": 160, "partial_words": True, "endpoint": {"silence": False, "longest_ms": 60_000}}
        options |= {"partials": True, "stability": "low"}
    elif kind == "silent":
        pauses = (0, 2411, 9000, 26_000)
        words = min(words, 10)
    first = number * MOST_VOICES
    return tuple(draw_speech((first + voice) % VOICES, words, rng, pauses) for voice in range(voices))


def _script(plan: SessionPlan, rng: random.Random) -> tuple[list[Item], set[str]]:
    """Return the items in order, and the possible ends of the session."""
    kind, audio = plan.kind, plan.audio
    if kind == "no_start":
        return [Action("sleep", SHORT_START_S + 30)], {"no_start"}
    if kind == "refused":
        code, wrong = rng.choice(_REFUSED)
        plan.options.update(wrong)
        return [Audio(0, len(audio)), STOP], {code}
    items = list(draw_sent(plan, rng))
    if kind == "half_sample":
        # The last sample is incomplete, so the session must end with an error.
        last = next(index for index in reversed(range(len(items))) if isinstance(items[index], Audio))
        items[last] = Audio(items[last].begin, items[last].end - 1)  # type: ignore[union-attr]
        return [*items, STOP], {"odd_bytes"}
    if kind == "too_fast":
        plan.options["live"] = True
        frames = TOO_MUCH_S * 1000 * plan.bytes_per_ms // LARGEST + 1
        return [*items, *(Raw(bytes(LARGEST)) for _ in range(frames)), STOP], {"too_fast"}
    items += [STOP]
    if kind in ("cut", "takeover"):
        for _ in range(rng.choice((1, 1, 2, 3))):
            away = rng.choice((0.0, 0.05, 0.5, LONGEST_AWAY_S))
            items.insert(rng.randint(0, len(items)), Action(kind, away))
    elif kind in ("vanish", "leave"):
        items = items[: rng.randint(0, len(items) - 1)]
        return [*items, Action(kind)], {"vanished" if kind == "vanish" else "left"}
    elif kind == "garbage":
        code = rng.choice([*_GARBAGE, "after_stop"])
        if code != "after_stop":
            index = rng.randint(0, len(items) - 1)
            # A client that is still sending when the service closes may not receive the reason.
            ends = {code, "lost"} if code == "1009" else {code}
            return [*items[:index], rng.choice(_GARBAGE[code]), *items[index:]], ends
        items += [Raw(bytes(6400)), Text("hello")]
    elif kind == "idle":
        index = rng.randint(1, len(items) - 1)
        return [*items[:index], Action("sleep", SHORT_IDLE_S + 60)], {"idle"}
    elif kind == "unread":
        # The client waits until the service closes, unless all messages fit into the buffers.
        return [Action("stop_reading", 30.0), *items], {"done", "4008", "lost"}
    elif kind == "slow":
        for _ in range(2):
            items.insert(rng.randint(0, len(items)), Action("stop_reading", rng.uniform(0.5, 4)))
    elif kind == "silent" and rng.random() < 0.5:
        index = rng.randint(0, len(items) - 1)
        waiting: list[Item] = []
        for _ in range(rng.randint(2, 4)):
            waiting += [Action("sleep", SHORT_IDLE_S / 2), KEEPALIVE]
        items[index:index] = waiting
    return items, {"done"}


def draw_sent(plan: SessionPlan, rng: random.Random) -> Iterator[Item]:
    """Yield the audio in frames of random size, with flushes between words."""
    if plan.kind == "tiny":
        sizes: Sequence[int] = (1, 2, 3, 101, 640, 1999)
    elif plan.pace is not None:
        sizes = (640, 3200, 6401, 10_240)
    else:
        sizes = rng.choice(((3200, 6400), (321, 10_240, 32_001), (200_000,), (LARGEST,)))
    flushes: list[int] = []
    if rng.random() < 0.3:
        # With several channels a flush would fall into words of the others, except at the end.
        gaps = plan.speeches[0].gaps if len(plan.speeches) == 1 else (len(plan.audio) // plan.frame_bytes,)
        flushes = sorted(rng.sample(gaps, min(len(gaps), rng.randint(1, 3))))
        flushes += flushes[-1:] * rng.choice((0, 0, 1, 20 if not plan.options.get("live") else 3))
    number, offset = 0, 0
    for gap in [*flushes, None]:
        until = len(plan.audio) if gap is None else gap * plan.frame_bytes
        while offset < until:
            end = min(offset + rng.choice(sizes), until)
            yield Audio(offset, end)
            offset = end
        if gap is not None:
            yield Text(json.dumps({"type": "flush"}), number)
            number += 1


# Makes the speech of sessions. Every word shows which voice says it and at which position.

PER_MS = SAMPLE_RATE // 1000
BASE = len(ascii_lowercase)
VOICE_LETTERS, INDEX_LETTERS = 3, 2
VOICES = BASE**VOICE_LETTERS
MOST_WORDS = BASE**INDEX_LETTERS
# Voices with consecutive numbers have very different letters, so an altered word is not taken for another voice's.
_STRIDE = 7919
PAUSES_MS = (0, 0, 0, 55, 310, 640, 1090, 2411)


@dataclass(frozen=True)
class SpokenWord:
    """A word, and its times in the audio."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Speech:
    """The audio of one voice, its words, and the positions between words (in samples), where a flush splits no word."""

    voice: int
    audio: NDArray[np.int16]
    words: tuple[SpokenWord, ...]
    gaps: tuple[int, ...]


def word(voice: int, index: int) -> str:
    """Return the word that this voice says at this index."""
    return _letters(voice * _STRIDE % VOICES, VOICE_LETTERS) + _letters(index % MOST_WORDS, INDEX_LETTERS)


def origin(text: str) -> tuple[int, int] | None:
    """Return the voice and the index of a word; None if no voice says it."""
    if len(text) != VOICE_LETTERS + INDEX_LETTERS or not set(text) <= set(ascii_lowercase):
        return None
    number = _number(text[:VOICE_LETTERS])
    return number * pow(_STRIDE, -1, VOICES) % VOICES, _number(text[VOICE_LETTERS:])


def draw_speech(voice: int, words: int, rng: random.Random, pauses_ms: Sequence[int] = PAUSES_MS) -> Speech:
    """Make speech with this many words and random pauses between them."""
    parts = [silence(rng.choice((0, 37, 900)))]
    for index in range(words):
        parts += [say(word(voice, index)), silence(rng.choice(pauses_ms))]
    ends = list(accumulate(len(part) for part in parts))
    spoken_words = []
    for index in range(words):
        start, end = ends[2 * index], ends[2 * index + 1]
        # The silence after the last letter and the space do not belong to the word.
        spoken_words.append(SpokenWord(word(voice, index), start // PER_MS, (end - 4 * FRAME) // PER_MS))
    return Speech(voice, np.concatenate(parts), tuple(spoken_words), tuple(ends[1 : 2 * words : 2]))


def _letters(number: int, count: int) -> str:
    letters = ""
    for _ in range(count):
        number, rest = divmod(number, BASE)
        letters = ascii_lowercase[rest] + letters
    return letters


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * BASE + ascii_lowercase.index(letter)
    return number
