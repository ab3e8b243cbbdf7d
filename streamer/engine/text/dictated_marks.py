"""Marks that a speaker dictates: "comma", "full stop", "new paragraph". This is a stage of the written form."""

from __future__ import annotations

from streamer.engine.text.spoken_numbers import TrackedWords

LINE_BREAKS = ("\n", "\n\n")
SENTENCE_ENDS = (".", "?", "!", *LINE_BREAKS)

_MARKS = {
    ("comma",): ",",
    ("full", "stop"): ".",
    ("period",): ".",
    ("question", "mark"): "?",
    ("exclamation", "mark"): "!",
    ("exclamation", "point"): "!",
    ("colon",): ":",
    ("semicolon",): ";",
    ("semi", "colon"): ";",
    ("new", "line"): "\n",
    ("new", "paragraph"): "\n\n",
}
_FIRST_WORDS = frozenset(words[0] for words in _MARKS)


def dictated_mark_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """Return the mark that is dictated here, and the position after its last word; None without one."""
    first = words.at(at)
    if first not in _FIRST_WORDS:
        return None
    if (first,) in _MARKS:
        return _MARKS[first,], at + 1
    mark = _MARKS.get((first, words.at(at + 1)))
    return None if mark is None else (mark, at + 2)
