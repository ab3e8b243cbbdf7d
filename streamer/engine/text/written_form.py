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

from streamer.engine.text.figures import DIGITS, LONGEST_RUN, MULTIPLIERS, REPEATS, TrackedWords, figures_at
from streamer.engine.text.hotword_spelling import NO_SPELLINGS, Spellings
from streamer.engine.text.marks import Case, Mark, MarkedWord

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


# Marks that a speaker dictates: "comma", "full stop", "new paragraph". This is a stage of the written form.

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


# Letters that are said one by one, and digits among them: U.S., FBI, BRAMAN, B7K29. A stage of the written form.

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


# Titles before names: Mr., Dr. This is a stage of the written form.

# These are abbreviated only before a name. The capital of the next word shows that it is a name.
TITLES = {"mister": "Mr.", "missus": "Mrs.", "doctor": "Dr.", "saint": "St."}

_ALWAYS = {"mr": "Mr.", "mrs": "Mrs.", "ms": "Ms."}


def title_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """Return the title here that is always abbreviated, and the position after it; None without one."""
    word = words.at(at)
    return (_ALWAYS[word], at + 1) if word in _ALWAYS else None
