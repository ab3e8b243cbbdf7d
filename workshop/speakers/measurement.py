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
from streamer.engine.speakers.voices import Pieces, Turn, Voices, look_again, told_until, turns_of
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
    right_count: int
    cpu_s: float  # for a second of sound of a live session

    @property
    def error(self) -> float:
        """The diarization error."""
        return self.missed + self.invented + self.confused


@dataclass
class _Sum:
    conversations: int = 0
    right_count: int = 0
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
    """Return the figures of all conversations: live, after the second look, and if it knows the number of voices."""
    ways: dict[str, Callable[[Heard, int], Pieces]] = {
        "live": lambda heard, _: heard.live,
        "second look": lambda heard, _: look_again(heard.recording),
        "second look, number known": lambda heard, count: look_again(heard.recording, count),
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
            turns = turns_of(way(heard, len(conversation.speakers)))
            found = [SpokenTurn(start / RATE, end / RATE, str(voice)) for start, end, voice in turns]
            _add(sums[name], scorer(conversation.turns, found, conversation.seconds))
            sums[name].right_count += _count(turns) == len(conversation.speakers)
    return [_figures(name, each, cpu_s / max(1e-6, sound_s)) for name, each in sums.items()]


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


def _add(sums: _Sum, parts: Mapping[str, float]) -> None:
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
    return Figures(name, sums.conversations, *shares, sums.right_count, cpu_s)
