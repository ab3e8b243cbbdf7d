"""The frames of given words in a segment."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.language.lexicon import Lexicon
from streamer.engine.reader.alignment import MOST_WAYS, Aligner, Units

UNITS = ["<blank>", "|", "a", "b", "c"]
BLANK, BOUNDARY, A, B, C = range(5)
WAYS: dict[str, list[Units]] = {
    "aa": [(A, A)],
    "ab": [(A, B), (B,)],
    "c": [(C,)],
    "abc": [(A, B, C), (A, C)],
    "bcb": [(B, C, B), (B, B)],
}
WORDS = [*WAYS, "mute"]  # no pronunciation leads to the last one


class Letters:
    """Pronounces words of a, b and c as they are written, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def pronounce(self, word: str, number: int = 1) -> list[list[str]]:
        self.asked.append(word)
        return [[letter for letter in word if letter in "abc"], [letter for letter in word[::-1] if letter in "abc"]][
            :number
        ]


def aligner(ways: dict[str, list[Units]] | None = None, letters: Letters | None = None) -> Aligner:
    ways = WAYS if ways is None else ways
    words = [*ways, "mute"]
    entries = [(words.index(word), way) for word, own in ways.items() for way in own]
    return Aligner(Lexicon.build(entries, np.zeros(len(words))), words, UNITS, letters)  # type: ignore[arg-type]


def heard(units: Sequence[int], sure: float = 0.9) -> NDArray[np.float32]:
    """Log-probabilities in which one unit of each frame is heard."""
    rows = np.full((len(units), len(UNITS)), math.log((1 - sure) / (len(UNITS) - 1)), np.float32)
    rows[range(len(units)), list(units)] = math.log(sure)
    return rows


def best_score(ways: Sequence[Sequence[Units]], rows: NDArray[np.float32]) -> float:
    """The score of the best path by definition, for each choice of pronunciations."""
    pause = np.logaddexp(rows[:, BLANK], rows[:, BOUNDARY])
    best = -math.inf
    for choice in itertools.product(*(own for own in ways if own)):
        line: list[tuple[NDArray[np.float32], bool]] = [(pause, False)]  # scores, and whether it must be there
        for way in choice:
            for place, unit in enumerate(way):
                if place:
                    line.append((rows[:, BLANK], unit == way[place - 1]))
                line.append((rows[:, unit], True))
            line.append((pause, False))
        best = max(best, _best_path(line))
    return best


def _best_path(line: Sequence[tuple[NDArray[np.float32], bool]]) -> float:
    frames = len(line[0][0])
    # The best score of a path that has used the first parts of the line for the first frames, and is in the last part.
    scores = {(-1, 0): 0.0}
    for part, (own, _) in enumerate(line):
        for frame in range(frames):
            before = [scores.get((part, frame), -math.inf)]
            for other in range(part - 1, -2, -1):
                before.append(scores.get((other, frame), -math.inf))
                if other >= 0 and line[other][1]:
                    break
            scores[part, frame + 1] = max(before) + float(own[frame])
    ends = [len(line) - 1]
    while not line[ends[-1]][1] and ends[-1] > 0:
        ends.append(ends[-1] - 1)
    return max(scores.get((part, frames), -math.inf) for part in ends)


@pytest.mark.parametrize("seed", range(40))
def test_the_path_is_the_best_one(seed: int) -> None:
    """The score is that of the best path over all pronunciations, and words are in order and inside the segment."""
    dice, values = random.Random(seed), np.random.default_rng(seed)
    words = dice.choices(list(WAYS), k=dice.randint(1, 5))
    rows = values.normal(size=(dice.randint(1, 14), len(UNITS))) * 3
    rows = (rows - np.log(np.exp(rows).sum(1, keepdims=True))).astype(np.float32)
    found = aligner().align(words, rows)
    expected = best_score([WAYS[word] for word in words], rows)
    if found is None:
        assert expected == -math.inf
        return
    assert found.score * len(rows) == pytest.approx(expected, abs=1e-3)
    ends = [0]
    for word in found.words:
        assert ends[-1] <= word.start < word.end <= len(rows)
        assert 0 < word.posterior <= 1
        ends.append(word.end)


def test_words_have_the_frames_in_which_they_were_heard() -> None:
    """A word goes from its first phone to its last one; blanks and boundaries around it are pauses."""
    rows = heard([BLANK, A, BLANK, B, BOUNDARY, BLANK, C, C, BLANK])
    found = aligner().align(["ab", "c"], rows)
    assert found is not None
    assert [(word.start, word.end) for word in found.words] == [(1, 4), (6, 8)]
    assert [word.posterior for word in found.words] == pytest.approx([0.9, 0.9])
    assert found.score == pytest.approx(math.log(0.9), abs=0.1)


def test_the_pronunciation_that_was_heard_is_taken() -> None:
    """Each word takes the way that fits best."""
    found = aligner().align(["ab", "ab"], heard([B, BOUNDARY, A, B]))
    assert found is not None
    assert [(word.start, word.end) for word in found.words] == [(0, 1), (2, 4)]


def test_equal_phones_need_a_blank_between_them() -> None:
    """Two frames of a phone are one phone; with a blank between them they are two."""
    assert aligner().align(["aa"], heard([A, A])) is None
    found = aligner().align(["aa"], heard([A, BLANK, A]))
    assert found is not None
    assert (found.words[0].start, found.words[0].end) == (0, 3)


def test_equal_words_in_a_row() -> None:
    """A word that is said again has frames of its own."""
    found = aligner().align(["c", "c", "c"], heard([C, BOUNDARY, C, BLANK, C]))
    assert found is not None
    assert [word.start for word in found.words] == [0, 2, 4]


@pytest.mark.parametrize(
    ("words", "frames"), [([], 5), (["c"], 0), (["abc", "abc"], 3), (["c"] * 200, 20), (["bcb"], 1)]
)
def test_words_that_do_not_fit(words: list[str], frames: int) -> None:
    """There is no alignment without words, without frames, or if the words have more phones than the segment frames."""
    assert aligner().align(words, heard([C] * frames)) is None


def test_words_that_nobody_can_pronounce_are_where_the_pause_is() -> None:
    """They cover no frame, and their posterior is 0. The other words have theirs."""
    rows = heard([BLANK, C, BOUNDARY, BLANK, B])
    found = aligner().align(["mute", "c", "\u4e2d", "mute", "ab"], rows)
    assert found is not None
    frames = [(word.start, word.end, word.posterior > 0) for word in found.words]
    assert frames == [(0, 0, False), (1, 2, True), (2, 2, False), (2, 2, False), (4, 5, True)]
    alone = aligner().align(["mute"], rows)
    assert alone is not None
    assert [(word.start, word.end) for word in alone.words] == [(0, 0)]
    assert alone.score < found.score


def test_unknown_words_are_pronounced_by_their_letters_once() -> None:
    """A word that the lexicon lacks has guesses, which are kept, because a line is aligned many times."""
    letters = Letters()
    one = aligner(letters=letters)
    assert one.ways("cab") == [(C, A, B), (B, A, C)]
    assert one.ways("xyz") == []
    for _ in range(3):
        found = one.align(["ab", "cab"], heard([A, B, BOUNDARY, C, A, B]))
        assert found is not None
        assert [(word.start, word.end) for word in found.words] == [(0, 2), (3, 6)]
    assert letters.asked == ["cab", "xyz"]
    assert one.knows("ab")
    assert not one.knows("cab")


def test_a_word_has_a_bounded_number_of_ways() -> None:
    """Of a word with very many pronunciations, a few are compared, each once."""
    many = [way for count in (1, 2) for way in itertools.product((A, B, C), repeat=count)]
    ways = aligner({"any": many}).ways("any")
    assert len(ways) == len(set(ways)) == MOST_WAYS
    assert set(ways) <= set(many)


def test_the_loop_is_there_before_the_first_segment() -> None:
    """Compiling it, or reading it from disk, takes a quarter of a second or more, for which all streams would wait."""
    program = """
import numpy as np
from streamer.engine.reader.alignment import Aligner
from streamer.engine.reader.alignment_loops import best_path
from tests.engine.reader.test_reader_pass_streams import SpelledLetters, spelled, PHONE_UNITS

lexicon, words = spelled()
aligner = Aligner(lexicon, words, PHONE_UNITS, SpelledLetters())
ready = len(best_path.signatures)
assert aligner.align(["bag", "head"], np.full((60, len(PHONE_UNITS)), -1.0, np.float32)) is not None
print(ready, len(best_path.signatures))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]
