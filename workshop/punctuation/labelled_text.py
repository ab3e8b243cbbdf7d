"""Turns punctuated text into words with labels, in arrays, and sets some of each source aside for measuring."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.engine.text.marks import Case, Mark
from workshop.data.corpus import CorpusError
from workshop.language.text_sources import (
    NOT_TEXT,
    UNKNOWN,
    LeakGuard,
    paragraphs,
    source_of,
    spoken_tokens,
    without_abbreviations,
)

UNLABELLED = -1
"""A label that is not known from the text."""

MOST_WORDS = 700_000
"""The most words of each source that are read, so that no source outweighs the others."""

# Texts from which speech was read. They are only for measuring.
READINGS = "readings"
# Requests. Some have no marks and no capitals, so a model cannot learn from them.
_UNPUNCTUATED = "commands"
_BLOCK_SENTENCES, _BLOCKS = 60, 40  # every 40th block of 60 sentences is set aside
_NOVELS = 24  # and every 24th novel as a whole

# The first word of a sentence gets the case that it has within sentences, if it was seen this often in this share.
_FEWEST_TIMES, _NEARLY_ALWAYS = 4, 0.95

_MARKS = {mark: number for number, mark in enumerate(Mark)}
_CASES = {case: number for number, case in enumerate(Case)}

Integers = npt.NDArray[np.int32]
Small = npt.NDArray[np.int8]


@dataclass
class LabelledText:
    """Running text: numbers of words, labels by number in Mark and Case (or UNLABELLED), and what each word begins.

    `begins` is 1 where a word begins a sentence, and 2 where it also does not follow from the words before it.
    """

    words: Integers
    marks: Small
    cases: Small
    begins: Small

    def __len__(self) -> int:
        return len(self.words)

    def part(self, start: int, stop: int) -> LabelledText:
        """Return the words from `start` to before `stop`."""
        return LabelledText(*(values[start:stop] for values in vars(self).values()))


@dataclass
class Texts:
    """Text to learn from and text to measure with, by source; `words` are those that the numbers stand for."""

    words: list[str] = field(default_factory=list)
    learnt: dict[str, LabelledText] = field(default_factory=dict)
    held_out: dict[str, LabelledText] = field(default_factory=dict)
    left_out: int = 0


def read_texts(
    folder: Path, kept_out: LeakGuard, most_words: int, tell: Callable[[str], None] = lambda _: None
) -> Texts:
    """Read the text files of a folder, at most `most_words` of each source. Sentences of `kept_out` are dropped."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".txt", ".tsv") and path.name not in NOT_TEXT)
    if not files:
        raise CorpusError(f"{folder} contains no text files: unpack the archives of text there")
    by_source: dict[str, list[tuple[str, Path]]] = {}
    for path in files:
        name = path.relative_to(folder).as_posix()
        by_source.setdefault(source_of(name), []).append((name, path))
    texts, numbers = Texts(), dict[str, int]()
    for source, members in by_source.items():
        if source == _UNPUNCTUATED:
            continue
        reader = _SourceReader(numbers, kept_out, most_words)
        for index, (name, path) in enumerate(members):
            novel = len(members) > _NOVELS
            whole = source == READINGS or (novel and index % _NOVELS == _NOVELS - 1)
            blocks = 1 if whole else 0 if novel else _BLOCKS
            share = -(-reader.left // (len(members) - index))
            content = path.read_text(encoding="utf-8", errors="replace")
            reader.read(name, content, share, blocks)
        texts.left_out += reader.left_out
        for kind, collected in (("learnt", reader.learnt), ("held_out", reader.held_out)):
            if len(collected.words):
                getattr(texts, kind)[source] = collected.text()
        tell(f"{source}: {len(reader.learnt.words)} words to learn from, {len(reader.held_out.words)} held out")
    texts.words = list(numbers)
    return texts


def number_sentences(sentences: Iterable[Iterable[LabelledWord]], numbers: dict[str, int]) -> LabelledText:
    """Return sentences as arrays. New words get the next numbers."""
    collected = _Collected()
    for sentence in sentences:
        collected.add(list(sentence), numbers)
    return collected.text()


def tell_first_cases(texts: Texts) -> None:
    """Give first words of sentences the case that they nearly always have within sentences. Others get no case."""
    counts = np.zeros((len(_CASES), len(texts.words)), dtype=np.int64)
    for text in texts.learnt.values():
        for case in range(len(_CASES)):
            within = (text.begins == 0) & (text.cases == case)
            counts[case] += np.bincount(text.words[within], minlength=len(texts.words))
    usual = counts.argmax(axis=0).astype(np.int8)
    total = counts.sum(axis=0)
    usual[(total < _FEWEST_TIMES) | (counts.max(axis=0) < _NEARLY_ALWAYS * total)] = UNLABELLED
    for text in (*texts.learnt.values(), *texts.held_out.values()):
        first = text.begins > 0
        text.cases[first] = np.where(text.cases[first] == UNLABELLED, UNLABELLED, usual[text.words[first]])


class _Collected:
    def __init__(self) -> None:
        self.words, self.marks, self.cases, self.begins = array("i"), array("b"), array("b"), array("b")
        self._broken = True

    def break_off(self) -> None:
        """Note that the next sentence does not follow from those before it."""
        self._broken = True

    def add(self, sentence: list[LabelledWord], numbers: dict[str, int]) -> None:
        for word, mark, case, begins in sentence:
            self.words.append(numbers.setdefault(word, len(numbers)))
            self.marks.append(UNLABELLED if mark is None else _MARKS[mark])
            self.cases.append(UNLABELLED if case is None else _CASES[case])
            self.begins.append(2 if self._broken else int(begins))
            self._broken = mark is None

    def text(self) -> LabelledText:
        values = np.array(self.words, dtype=np.int32)
        small = [
            np.frombuffer(part, dtype=np.int8) if part else np.zeros(0, np.int8)
            for part in (self.marks, self.cases, self.begins)
        ]
        return LabelledText(values, *small)


class _SourceReader:
    def __init__(self, numbers: dict[str, int], kept_out: LeakGuard, most_words: int) -> None:
        self._numbers, self._kept_out = numbers, kept_out
        self.learnt, self.held_out = _Collected(), _Collected()
        self.left, self.left_out = most_words, 0

    def read(self, name: str, content: str, share: int, blocks: int) -> None:
        """Read at most `share` words of a file. One in `blocks` blocks of sentences is held out; with 0, none."""
        read = 0
        for number, sentence in enumerate(_sentences(name, content)):
            aside = blocks and number // _BLOCK_SENTENCES % blocks == blocks - 1
            collected = self.held_out if aside else self.learnt
            other = self.learnt if collected is self.held_out else self.held_out
            other.break_off()
            if not sentence:
                collected.break_off()
            elif collected is self.learnt and self._kept_out.holds([word.word for word in sentence]):
                self.left_out += 1
                collected.break_off()
            else:
                collected.add(sentence, self._numbers)
                read += len(sentence)
                if read >= share:
                    break
        self.left -= read
        self.learnt.break_off()
        self.held_out.break_off()


def _sentences(name: str, content: str) -> Iterator[list[LabelledWord]]:
    for paragraph in paragraphs(name, content):
        yield from labelled_sentences(paragraph)


# Turns punctuated text into spoken words with labels: the mark after each word, and its capitals. Does no I/O.


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


# Counts the habits of each word in a text: its usual capitals, and how often each mark stands beside it.

Floats = npt.NDArray[np.float32]

_FEWEST = 3  # a rarer word has no habits
_PRIOR = 2.0  # average words that are added to the counts of each word
_SCALE = 0.25  # the factor of the logarithms


class WordHabits:
    """Counts of words, and of the marks and capitals beside them, in all texts."""

    def __init__(self, texts: Iterable[LabelledText], words: int) -> None:
        self.counts = np.zeros(words, dtype=np.int64)
        columns: list[npt.NDArray[np.int64]] = []
        for text in texts:
            self.counts += np.bincount(text.words, minlength=words)
            before = np.roll(text.marks, 1)
            conditions = [text.marks == number for number in range(1, len(Mark))]
            conditions += [before == number for number in range(1, len(Mark))]
            conditions += [text.cases == number for number in range(1, len(Case))]
            counts = [np.bincount(text.words[places], minlength=words) for places in conditions]
            columns = [old + new for old, new in zip(columns, counts, strict=True)] if columns else counts
        self._seen = np.stack(columns, axis=1)

    def vocabulary(self, words: Sequence[str], allowed: Collection[str], most: int) -> list[int]:
        """Return the numbers of the most frequent words among the allowed ones."""
        order = np.argsort(-self.counts, kind="stable").tolist()
        return [number for number in order if self.counts[number] >= _FEWEST and words[number] in allowed][:most]

    def of(self, words: Sequence[int]) -> Floats:
        """Return the habits of these words [words, habits]: logarithms of how often, relative to the average word."""
        average = self._seen.sum(axis=0) / max(self.counts.sum(), 1) + 1e-6
        shares = (self._seen[words] + _PRIOR * average) / (self.counts[words][:, None] + _PRIOR)
        habits: Floats = (_SCALE * np.log(shares / average)).astype(np.float32)
        return habits
