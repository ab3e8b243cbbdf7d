"""Letters that are said one by one, and digits among them: U.S., FBI, BRAMAN, B7K29. A stage of the written form.

The longest run of symbols is read first. Then symbols at its end are left out if they may be words: "i" and "a", or a
single number after letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamer.engine.text.spoken_numbers import DIGITS, LONGEST_RUN, MULTIPLIERS, REPEATS, TrackedWords

_ABBREVIATIONS = {"us": "U.S.", "uk": "U.K.", "un": "U.N.", "dc": "D.C.", "eu": "EU", "tv": "TV", "phd": "PhD"}
_PRONOUNS = ("a", "i")  # letters that are also words
_FEWEST = 3
_FEWEST_WITH_DIGITS = 4
_FEWEST_AFTER_DIGIT = 5


@dataclass(frozen=True)
class _Symbol:
    """A letter or digit, or several equal ones such as "double l", and the position after the last word."""

    text: str
    end: int

    @property
    def is_digit(self) -> bool:
        return self.text.isdigit()

    @property
    def is_pronoun(self) -> bool:
        return self.text in _PRONOUNS


def spelled_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """Return the word that is spelled from here on, in capitals, and the position after it; None without one."""
    run = list(_symbols(words, at))
    while run and _is_word(run, words):
        run.pop()
    text = "".join(symbol.text for symbol in run)
    if text in _ABBREVIATIONS:
        return _ABBREVIATIONS[text], run[-1].end
    if text[:1] == "a" and text[1:] in _ABBREVIATIONS:
        return None  # "a t v"
    mixed = any(symbol.is_digit for symbol in run)
    if len(text) < (_FEWEST_WITH_DIGITS if mixed else _FEWEST):
        return None
    surely = sum(not symbol.is_digit and not symbol.is_pronoun for symbol in run)
    if run[0].is_pronoun and surely < 2:
        return None  # rather a word, and other symbols
    if run[0].is_digit and (surely < 2 or len(text) < _FEWEST_AFTER_DIGIT or text[:_FEWEST].isdigit()):
        return None  # rather a number, and maybe letters
    return text.upper(), run[-1].end


def _symbols(words: TrackedWords, at: int) -> Iterator[_Symbol]:
    length, digit = 0, False
    while length < LONGEST_RUN:
        times = REPEATS.get(words.at(at), 1)
        last = at + (times > 1)
        word = words.at(last)
        # At the beginning "oh" is an exclamation, and "o" is a zero only after another digit.
        zero = (word == "oh" and length > 0) or (word == "o" and digit)
        value = 0 if zero else DIGITS.get(word)
        if value is None and not _is_letter(word):
            return
        if value is not None and (words.at(last + 1) in MULTIPLIERS or words.at(last + 1) == "point"):
            return  # the digit begins another number
        digit = value is not None
        yield _Symbol((word if value is None else str(value)) * times, last + 1)
        at, length = last + 1, length + times


def _is_letter(word: str) -> bool:
    return len(word) == 1 and word.isalpha()


def _is_word(run: list[_Symbol], words: TrackedWords) -> bool:
    """Return whether the last symbol of a run is probably a word."""
    last, before = run[-1], run[-2] if len(run) > 1 else None
    if before is None:
        return False
    if last.is_digit:
        # "The f b i | one day", but "b seven k | two nine" and "b a | two four nine".
        return len(last.text) == 1 and not any(symbol.is_digit for symbol in run[:-1])
    # "The f b i | i think", "b seven nine | i think".
    twice = len(run) > 3 and last.text == before.text
    return last.is_pronoun and (before.is_digit or twice) and words.at(last.end) != ""
