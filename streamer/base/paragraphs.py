"""Divides the words of finals into sentences and paragraphs, which are readable text. Pure.

A paragraph ends only where a sentence ends: where somebody else speaks, at a long pause or the end of a turn, or when
it has enough words. `docs/reference/transcript.md` has the rules for people. What decides about a paragraph is known
when its next sentence is, so text can be written while it is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamer.base.cues import SENTENCE_ENDS, SessionEvent, timed_words
from streamer.base.speakers import parts_of
from streamer.base.text import joined, words_of

ENOUGH_WORDS: Final = 60  # from here on, a short pause ends a paragraph
MOST_WORDS: Final = 120  # a sentence that would make it longer begins a new one
FEW_WORDS: Final = 20  # a paragraph with fewer words goes on after a pause, unless that is very long
SHORT_PAUSE_MS: Final = 500
PAUSE_MS: Final = 2_000
LONG_PAUSE_MS: Final = 5_000

_CLOSING: Final = "\"'\u201d\u2019\u00bb)]\u300d\u300f"  # may follow the mark at the end of a sentence
# After these words, a full stop does not end a sentence.
_ABBREVIATED = "mr mrs ms dr st prof gen col capt lt sgt rev hon jr sr vs"
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())


@dataclass(frozen=True)
class Sentence:
    """A sentence, or the part of one that is in one segment."""

    text: str
    start_ms: int
    end_ms: int
    whole: bool  # whether a sentence ends here
    turn: bool = False  # whether a turn ends here
    channel: int | None = None
    speaker: int | None = None
    words: Sequence[SessionEvent] = ()  # with their times; none if they do not make up the text


class ParagraphRule:
    """Says where a new paragraph begins, sentence by sentence."""

    def __init__(self) -> None:
        self._marks = False  # whether the transcript has marks at the ends of sentences
        self._last: Sentence | None = None
        self._words = 0  # of the present paragraph

    def sentences(self, segment: SessionEvent) -> list[Sentence]:
        """Return the sentences of a segment. Without marks, a segment is a sentence."""
        parts = [sentence for part in parts_of(segment) for sentence in _sentences(part)]
        # The written form has marks, even if none has come yet.
        self._marks = self._marks or "spoken" in segment or any(_has_end(part.text) for part in parts)
        if not self._marks:
            parts = [replace(part, whole=True) for part in parts]
        return parts

    def begins(self, sentence: Sentence) -> bool:
        """Take the next sentence, and return whether it begins a paragraph."""
        words = len(words_of(sentence.text))
        begins = self._last is None or self._ends(self._last, sentence, words)
        self._words = words if begins else self._words + words
        self._last = sentence
        return begins

    def _ends(self, last: Sentence, following: Sentence, words: int) -> bool:
        if (following.channel, following.speaker) != (last.channel, last.speaker):
            return True
        # A sentence that goes on begins with a small letter, whatever mark is before it.
        if not last.whole or (self._marks and following.text[:1].islower()):
            return False
        pause = following.start_ms - last.end_ms
        if self._words + words > MOST_WORDS or pause >= LONG_PAUSE_MS:
            return True
        if self._words >= ENOUGH_WORDS and (pause >= SHORT_PAUSE_MS or last.turn):
            return True
        return self._words >= FEW_WORDS and (pause >= PAUSE_MS or last.turn)


def _sentences(segment: SessionEvent) -> list[Sentence]:
    text, turn = segment["text"], segment.get("turn") is not None
    who = (segment.get("channel"), segment.get("speaker"))
    if not text.strip():
        return []
    words = timed_words(segment)
    # A line break that was dictated is no word, and belongs where it is.
    if not words or joined(word["word"] for word in words) != text:
        return [Sentence(text, segment["start_ms"], segment["end_ms"], _has_end(text), turn, *who)]
    groups: list[list[SessionEvent]] = [[]]
    for index, word in enumerate(words):
        groups[-1].append(word)
        if index + 1 < len(words) and _has_end(word["word"]) and not words[index + 1]["word"][:1].islower():
            groups.append([])
    texts = [joined(word["word"] for word in group) for group in groups]
    last = len(groups) - 1
    return [
        Sentence(part, group[0]["start_ms"], group[-1]["end_ms"], _has_end(part), turn and index == last, *who, group)
        for index, (group, part) in enumerate(zip(groups, texts, strict=True))
    ]


def _has_end(text: str) -> bool:
    """Return whether a sentence ends with this text."""
    bare = text.rstrip().rstrip(_CLOSING)
    if not bare.endswith(SENTENCE_ENDS):
        return False
    last = bare.split()[-1]
    # Mr. and the letters of a name, such as J. S. Bach.
    return not last.endswith(".") or not (last[:-1].casefold() in _ABBREVIATIONS or _is_initial(last[:-1]))


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word.isupper() and word != "I"
