"""The written form of spoken English words, in stages.

The first stages read the words once from left to right: spellings of hotwords, dictated marks, titles, spelled words,
and figures. Every token records how far ahead they looked. The last stage adds the marks and capitals that a
`PunctuationModel` has decided word by word. So for every token it is known whether later words can still change it.
docs/reference/written.md describes the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from streamer.engine.punctuation.marks import Case, Mark, MarkedWord
from streamer.engine.text.dictated_marks import LINE_BREAKS, SENTENCE_ENDS, dictated_mark_at
from streamer.engine.text.figures import figures_at
from streamer.engine.text.hotword_spelling import NO_SPELLINGS, Spellings
from streamer.engine.text.spelled_words import spelled_at
from streamer.engine.text.spoken_numbers import TrackedWords
from streamer.engine.text.titles import TITLES, title_at

UNMARKED = MarkedWord(Mark.NONE, Case.LOWER)
_POSSESSIVE = "'s"


class TokenKind(Enum):
    """The source of the text of a token, which decides what the last stage may change."""

    WORD = "word"  # a word as it was said: it gets its capitals
    RULE = "rule"  # figures, titles and spelled words: only a capital at the start of a sentence
    HOTWORD = "hotword"  # a hotword: its letters stay as they were given
    MARK = "mark"  # marks that follow no word, and line breaks


@dataclass(frozen=True)
class Form:
    """The stages for the words of a stream."""

    spellings: Spellings = NO_SPELLINGS
    rules: bool = True  # titles, spelled words and figures
    dictation: bool = False


@dataclass(frozen=True)
class ReadToken:
    """The result of the first stages for the words [first:end). The words from `spoken_end` on are dictated marks."""

    text: str
    kind: TokenKind
    first: int
    spoken_end: int
    end: int
    dictated: str
    furthest: int  # the last position that was read for this token or for one before it


@dataclass(frozen=True)
class WrittenToken:
    """The written form of the spoken words [first:end). `ends`: the next word begins a sentence."""

    text: str
    first: int
    end: int
    ends: bool = False


def read_tokens(words: Sequence[str], form: Form) -> list[ReadToken]:
    """Return the tokens of the first stages, in order and without gaps."""
    return list(_read(words, form))


def written_tokens(
    read: Sequence[ReadToken], *, begins: bool, capitals: bool = True, marks: Sequence[MarkedWord] | None = None
) -> list[WrittenToken]:
    """Return the tokens with marks and capitals. `begins`: the first word begins a sentence.

    `marks` has an answer for each word that is not a dictated mark. A word without an answer has no mark. Without
    `capitals`, the first word of a sentence gets no capital.
    """
    tokens: list[WrittenToken] = []
    place = 0  # the place among the words that are not dictated marks
    for token, next_token in zip_longest(read, read[1:]):
        after = place + token.spoken_end - token.first
        text = token.text
        if token.kind is not TokenKind.MARK:
            own, following = _answer(marks, after - 1), _answer(marks, after)
            mark = token.dictated or own.mark.value
            if token.kind is TokenKind.WORD:
                named = following.case is not Case.LOWER or _is_given_name(next_token)
                title = TITLES.get(text.lower()) if named and not mark else None
                text = title or with_capitals(text, own.case)
            if begins and capitals and token.kind is not TokenKind.HOTWORD:
                text = text[:1].title() + text[1:]
            text = _with_mark(text, mark)
        begins = _ends_sentence(token, _answer(marks, after - 1)) or (begins and token.kind is TokenKind.MARK)
        tokens.append(WrittenToken(text, token.first, token.end, begins))
        place = after
    return tokens


def settled_tokens(read: Sequence[ReadToken], stable: int, decided: int | None = None) -> int:
    """Return how many tokens at the start cannot change any more.

    `read` has the tokens of the first `stable` words. `decided` is how many words, without dictated marks, have marks
    and capitals that will not change; None if no model decides these.
    """
    count = place = 0
    for token, next_token in zip_longest(read, read[1:]):
        place += token.spoken_end - token.first
        # The next word decides whether a title is abbreviated.
        title = token.kind is TokenKind.WORD and token.text.lower() in TITLES
        last = next_token if title else token
        if last is None or last.furthest >= stable or (decided is not None and place + title > decided):
            break
        count += 1
    return count


def with_capitals(word: str, case: Case) -> str:
    """Return the word with its capitals. A possessive ending stays small, as in NASA's."""
    stem = word.removesuffix(_POSSESSIVE)
    return case.written(stem) + word[len(stem) :]


def _read(words: Sequence[str], form: Form) -> Iterator[ReadToken]:
    tracked = TrackedWords(words)
    written: list[str] = []  # the words of the tokens so far, in lower case
    position = 0
    while position < len(words):
        text, kind, spoken_end = _token(tracked, position, form, written) or (
            words[position],
            TokenKind.WORD,
            position + 1,
        )
        end, dictated = spoken_end, ""
        if form.dictation and kind is not TokenKind.MARK:
            follows = dictated_mark_at(tracked, spoken_end)
            if follows is not None and follows[0] not in LINE_BREAKS:
                dictated, end = follows
        tracked.at(end - 1)
        written += text.lower().split()
        first_mark = position if kind is TokenKind.MARK else spoken_end
        yield ReadToken(text, kind, position, first_mark, end, dictated, tracked.furthest)
        position = end


def _token(words: TrackedWords, at: int, form: Form, written: Sequence[str]) -> tuple[str, TokenKind, int] | None:
    """Return the result of the first stage that has a rule for the words at this position; None if no stage has."""
    spelling = form.spellings.at(words, at) if form.spellings else None
    if spelling is not None:
        return spelling[0], TokenKind.HOTWORD, spelling[1]
    mark = dictated_mark_at(words, at) if form.dictation else None
    if mark is not None:
        return mark[0], TokenKind.MARK, mark[1]
    by_rules = _ruled(words, at, written) if form.rules else None
    return None if by_rules is None else (by_rules[0], TokenKind.RULE, by_rules[1])


def _ruled(words: TrackedWords, at: int, written: Sequence[str]) -> tuple[str, int] | None:
    return title_at(words, at) or spelled_at(words, at) or figures_at(words, at, written)


def _answer(marks: Sequence[MarkedWord] | None, place: int) -> MarkedWord:
    return marks[place] if marks is not None and 0 <= place < len(marks) else UNMARKED


def _is_given_name(token: ReadToken | None) -> bool:
    return token is not None and token.kind is TokenKind.HOTWORD and token.text[:1].isupper()


def _ends_sentence(token: ReadToken, own: MarkedWord) -> bool:
    if token.kind is TokenKind.MARK:
        return token.text in SENTENCE_ENDS
    return token.dictated in SENTENCE_ENDS if token.dictated else own.mark.ends_sentence


def _with_mark(text: str, mark: str) -> str:
    """Add a mark to a text. An abbreviation that ends with a full stop does not get another one."""
    return text if mark == "." and text.endswith(".") else text + mark
