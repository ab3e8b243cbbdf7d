"""Decides whether the words that several witnesses heard in a piece may be its text. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rapidfuzz.distance import Levenshtein

from streamer.models.whisper_folder import ENGLISH
from workshop.data.corpus import TEXT

_KNOWN_SHARE: Final = 0.5  # of the words of an English text that our lexicon has, at least
# Somebody may say a word or two more in a moment of speech than this rate allows.
_FASTEST: Final = 7.0
_MORE: Final = 2
_SLOWEST: Final = 0.5  # words a second, of speech that is longer than this
_LONG_S: Final = 4.0
_LONGEST_PHRASE: Final = 12


@dataclass(frozen=True)
class Heard:
    """What a witness says was spoken in a piece.

    `words`: in lower case, without marks, and with figures as they are spoken. `language`: empty if the witness has one
    language. `complete`: whether it ended by itself, and did not run in circles.
    """

    words: tuple[str, ...]
    language: str = ""
    complete: bool = True
    log_probability: float = 0.0
    cpu_s: float = 0.0


class Verdict(Enum):
    """What becomes of a piece. The value says why in the words of a report."""

    KEPT = "kept"
    SILENT = "no words"
    CIRCLING = "repeated words, or no end"
    IMPOSSIBLE = "too many or too few words for their time"
    FOREIGN = "another language"
    UNWRITABLE = "letters that no word of ours has"
    DIFFERENT = "the witnesses differ"
    UNSURE = "the first witness is not sure"
    AVOIDED = "a text of dev"


@dataclass(frozen=True)
class Limits:
    """`different`: the greatest share of the first witness's words in which another one may differ and still agrees.

    `surer_than`: the least mean log-probability of the first witness's tokens. `agreeing`: how many others must agree.
    """

    different: float = 0.1
    surer_than: float = -math.inf
    agreeing: int = 1


def judge(
    heard: Sequence[Heard],
    speech_s: float,
    limits: Limits,
    knows: Callable[[str], bool],
    avoided: Collection[str] = frozenset(),
) -> Verdict:
    """Return whether the words of the first witness are the text of a piece with so many seconds of speech.

    `knows`: whether our lexicon has a word. `avoided`: texts that no piece may have.
    """
    words = heard[0].words
    if not words:
        return Verdict.SILENT
    if any(not one.complete or repeats(one.words) for one in heard):
        return Verdict.CIRCLING
    if not possible(len(words), speech_s):
        return Verdict.IMPOSSIBLE
    if any(one.language not in ("", ENGLISH) for one in heard) or sum(map(knows, words)) < _KNOWN_SHARE * len(words):
        return Verdict.FOREIGN
    if not TEXT.fullmatch(" ".join(words).upper()):
        return Verdict.UNWRITABLE
    if sum(difference(words, other.words) <= limits.different for other in heard[1:]) < limits.agreeing:
        return Verdict.DIFFERENT
    if heard[0].log_probability < limits.surer_than:
        return Verdict.UNSURE
    return Verdict.AVOIDED if " ".join(words) in avoided else Verdict.KEPT


def difference(words: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of these words in which the others differ. Where words are divided makes no difference."""
    if "".join(words) == "".join(others):
        return 0.0
    return Levenshtein.distance(words, others) / len(words)


def possible(words: int, speech_s: float) -> bool:
    """Return whether somebody may say so many words in this time of speech."""
    too_many = words > _MORE + _FASTEST * speech_s
    too_few = speech_s > _LONG_S and words < _SLOWEST * speech_s
    return not too_many and not too_few


def repeats(words: Sequence[str]) -> bool:
    """Return whether a text runs in circles: a word comes five times in a row, or a phrase four times."""
    for length in range(1, _LONGEST_PHRASE + 1):
        copies = 4 if length == 1 else 3  # after the first
        run = 0
        for place in range(length, len(words)):
            run = run + 1 if words[place] == words[place - length] else 0
            if run >= copies * length:
                return True
    return False
