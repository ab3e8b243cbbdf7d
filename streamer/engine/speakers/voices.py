"""Decides which runs of speech are of the same voice: while they are heard, and once more over all of them.

A *piece* is the part of a run that was heard in one window. Pieces are compared by the angle between their prints, and
grouped: the most similar groups are joined first (average linkage), until no two are similar enough. While a stream is
heard, each new piece is grouped with the last ones. Each voice that was told belongs to one group, and a piece gets the
voice of its group. If two voices turn out to be one, they are merged, but only once in a stream. At the end, all pieces
are grouped anew. docs/decisions/speakers.md has the figures behind the numbers here.

The pieces of a voice that was enrolled lie before the stream: their samples are negative. They are never forgotten, and
the voice of the group in which they are has their number.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.speakers.networks import PRINT_NUMBERS, RATE, Floats, Run

NOBODY: Final = -1  # the voice of a piece that cannot be told

_SAME_GROUP: Final = 0.4  # groups that are less similar than this are of two voices
_SAME_GROUP_LIVE: Final = 0.42  # the same, while they are heard
# A print of little speech is less similar to all prints of its voice, by about this share: 1 for 3 s, 0.8 for one.
_CERTAIN_S: Final = 3.0
_LESS_PER_S: Final = 0.1
_TELLING_S: Final = 0.8  # shorter pieces do not make groups
_BEGUN_S: Final = 1.5  # a run that goes on is told from here on
_GOES_ON: Final = RATE // 10  # a run that ends so near to the end of its window may go on
_ADVANCE: Final = RATE  # so much of each window is told at least
_FEWEST_S: Final = 3.0  # a group that speaks for less is no voice, once all of them are known
_NEW_S: Final = 3.0  # a group whose voice is that of a larger one gets a voice of its own from here on
_MERGED_S: Final = 6.0  # voices that speak for less are not merged
_MERGED_SHARE: Final = 0.9  # of what each of two merged voices says, so much is in one group
_REMEMBERED: Final = 150  # the last pieces with which a new one is grouped: a quarter of an hour of talk
_ROUNDS: Final = 3
# More pieces than this are grouped in parts, each together with the groups of the parts before.
_MOST_AT_ONCE: Final = 1_000

_PIECE: Final = np.dtype(
    [("start", "<i8"), ("end", "<i8"), ("alone_s", "<f4"), ("voice", "<i2"), ("print", "<f2", PRINT_NUMBERS)]
)
_TOLD: Final = struct.Struct("<hhh")  # the number of voices, and which one was merged into which

Pieces = NDArray[np.void]
Amounts = NDArray[np.float64]
Turn = tuple[int, int, int]
"""The first sample of a turn, the one after its last, and the number of its voice."""


class Voices:
    """The voices of one stream, as far as it was heard. They can be written down and read again."""

    def __init__(self, memory: bytes = b"") -> None:
        """`memory`: what `written` gave; nothing for a new stream. ValueError if it is no memory."""
        self._last = np.zeros(0, _PIECE)
        self._count = 0
        self._merged = NOBODY, NOBODY
        if memory:
            try:
                self._count, *merged = _TOLD.unpack_from(memory)
                self._merged = merged[0], merged[1]
                self._last = read_pieces(memory[_TOLD.size :])
            except struct.error as error:
                raise ValueError(f"this is no memory of voices: {error}") from error

    @property
    def written(self) -> bytes:
        """What must be kept until the next window."""
        return _TOLD.pack(self._count, *self._merged) + written_pieces(self._last)

    def take(self, runs: Sequence[Run], begin: int, since: int, most: int = 0, until: int | None = None) -> Pieces:
        """Take the runs of a window that begins at this sample, and return their pieces after the sample `since`.

        `most`: how many voices there are; 0 if nobody knows. `until`: nothing after this sample is told.
        """
        latest = np.iinfo(np.int64).max if until is None else until
        told = [run for run in runs if begin + run.start < latest]
        pieces = np.zeros(len(told), _PIECE)
        for piece, run in zip(pieces, told, strict=True):
            piece["start"], piece["end"] = max(begin + run.start, since), min(begin + run.end, latest)
            piece["alone_s"] = run.alone_s
            if run.print is not None:
                piece["print"] = run.print
            piece["voice"] = self._voice_of(piece, most)
            self._last = _last(np.append(self._last, piece))
        return pieces

    def enrol(self, runs: Sequence[Run], begin: int, voice: int) -> Pieces:
        """Take the runs of a recording of a voice, and return their pieces; none if nobody speaks long enough in it.

        `begin`: a sample before the stream, from which on there is room for the recording. `voice`: its number.
        """
        found = [run for run in runs if run.print is not None and run.alone_s >= _TELLING_S]
        pieces = np.zeros(len(found), _PIECE)
        for piece, run in zip(pieces, found, strict=True):
            piece["start"], piece["end"] = begin + run.start, min(begin + run.end, 0)
            piece["alone_s"], piece["print"], piece["voice"] = run.alone_s, run.print, voice
        self._last = _last(np.concatenate((self._last, pieces)))
        self._count = max(self._count, voice + 1)
        return pieces

    def merge(self) -> tuple[int, int] | None:
        """Return a voice that is another one, and that other one, if two turn out to be one. At most once in a stream.

        From then on, only the other one is told.
        """
        last = self._last[(self._last["voice"] != NOBODY) & (self._last["alone_s"] >= _TELLING_S)]
        last = last[last["print"].any(1)]
        if self._merged[0] != NOBODY or len(last) < 2:
            return None
        seconds = _seconds(last)
        amounts = _amounts(_linked_live(last), last["voice"], seconds)
        totals, main = amounts.sum(0), amounts.argmax(0)
        steady = (totals >= _MERGED_S) & (amounts.max(0) >= _MERGED_SHARE * totals)
        enrolled = set(last["voice"][last["start"] < 0].tolist())
        for voice, other in combinations(np.flatnonzero(steady).tolist(), 2):
            if main[voice] == main[other] and other not in enrolled:
                self._merged = other, voice
                self._last = self._last.copy()
                self._last["voice"][self._last["voice"] == other] = voice
                return self._merged
        return None

    def _voice_of(self, piece: np.void, most: int) -> int:
        last = self._last[self._last["voice"] != NOBODY]
        if not piece["print"].any():
            return int(last["voice"][-1]) if len(last) else NOBODY
        prints, own = last["print"].astype(np.float32), piece["print"].astype(np.float32)
        heard = prints.any(1)
        last, prints = last[heard], prints[heard]
        if len(last) and piece["alone_s"] < _TELLING_S:
            return _nearest(own, prints, last["voice"])
        telling = last["alone_s"] >= _TELLING_S
        compared = np.append(last[telling], piece)
        seconds, group = _seconds(compared), _linked_live(compared)
        amounts = _amounts(group[:-1], last["voice"][telling], seconds[:-1])
        mine = int(group[-1])
        if mine < len(amounts) and amounts[mine].any():
            if (voice := _owned(amounts).get(mine)) is not None:
                return voice
            # Its group was told as the voice of a larger one, which was an error.
            if self._full(most) or seconds[group == mine].sum() < _NEW_S:
                return int(amounts[mine].argmax())
        elif len(last) and self._full(most):
            return _nearest(own, prints, last["voice"])
        self._count += 1
        return self._count - 1

    def _full(self, most: int) -> bool:
        """Return whether there may be no further voice."""
        return self._count >= (most or np.iinfo(np.int16).max)


def told_until(runs: Sequence[Run], begin: int, since: int, end: int) -> int:
    """Return the sample up to which the runs of a window can be told that begins and ends at these samples.

    A run that has just begun says too little about its voice. If it goes on, the next window tells it.
    """
    starts = [begin + run.start for run in runs if run.alone_s < _BEGUN_S and begin + run.end > end - _GOES_ON]
    return min((start for start in starts if start >= since + _ADVANCE), default=end)


def written_pieces(pieces: Pieces) -> bytes:
    """Return pieces as bytes. Those of several windows may be joined."""
    return pieces.tobytes()


def read_pieces(content: bytes) -> Pieces:
    """Read pieces. ValueError if these are none."""
    return np.frombuffer(content, _PIECE)


def turns_of(pieces: Pieces, shortest_gap: int = RATE // 2) -> list[Turn]:
    """Return the turns of pieces in order. Pieces of a voice that follow each other closely are one turn."""
    turns: list[Turn] = []
    last: dict[int, int] = {}  # the turn of each voice
    for piece in pieces[np.argsort(pieces["start"], kind="stable")]:
        start, end, voice = int(piece["start"]), int(piece["end"]), int(piece["voice"])
        if voice == NOBODY or start < 0:
            continue
        at = last.get(voice)
        if at is not None and start - turns[at][1] <= shortest_gap:
            turns[at] = (turns[at][0], max(turns[at][1], end), voice)
        else:
            last[voice] = len(turns)
            turns.append((start, end, voice))
    return turns


def look_again(pieces: Pieces, count: int = 0) -> Pieces:
    """Return the pieces with other voices, which follow from all of them together.

    Voices are numbered in the order in which they speak, behind those that were enrolled. `count`: how many there are;
    0 if nobody knows.
    """
    pieces = pieces.copy()
    prints = pieces["print"].astype(np.float32)
    lengths = np.linalg.norm(prints, axis=1)
    heard = np.flatnonzero(lengths > 0)
    if not len(heard):
        return pieces
    seconds = _seconds(pieces)
    before = pieces["start"] < 0
    enrolled = pieces["voice"][before].copy()
    count = max(count, len(np.unique(enrolled))) if count else 0
    telling = heard[pieces["alone_s"][heard] >= _TELLING_S]
    if len(telling) < max(1, count):
        telling = heard
    means = _group(prints[telling], seconds[telling], count)
    similar = prints[heard] @ means.T
    pieces["voice"][heard] = similar.argmax(1)
    for silent in np.flatnonzero(lengths == 0):
        gaps = np.maximum(
            pieces["start"][heard] - pieces["end"][silent], pieces["start"][silent] - pieces["end"][heard]
        )
        pieces["voice"][silent] = pieces["voice"][heard[gaps.argmin()]]
    number = _owned(_amounts(pieces["voice"][before].astype(np.int64), enrolled, seconds[before]))
    next_number = int(enrolled.max(initial=-1)) + 1
    for group in dict.fromkeys(pieces["voice"][np.argsort(pieces["start"], kind="stable")].tolist()):
        if group not in number:
            number[group] = next_number
            next_number += 1
    pieces["voice"] = [number[voice] for voice in pieces["voice"].tolist()]
    return pieces


def _last(pieces: Pieces) -> Pieces:
    """Return the pieces that are remembered."""
    before = pieces["start"] < 0
    return np.concatenate((pieces[before], pieces[~before][-_REMEMBERED:]))


def _seconds(pieces: Pieces) -> NDArray[np.float64]:
    """Return how much each piece counts."""
    seconds: NDArray[np.float64] = np.maximum(0.1, (pieces["end"] - pieces["start"]) / RATE)
    return seconds


def _amounts(groups: NDArray[np.int64], voices: NDArray[np.int16], seconds: NDArray[np.float64]) -> Amounts:
    """Return how many seconds of each group (rows) were told as each voice (columns)."""
    amounts = np.zeros((int(groups.max(initial=-1)) + 1, int(voices.max(initial=-1)) + 1))
    np.add.at(amounts, (groups, voices), seconds)
    return amounts


def _owned(amounts: Amounts) -> dict[int, int]:
    """Return the voice of each group. A voice belongs to one group only: the one in which it speaks longest."""
    owned: dict[int, int] = {}
    order = np.argsort(-amounts, axis=None, kind="stable")
    for group, voice in zip(*(each.tolist() for each in np.unravel_index(order, amounts.shape)), strict=True):
        if amounts[group, voice] > 0 and group not in owned and voice not in owned.values():
            owned[group] = voice
    return owned


def _nearest(own: Floats, prints: Floats, voices: NDArray[np.int16]) -> int:
    """Return the voice whose mean print is the most similar one."""
    numbers = np.unique(voices)
    means = _normed(np.stack([prints[voices == number].sum(0) for number in numbers]))
    return int(numbers[(means @ own).argmax()])


def _group(prints: Floats, seconds: NDArray[np.float64], count: int) -> Floats:
    """Return the mean print of each voice."""
    sums, weights = _grouped(prints, seconds, 0)
    large = weights >= min(_FEWEST_S, weights.max())
    if not count:
        sums = sums[large]
    elif large.sum() >= count:  # what speaks little must not take the place of somebody
        sums, _ = _grouped(_normed(sums[large]), weights[large], count)
    else:
        sums, _ = _grouped(prints, seconds, count)
    means = _normed(sums)
    for _ in range(_ROUNDS):
        nearest = (prints @ means.T).argmax(1)
        for group in np.unique(nearest):
            own = nearest == group
            means[group] = (prints[own] * seconds[own, None]).sum(0)
        means = _normed(means)
    return means


def _grouped(prints: Floats, seconds: NDArray[np.float64], count: int) -> tuple[Floats, NDArray[np.float64]]:
    """Return the sum of the prints of each group, and how many seconds it has. With `count`, there are so many."""
    sums, weights = prints[:0], seconds[:0]
    for first in range(0, len(prints), _MOST_AT_ONCE):
        part = slice(first, first + _MOST_AT_ONCE)
        sums = np.concatenate((sums, prints[part] * seconds[part, None].astype(np.float32)))
        weights = np.concatenate((weights, seconds[part]))
        groups = _linked(_normed(sums), weights, count)
        sums = np.stack([sums[groups == group].sum(0) for group in range(groups.max() + 1)])
        weights = np.bincount(groups, weights).astype(np.float64)
    return sums, weights


def _linked_live(pieces: Pieces) -> NDArray[np.int64]:
    """Group pieces while a stream is heard, when many are short. Return the group of each.

    Otherwise a voice would have another group for its short pieces. The second look gains nothing by this.
    """
    certainty = 1 - _LESS_PER_S * np.maximum(0, _CERTAIN_S - pieces["alone_s"])
    return _linked(pieces["print"].astype(np.float32) / certainty[:, None], _seconds(pieces), 0, _SAME_GROUP_LIVE)


def _linked(prints: Floats, weights: NDArray[np.float64], count: int, limit: float = _SAME_GROUP) -> NDArray[np.int64]:
    """Group prints by average linkage. Return the group of each.

    Groups are joined while two are as similar as `limit`, or until there are `count`.
    """
    similar = prints @ prints.T
    np.fill_diagonal(similar, -np.inf)
    weights = weights.copy()
    groups = np.arange(len(prints))
    nearest = similar.argmax(1)
    best = similar[groups, nearest]
    for left in range(len(prints), max(1, count), -1):
        one = int(best.argmax())
        other = int(nearest[one])
        if left <= 1 or (not count and best[one] < limit):
            break
        joined = (similar[one] * weights[one] + similar[other] * weights[other]) / (weights[one] + weights[other])
        weights[one] += weights[other]
        groups[groups == other] = one
        joined[[one, other]] = -np.inf
        similar[one], similar[:, one] = joined, joined
        similar[other], similar[:, other] = -np.inf, -np.inf
        best[other] = -np.inf
        changed = np.flatnonzero((nearest == one) | (nearest == other) | (joined > best))
        changed = changed[np.isfinite(best[changed])]
        rows = np.append(changed, one)
        nearest[rows] = similar[rows].argmax(1)
        best[rows] = similar[rows, nearest[rows]]
    found: NDArray[np.int64] = np.unique(groups, return_inverse=True)[1]
    return found


def _normed(rows: Floats) -> Floats:
    normed: Floats = (rows / np.maximum(1e-6, np.linalg.norm(rows, axis=1, keepdims=True))).astype(np.float32)
    return normed
