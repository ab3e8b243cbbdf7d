"""Turns punctuated text into spoken words with labels: the mark after each word, and its capitals. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from streamer.engine.punctuation.marks import Case, Mark
from streamer.training.language.spoken_text import UNKNOWN, spoken_tokens, without_abbreviations


class LabelledWord(NamedTuple):
    """A spoken word and its written form. None is an unknown label.

    `begins`: it is the first word of a sentence, so its capital says nothing about the word itself.
    """

    word: str
    mark: Mark | None
    case: Case | None
    begins: bool


_DASH = re.compile(r"\s*--+\s*")
_OPENING = "\"'([{<-"
_CLOSING = re.compile(r"""[^\w%°&$£€+]+$""")
_SHOUTED = 0.6  # a text with more capital letters than this says nothing about capitals
_FEWEST_LETTERS = 8


def labelled_sentences(paragraph: str) -> Iterator[list[LabelledWord]]:
    """Yield the sentences of a paragraph. A sentence that cannot be spoken is an empty list, which stands for a gap."""
    text = _DASH.sub(" - ", without_abbreviations(paragraph))
    pieces = text.split()
    knows_case = _tells_case(text)
    sentence: list[LabelledWord] = []
    begins = True
    for piece, next_piece in zip(pieces, [*pieces[1:], ""], strict=False):
        following = next_piece.lstrip(_OPENING)
        core = piece.lstrip(_OPENING)
        closing = _CLOSING.search(core)
        signs = closing[0] if closing else ""
        mark = _mark(signs if core else piece, following)
        for word, case in _written_words(core[: len(core) - len(signs)], knows_case):
            sentence.append(LabelledWord(word, Mark.NONE, case, begins))
            begins = False
        if sentence and mark is not Mark.NONE and sentence[-1].mark is Mark.NONE:
            last = sentence[-1]
            sentence[-1] = LabelledWord(last.word, mark, last.case, last.begins)
        if sentence and mark.ends_sentence:
            yield _sayable(sentence)
            sentence, begins = [], True
    if sentence:
        last = sentence[-1]
        # The text ends without a mark, so the right one is unknown.
        sentence[-1] = LabelledWord(last.word, None, last.case, last.begins)
        yield _sayable(sentence)


def _sayable(sentence: list[LabelledWord]) -> list[LabelledWord]:
    return [] if any(word.word == UNKNOWN for word in sentence) else sentence


def _mark(signs: str, following: str) -> Mark:
    """Return the mark that these signs stand for. `following` is the text after them."""
    continues = following[:1].islower()
    if "?" in signs:
        return Mark.QUESTION
    if "!" in signs:
        return Mark.COMMA if continues else Mark.FULL_STOP
    if "..." in signs:
        return Mark.COMMA if continues else Mark.FULL_STOP
    if "." in signs:
        return Mark.NONE if continues else Mark.FULL_STOP
    if any(sign in signs for sign in ",;:") or signs == "-":
        return Mark.COMMA
    return Mark.NONE


@lru_cache(1_000_000)
def _written_words(core: str, knows_case: bool) -> tuple[tuple[str, Case | None], ...]:
    words: list[tuple[str, Case | None]] = []
    for written, spoken in spoken_tokens(core):
        letters = [letter for letter in written if letter.isalpha()]
        case = Case.LOWER
        if not letters or written[0].isdigit() or len(spoken) > 1:
            case = Case.LOWER
        elif len(stem := written.removesuffix("'s")) > 1 and stem.isupper():
            case = Case.ALL
        elif letters[0].isupper():
            case = Case.FIRST
        for word in spoken:
            first_person = word == "i" or word.startswith("i'")
            words.append((word, Case.FIRST if first_person else case if knows_case else None))
    return tuple(words)


def _tells_case(text: str) -> bool:
    """Return whether some letters are capitals, and some are not."""
    capitals = sum(letter.isupper() for letter in text)
    letters = sum(letter.isalpha() for letter in text)
    first = next((letter for letter in text if letter.isalnum()), "")
    if letters >= _FEWEST_LETTERS and capitals > _SHOUTED * letters:
        return False
    return first.isupper() or (first.isdigit() and capitals > 0)
