"""Divides the words of finals into cues, which are readable subtitles. Pure.

A cue has at most two lines of 42 characters, and lasts at most 7 seconds. Every way to divide a final has a cost, and
the cheapest way wins: it breaks at marks, at pauses and between phrases, and avoids cues that are too short or have
only one word. Chinese and Japanese characters count twice, because they are twice as wide and say more. Between two
cues there is a gap of 80 ms, so that the eye notices the change, or one of at least half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, Final

from streamer.base.speakers import parts_of
from streamer.base.text import columns, joined, printable, separator, words_of

SessionEvent = Mapping[str, Any]
_Group = tuple[Sequence[SessionEvent], Sequence[str]]  # the words of a cue, and its lines

LINE_CHARACTERS: Final = 42
CUE_LINES: Final = 2
LONGEST_CUE_MS: Final = 7_000
SHORTEST_CUE_MS: Final = 1_000
GAP_MS: Final = 80  # between a cue and the next one: two frames of a film
LONG_GAP_MS: Final = 500  # a shorter gap would flicker, so the cue stays until the next one is near
PAUSE_MS: Final = 1_500  # a longer pause between two words always starts a new cue
# The reading speed that cues aim at. A faster cue costs more.
CHARACTERS_A_SECOND: Final = 17

# English words that belong to the next word, so no line or cue should end with them.
_WORDS_TIED_TO_NEXT = """
a an the my your his her its our their this that these those some any no every each of to in on at by for from with into
onto over under about as than and or but if because when while where which who whose what how is are was were be been am
do does did have has had will would can could shall should may might must not very so too i you he she it we they there
mister missus doctor saint mr mrs ms dr st
"""
# English words that begin a phrase, so a break before them is good.
_PHRASE_STARTING_WORDS = """
and or but because if when while where which who that as since until before after although though unless so than then
with without from into for in on at by to of
"""
_TIED_TO_NEXT: Final = frozenset(_WORDS_TIED_TO_NEXT.split())
_PHRASE_STARTERS: Final = frozenset(_PHRASE_STARTING_WORDS.split())

SENTENCE_ENDS: Final = (".", "?", "!", "。", "？", "！")
_OTHER_MARKS: Final = (",", ":", ";", "，", "、", "：", "；")

# The costs of a division. The unit is the cost of one more cue.
_ONE_MORE_CUE: Final = 1.0
_TOO_SHORT: Final = 6.0  # for a cue of less than a second, times the missing part
_TOO_FAST: Final = 6.0  # times the missing part of the reading time
_ONE_WORD: Final = 1.5
_SPLITS_TIED_WORDS: Final = 1.0
_AFTER_SENTENCE: Final = 1.5  # gained by a break after a full stop, a question mark or an exclamation mark
_AFTER_COMMA: Final = 0.9  # gained by a break after any other mark
_BEFORE_PHRASE: Final = 0.4  # gained by a break before a word that starts a phrase
_PAUSE: Final = 1.0  # gained by a break at a pause of half a second or more
_HALF_SECOND_MS: Final = 500
_UNEVEN: Final = 1.0  # for one empty and one full line
_LONE_WORD: Final = 1.0  # for a line with one word


@dataclass(frozen=True)
class Cue:
    """One subtitle: its times, its one or two lines, and its channel and its speaker if there are several."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    channel: int | None = None
    speaker: int | None = None


def make_cues(segments: Sequence[SessionEvent], names: Sequence[str] = (), speakers: Sequence[str] = ()) -> list[Cue]:
    """Return the cues for these segments. Words keep their times, and cues of one channel never overlap.

    Cues of two channels overlap only while words of both were spoken at the same time. `names`: those of the channels.
    `speakers`: those of the speakers. A cue has the words of one of them.
    """
    channels: dict[int | None, list[SessionEvent]] = {}
    for segment in segments:
        channels.setdefault(segment.get("channel"), []).extend(parts_of(segment))
    cues = [cue for channel, own in channels.items() for cue in _channel_cues(own, channel, names, speakers)]
    cues.sort(key=lambda each: (each[0].start_ms, each[0].channel or 0))
    return [
        replace(cue, end_ms=max(spoken_ms, shown_until(cue.start_ms, cue.end_ms, after[0].start_ms))) if after else cue
        for (cue, spoken_ms), after in zip_longest(cues, cues[1:])
    ]


def shown_until(start_ms: int, end_ms: int, next_ms: int) -> int:
    """Return when a cue disappears that would end at `end_ms`, if the next one starts at `next_ms`."""
    if next_ms - end_ms >= LONG_GAP_MS:
        return end_ms
    # A cue that is followed at once is shown for half of its time at least.
    latest = max(start_ms, next_ms - GAP_MS, start_ms + (next_ms - start_ms) // 2)
    return latest if latest < end_ms else max(end_ms, min(latest, start_ms + LONGEST_CUE_MS))


def voice_label(
    channel: int | None, names: Sequence[str] = (), speaker: int | None = None, speakers: Sequence[str] = ()
) -> str:
    """Return what stands before somebody's words, such as `[1] `. Empty if there is only one channel and speaker."""
    name = voice_name(channel, names, speaker, speakers)
    return f"[{name}] " if name else ""


def voice_name(
    channel: int | None, names: Sequence[str] = (), speaker: int | None = None, speakers: Sequence[str] = ()
) -> str:
    """Return the name of a channel and of the speaker there; a number, counted from 1, for one without a name."""
    both = ((channel, names), (speaker, speakers))
    known = [
        (own[number] if number < len(own) else "") or str(number + 1) for number, own in both if number is not None
    ]
    return printable("/".join(known))


def _channel_cues(
    segments: Sequence[SessionEvent], channel: int | None, names: Sequence[str], speakers: Sequence[str]
) -> list[tuple[Cue, int]]:
    """Return the cues of one channel, each with the time up to which its words need it."""
    spoken = [(words, segment.get("speaker")) for segment in segments if (words := timed_words(segment))]
    groups: list[_Group] = []
    who: list[int | None] = []
    for (words, speaker), following in zip_longest(spoken, spoken[1:]):
        label_length = columns(voice_label(channel, names, speaker, speakers))
        groups += _divide(words, following[0][0]["start_ms"] if following else None, label_length)
        who += [speaker] * (len(groups) - len(who))
    cues: list[tuple[Cue, int]] = []
    for (group, lines), after, speaker in zip_longest(groups, groups[1:], who):
        start = group[0]["start_ms"]
        end = max(group[-1]["end_ms"], start + _readable_ms(lines))
        if after:
            end = shown_until(start, end, after[0][0]["start_ms"])
        cues.append((Cue(start, end, tuple(lines), channel, speaker), min(end, group[-1]["end_ms"])))
    return cues


def _divide(words: Sequence[SessionEvent], next_ms: int | None, label_length: int) -> list[_Group]:
    """Return the words of a segment, divided into cues at the lowest cost. `next_ms`: the start of the next segment."""
    # The best division of the words up to each one: its cost, the start of its last cue, and the lines of this cue.
    best: list[tuple[float, int, Sequence[str]]] = [(0.0, 0, ())]
    for end in range(1, len(words) + 1):
        options: list[tuple[float, int, Sequence[str]]] = []
        for start in range(end - 1, -1, -1):
            group = words[start:end]
            lines = _lines(group, label_length)
            fits = len(lines) <= CUE_LINES and group[-1]["end_ms"] - group[0]["start_ms"] <= LONGEST_CUE_MS
            if len(group) > 1 and (not fits or group[1]["start_ms"] - group[0]["end_ms"] > PAUSE_MS):
                break
            until = words[end]["start_ms"] if end < len(words) else next_ms
            cost = best[start][0] + _ONE_MORE_CUE + _cost(group, lines, until)
            if end < len(words):
                cost += _break_cost(words[end - 1], words[end])
            options.append((cost, start, lines))
        best.append(min(options, key=lambda option: option[0]))
    groups: list[_Group] = []
    end = len(words)
    while end:
        _, start, best_lines = best[end]
        groups.append((words[start:end], best_lines))
        end = start
    return groups[::-1]


def _cost(group: Sequence[SessionEvent], lines: Sequence[str], until: int | None) -> float:
    """Return the cost of this cue if the next one starts at `until`."""
    start: int = group[0]["start_ms"]
    readable_ms = _readable_ms(lines)
    length_ms: int = max(group[-1]["end_ms"] - start, readable_ms)
    if until is not None:
        length_ms = min(length_ms, until - GAP_MS - start)
    cost = _TOO_FAST * max(0.0, 1 - length_ms / readable_ms)
    cost += _TOO_SHORT * max(0.0, 1 - length_ms / SHORTEST_CUE_MS)
    return cost + _ONE_WORD * (len(group) == 1)


def _break_cost(word: SessionEvent, following: SessionEvent) -> float:
    """Return the cost of a break between these two words. It is negative at a good point."""
    last, first = _plain(word).rpartition(" ")[2], _plain(following).partition(" ")[0]
    pause: int = following["start_ms"] - word["end_ms"]
    cost = -_PAUSE * min(1.0, max(0, pause) / _HALF_SECOND_MS)
    tied = last.rstrip(".") in _TIED_TO_NEXT  # also Mr. and Dr.
    if not tied and last.endswith(SENTENCE_ENDS):
        cost -= _AFTER_SENTENCE
    elif last.endswith(_OTHER_MARKS):
        cost -= _AFTER_COMMA
    return cost + _SPLITS_TIED_WORDS * tied - _BEFORE_PHRASE * (first in _PHRASE_STARTERS)


def _lines(words: Sequence[SessionEvent], label_length: int) -> list[str]:
    """Return the text of these words in lines. A label in front of the first line has `label_length` characters.

    Two lines have about the same length, and the break between them is at a good point.
    """
    text = joined(word["word"] for word in words)
    if columns(text) <= LINE_CHARACTERS - label_length:
        return [text]
    if columns(text) > CUE_LINES * LINE_CHARACTERS:
        return _wrap(text, label_length)
    best: tuple[float, list[str]] | None = None
    length = 0
    for index, (word, following) in enumerate(pairwise(words)):
        length += len(word["word"])
        first = text[:length]
        length += len(separator(word["word"], following["word"]))
        second = text[length:]
        if columns(first) > LINE_CHARACTERS - label_length:
            break
        if columns(second) <= LINE_CHARACTERS:
            cost = _break_cost(word, following) + _UNEVEN * abs(columns(first) - columns(second)) / LINE_CHARACTERS
            cost += _LONE_WORD * (index in (0, len(words) - 2))
            if best is None or cost < best[0]:
                best = cost, [first, second]
    return best[1] if best else _wrap(text, label_length)


def _wrap(text: str, label_length: int) -> list[str]:
    """Return a text, wrapped where a line is full. A word that is longer than a line begins in the line before it."""
    lines = [""]
    for word in words_of(text):
        room = LINE_CHARACTERS - label_length * (len(lines) == 1)
        gap = separator(lines[-1], word)
        if columns(lines[-1] + gap + word) > room and (
            columns(word) <= LINE_CHARACTERS or columns(lines[-1] + gap) >= room
        ):
            lines += [""] * bool(lines[-1])
            gap = ""
        for letter in gap + word:
            if columns(lines[-1] + letter) > LINE_CHARACTERS - label_length * (len(lines) == 1):
                lines.append("")
            lines[-1] += letter
    return lines


def _readable_ms(lines: Sequence[str]) -> int:
    characters = columns(joined(lines))
    return min(LONGEST_CUE_MS, max(SHORTEST_CUE_MS, -(-1000 * characters // CHARACTERS_A_SECOND)))


def _plain(word: SessionEvent) -> str:
    return str(word["word"]).casefold()


def timed_words(segment: SessionEvent) -> Sequence[SessionEvent]:
    """Return the words with their times. If the final has none, the length of a word decides its time."""
    if segment.get("words"):
        return [word for word in segment["words"] if word["word"].strip()]  # a dictated line break is not a word
    pieces = words_of(segment["text"])
    scale = (segment["end_ms"] - segment["start_ms"]) / max(1, sum(map(len, pieces)))
    words = []
    letters = 0
    for piece in pieces:
        start = segment["start_ms"] + int(letters * scale + 0.5)  # rounds like the page, which is JavaScript
        letters += len(piece)
        words.append({"word": piece, "start_ms": start, "end_ms": segment["start_ms"] + int(letters * scale + 0.5)})
    return words
