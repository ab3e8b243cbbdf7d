"""Reads punctuated text files into arrays of labelled words, and sets some of each source aside for measuring."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.marks import Case, Mark
from streamer.training.data.corpus import CorpusError
from streamer.training.language.text_sources import NOT_TEXT, LeakGuard, paragraphs, source_of
from streamer.training.punctuation.punctuated_text import LabelledWord, labelled_sentences

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
