"""Subtitles: the words of finals divided into cues that can be read. Pure.

A cue has at most two lines of 42 characters and 7 seconds. Among all ways to divide a final the one with the least
trouble is taken: breaks lie at pauses and between phrases, and no cue flashes by or is a single word without need.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Final

Event = Mapping[str, Any]
_Group = tuple[Sequence[Event], Sequence[str]]  # the words of a cue, and its lines

LINE_CHARACTERS: Final = 42
CUE_LINES: Final = 2
LONGEST_CUE_MS: Final = 7_000
SHORTEST_CUE_MS: Final = 1_000
PAUSE_MS: Final = 1_500  # a pause between two words that a cue does not bridge
# A cue stays this long for each of its characters where there is room; what must go faster costs.
CHARACTERS_A_SECOND: Final = 17

# Words that belong to what follows them, so that no line or cue should end with them. English, as the recogniser is.
_LEANING_WORDS = """
a an the my your his her its our their this that these those some any no every each of to in on at by for from with into
onto over under about as than and or but if because when while where which who whose what how is are was were be been am
do does did have has had will would can could shall should may might must not very so too i you he she it we they there
mister missus doctor mr mrs dr
"""
# Words that begin a phrase, so that a break before them is a good one.
_OPENING_WORDS = """
and or but because if when while where which who that as since until before after although though unless so than then
with without from into for in on at by to of
"""
_LEANING: Final = frozenset(_LEANING_WORDS.split())
_OPENING: Final = frozenset(_OPENING_WORDS.split())

# The troubles, in units of one: that of a cue more.
_A_CUE: Final = 1.0
_TOO_SHORT: Final = 6.0  # a cue that stays for less than a second, by the part that is missing
_TOO_FAST: Final = 1.5  # by the part of the time that is missing to read it
_ONE_WORD: Final = 1.5
_LEANS: Final = 1.0
_OPENS: Final = 0.4
_PAUSE: Final = 1.0  # what a pause of half a second or more is worth
_HALF_SECOND_MS: Final = 500
_UNEVEN: Final = 1.0  # one line empty beside one that is full


@dataclass(frozen=True)
class Cue:
    """One subtitle: its time and its one or two lines, and the channel if there are several."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    channel: int | None = None


def cues(segments: Sequence[Event]) -> list[Cue]:
    """Subtitles for these segments: words never leave their time, cues of a channel never overlap and are readable."""
    spoken: dict[int | None, list[Event]] = {}
    for segment in segments:
        spoken.setdefault(segment.get("channel"), []).append(segment)
    found = [cue for channel, said in spoken.items() for cue in _cues_of_one(said, channel)]
    return sorted(found, key=lambda cue: (cue.start_ms, cue.channel or 0))


def voice(form: str, channel: int | None) -> str:
    """The name of a channel in front of its words, counted from 1; nothing if there is only one."""
    return "" if channel is None else form.format(channel + 1)


def _cues_of_one(segments: Sequence[Event], channel: int | None) -> list[Cue]:
    taken = len(voice("[{}] ", channel))
    words = [said for segment in segments if (said := _timed_words(segment))]
    groups: list[_Group] = []
    for said, following in zip_longest(words, words[1:]):
        groups += _divided(said, following[0]["start_ms"] if following else None, taken)
    result = []
    for (group, lines), after in zip_longest(groups, groups[1:]):
        start = group[0]["start_ms"]
        end = max(group[-1]["end_ms"], start + _readable_ms(lines))
        if after:
            end = max(start, min(end, after[0][0]["start_ms"]))
        result.append(Cue(start, end, tuple(lines), channel))
    return result


def _divided(words: Sequence[Event], next_ms: int | None, taken: int) -> list[_Group]:
    """The words of a segment as cues: the division with the least trouble. `next_ms`: where the next segment begins."""
    best: list[tuple[float, int, Sequence[str]]] = [(0.0, 0, ())]  # up to each word: trouble, where its cue begins
    for end in range(1, len(words) + 1):
        options: list[tuple[float, int, Sequence[str]]] = []
        for start in range(end - 1, -1, -1):
            group = words[start:end]
            lines = _lines(group, taken)
            fits = len(lines) <= CUE_LINES and group[-1]["end_ms"] - group[0]["start_ms"] <= LONGEST_CUE_MS
            if len(group) > 1 and (not fits or group[1]["start_ms"] - group[0]["end_ms"] > PAUSE_MS):
                break
            until = words[end]["start_ms"] if end < len(words) else next_ms
            trouble = best[start][0] + _A_CUE + _trouble(group, lines, until)
            if end < len(words):
                trouble += _break(words[end - 1], words[end])
            options.append((trouble, start, lines))
        best.append(min(options, key=lambda option: option[0]))
    groups: list[_Group] = []
    end = len(words)
    while end:
        _, start, shown = best[end]
        groups.append((words[start:end], shown))
        end = start
    return groups[::-1]


def _trouble(group: Sequence[Event], lines: Sequence[str], until: int | None) -> float:
    """How hard it is to read this cue, if the next one comes at `until`."""
    start: int = group[0]["start_ms"]
    wanted = _readable_ms(lines)
    shown: int = max(group[-1]["end_ms"] - start, wanted)
    if until is not None:
        shown = min(shown, until - start)
    trouble = _TOO_FAST * max(0.0, 1 - shown / wanted)
    trouble += _TOO_SHORT * max(0.0, 1 - shown / SHORTEST_CUE_MS)
    return trouble + _ONE_WORD * (len(group) == 1)


def _break(word: Event, following: Event) -> float:
    """How bad it is to part these two words: less than nothing if it is a good place."""
    last, first = _plain(word).rpartition(" ")[2], _plain(following).partition(" ")[0]
    pause: int = following["start_ms"] - word["end_ms"]
    trouble = -_PAUSE * min(1.0, max(0, pause) / _HALF_SECOND_MS)
    return trouble + _LEANS * (last in _LEANING) - _OPENS * (first in _OPENING)


def _lines(words: Sequence[Event], taken: int) -> list[str]:
    """The words in lines, the first of which has something before it that takes so many characters.

    Two lines are about as long as each other, and parted at a good place.
    """
    text = " ".join(word["word"] for word in words)
    if len(text) <= LINE_CHARACTERS - taken:
        return [text]
    if len(text) > CUE_LINES * LINE_CHARACTERS:
        return _wrapped(text, taken)
    best: tuple[float, list[str]] | None = None
    length = 0
    for word, following in pairwise(words):
        length += len(word["word"]) + 1
        first, second = text[: length - 1], text[length:]
        if len(first) > LINE_CHARACTERS - taken:
            break
        if len(second) <= LINE_CHARACTERS:
            trouble = _break(word, following) + _UNEVEN * abs(len(first) - len(second)) / LINE_CHARACTERS
            if best is None or trouble < best[0]:
                best = trouble, [first, second]
    return best[1] if best else _wrapped(text, taken)


def _wrapped(text: str, taken: int) -> list[str]:
    """Lines however they come: also for a word that is longer than a line."""
    blank = "\0" * taken
    wrapped = textwrap.wrap(blank + text, LINE_CHARACTERS, break_on_hyphens=False)
    return [line.removeprefix(blank) for line in wrapped]


def _readable_ms(lines: Sequence[str]) -> int:
    characters = len(" ".join(lines))
    return min(LONGEST_CUE_MS, max(SHORTEST_CUE_MS, 1000 * characters // CHARACTERS_A_SECOND))


def _plain(word: Event) -> str:
    return str(word["word"]).casefold()


def _timed_words(segment: Event) -> Sequence[Event]:
    """The words with their times; where a session left them out, the segment's time is shared by length."""
    if segment.get("words"):
        words: Sequence[Event] = segment["words"]
        return words
    pieces = segment["text"].split()
    scale = (segment["end_ms"] - segment["start_ms"]) / max(1, sum(map(len, pieces)))
    timed = []
    passed = 0
    for piece in pieces:
        start = segment["start_ms"] + round(passed * scale)
        passed += len(piece)
        timed.append({"word": piece, "start_ms": start, "end_ms": segment["start_ms"] + round(passed * scale)})
    return timed
