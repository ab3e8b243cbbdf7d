"""Measures how well the voices of conversations are told apart. The scorer is pyannote.metrics, which is not ours.

A diarization error is the share of speech that was missed, invented or given to another voice. A quarter of a second on
each side of every boundary does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from streamer.engine.speakers.networks import RATE, WINDOW, VoiceNetworks
from streamer.engine.speakers.voices import NOBODY, Pieces, Turn, Voices, look_again, told_until, turns_of
from workshop.speakers.conversations import Conversation, SpokenTurn

STEP: Final = 5 * RATE // 2  # the new samples of a window
COLLAR_S: Final = 0.25
_TOLD_S: Final = 4.0  # a voice that speaks for less does not count as one more

Diarization = Sequence[SpokenTurn]


class Scorer(Protocol):
    """Compares what was found with the reference, and gives parts of the whole speech in seconds."""

    def __call__(self, reference: Diarization, found: Diarization, seconds: float) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Figures:
    """What was measured in conversations with this number of voices."""

    name: str
    conversations: int
    missed: float
    invented: float
    confused: float
    right_count: int  # in so many of them, the number of voices was right
    too_many: int
    too_few: int
    cpu_s: float  # for a second of sound of a live session

    @property
    def error(self) -> float:
        """The diarization error."""
        return self.missed + self.invented + self.confused


@dataclass
class _Sum:
    conversations: int = 0
    right_count: int = 0
    too_many: int = 0
    too_few: int = 0
    total: float = 0.0
    missed: float = 0.0
    invented: float = 0.0
    confused: float = 0.0


def hear(networks: VoiceNetworks, conversation: Conversation, step: int = STEP, *, live: bool = True) -> Pieces:
    """Return the pieces of a conversation as the service hears them, in windows with `step` new samples each.

    In a live session, speech that has just begun is told with the next window. A merge counts as a client takes it: for
    everything that was told before, too.
    """
    voices, samples = Voices(), conversation.samples
    parts: list[Pieces] = []
    merge: tuple[int, int] | None = None
    since = 0
    while since < len(samples):
        end = min(since + step, len(samples))
        begin = max(0, end - WINDOW)
        runs = networks.hear(samples[begin:end], since - begin)
        until = told_until(runs, begin, since, end) if live and end < len(samples) else end
        parts.append(voices.take(runs, begin, since, until=until))
        merge = voices.merge() or merge
        since = until
    pieces = np.concatenate(parts)
    if merge is not None:
        pieces["voice"][pieces["voice"] == merge[0]] = merge[1]
    return pieces


class Heard(NamedTuple):
    """The pieces of a conversation in a live session, and as a recording."""

    live: Pieces
    recording: Pieces


def measure(networks: VoiceNetworks, conversations: Iterable[Conversation], scorer: Scorer) -> list[Figures]:
    """Return the figures of all conversations: live, after the second look, and if it knows the number of voices.

    Two more rows say what would be left if every piece were given to who speaks most of it, so nothing but the first
    network and the cuts between pieces makes errors.
    """
    ways: dict[str, Callable[[Heard, Conversation], Pieces]] = {
        "live": lambda heard, _: heard.live,
        "live, voices known": lambda heard, told: _told_by(heard.live, told.turns),
        "second look": lambda heard, _: look_again(heard.recording),
        "second look, number known": lambda heard, told: look_again(heard.recording, len(told.speakers)),
        "recording, voices known": lambda heard, told: _told_by(heard.recording, told.turns),
    }
    sums = {name: _Sum() for name in ways}
    cpu_s = sound_s = 0.0
    for conversation in conversations:
        began_at = time.process_time()
        live = hear(networks, conversation)
        cpu_s += time.process_time() - began_at
        heard = Heard(live, hear(networks, conversation, live=False))
        sound_s += conversation.seconds
        for name, way in ways.items():
            _score(sums[name], conversation, turns_of(way(heard, conversation)), scorer)
    return [_figures(name, each, cpu_s / max(1e-6, sound_s)) for name, each in sums.items()]


def measure_other(
    name: str, tell: Callable[[Conversation], Sequence[Turn]], conversations: Iterable[Conversation], scorer: Scorer
) -> Figures:
    """Return the figures of something else that tells the turns of conversations."""
    total = _Sum()
    cpu_s = sound_s = 0.0
    for conversation in conversations:
        began_at = time.process_time()
        turns = tell(conversation)
        cpu_s += time.process_time() - began_at
        sound_s += conversation.seconds
        _score(total, conversation, turns, scorer)
    return _figures(name, total, cpu_s / max(1e-6, sound_s))


def pyannote_scorer() -> Scorer:
    """Return the scorer. ImportError without its package."""
    from pyannote.core import Annotation, Segment, Timeline  # type: ignore[import-not-found]
    from pyannote.metrics.diarization import DiarizationErrorRate  # type: ignore[import-not-found]

    metric = DiarizationErrorRate(collar=2 * COLLAR_S)  # that of both sides together

    def annotation(turns: Diarization) -> object:
        made = Annotation()
        for number, turn in enumerate(turns):
            if turn.end_s > turn.start_s:
                made[Segment(turn.start_s, turn.end_s), number] = turn.speaker
        return made

    def score(reference: Diarization, found: Diarization, seconds: float) -> Mapping[str, float]:
        whole = Timeline([Segment(0, seconds)])
        parts: Mapping[str, float] = metric(annotation(reference), annotation(found), uem=whole, detailed=True)
        return parts

    return score


def _told_by(pieces: Pieces, turns: Diarization) -> Pieces:
    """Return the pieces with the voices of those who speak most of them."""
    pieces, names = pieces.copy(), sorted({turn.speaker for turn in turns})
    for piece in pieces:
        shared = np.zeros(len(names))
        for turn in turns:
            both = min(piece["end"] / RATE, turn.end_s) - max(piece["start"] / RATE, turn.start_s)
            shared[names.index(turn.speaker)] += max(0.0, both)
        piece["voice"] = shared.argmax() if shared.any() else NOBODY
    return pieces


def _score(sums: _Sum, conversation: Conversation, turns: Sequence[Turn], scorer: Scorer) -> None:
    found = [SpokenTurn(start / RATE, end / RATE, str(voice)) for start, end, voice in turns]
    parts = scorer(conversation.turns, found, conversation.seconds)
    more = _count(turns) - len(conversation.speakers)
    sums.right_count += more == 0
    sums.too_many += more > 0
    sums.too_few += more < 0
    sums.conversations += 1
    sums.total += parts["total"]
    sums.missed += parts["missed detection"]
    sums.invented += parts["false alarm"]
    sums.confused += parts["confusion"]


def _count(turns: Sequence[Turn]) -> int:
    """Return how many voices speak for long enough to count."""
    seconds: dict[int, float] = {}
    for start, end, voice in turns:
        seconds[voice] = seconds.get(voice, 0.0) + (end - start) / RATE
    return sum(each >= _TOLD_S for each in seconds.values())


def _figures(name: str, sums: _Sum, cpu_s: float) -> Figures:
    total = max(1e-6, sums.total)
    shares = (sums.missed / total, sums.invented / total, sums.confused / total)
    return Figures(name, sums.conversations, *shares, sums.right_count, sums.too_many, sums.too_few, cpu_s)
