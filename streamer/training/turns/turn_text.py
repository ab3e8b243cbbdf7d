"""Text for the turn model: segments of one to three sentences as spoken words, with a label after each word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.marks import Mark
from streamer.training.data.corpus import CorpusError
from streamer.training.language.text_sources import NOT_TEXT, LeakGuard, paragraphs, source_of
from streamer.training.punctuation.punctuated_text import LabelledWord, labelled_sentences

# In these sources, a line is what somebody said at once, so its end is the end of a turn even without a mark.
_LINES = ("dialogue", "commands", "prompts", "examples", "talk")
# What is known to be read aloud is for measuring only. An encyclopaedia is not what people say.
_LEFT_OUT = ("readings", "encyclopaedia")
# Every HELD_OUT-th paragraph of a file is set aside.
HELD_OUT = 50
LONGEST = 40  # words of a sentence

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentence:
    """The numbers of its words, and the places of words with a comma behind them. `follows`: in the same paragraph."""

    words: Integers
    commas: Integers
    follows: bool


@dataclass
class TurnText:
    """Sentences by source. `words` are those that the numbers stand for."""

    words: list[str] = field(default_factory=list)
    learnt: dict[str, list[Sentence]] = field(default_factory=dict)
    held_out: dict[str, list[Sentence]] = field(default_factory=dict)


def read_turn_text(
    folder: Path, kept_out: LeakGuard, most_words: int, tell: Callable[[str], None] = lambda _: None
) -> TurnText:
    """Read the text files of a folder, at most so many words of each source. Sentences of `kept_out` are dropped."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".txt", ".tsv") and path.name not in NOT_TEXT)
    if not files:
        raise CorpusError(f"{folder} contains no text files: unpack the archives of text there")
    by_source: dict[str, list[tuple[str, Path]]] = {}
    for path in files:
        name = path.relative_to(folder).as_posix()
        by_source.setdefault(source_of(name), []).append((name, path))
    text, numbers = TurnText(), dict[str, int]()
    for source, members in by_source.items():
        if source in _LEFT_OUT:
            continue
        left, learnt, held_out = most_words, text.learnt.setdefault(source, []), text.held_out.setdefault(source, [])
        for index, (name, path) in enumerate(members):
            share = left // (len(members) - index)
            content = path.read_text(encoding="utf-8", errors="replace")
            for number, paragraph in enumerate(paragraphs(name, content)):
                if share <= 0:
                    break
                target = held_out if number % HELD_OUT == HELD_OUT - 1 else learnt
                for sentence in _sentences(paragraph, source, kept_out, numbers):
                    target.append(sentence)
                    share, left = share - len(sentence.words), left - len(sentence.words)
        tell(f"{source}: {len(learnt)} sentences to learn from, {len(held_out)} held out")
    text.words = list(numbers)
    return text


def vocabulary(text: TurnText, size: int) -> list[str]:
    """The most frequent words of what is learnt from."""
    counts: Counter[int] = Counter()
    for sentences in text.learnt.values():
        for sentence in sentences:
            counts.update(sentence.words.tolist())
    return [text.words[number] for number, times in counts.most_common(size) if times > 1]


def _sentences(paragraph: str, source: str, kept_out: LeakGuard, numbers: dict[str, int]) -> Iterator[Sentence]:
    follows = False
    for sentence in labelled_sentences(paragraph):
        if not _whole(sentence, source) or kept_out.holds([word.word for word in sentence]):
            follows = False
            continue
        found = np.array([numbers.setdefault(word.word, len(numbers)) for word in sentence], dtype=np.int64)
        commas = np.array([place for place, word in enumerate(sentence) if word.mark is Mark.COMMA], dtype=np.int64)
        yield Sentence(found, commas[commas < len(found) - 1], follows)
        follows = True


def _whole(sentence: Sequence[LabelledWord], source: str) -> bool:
    """Whether somebody may end a turn with this sentence."""
    if not sentence or len(sentence) > LONGEST:
        return False
    mark = sentence[-1].mark
    return (mark is None and source in _LINES) or (mark is not None and mark.ends_sentence)
