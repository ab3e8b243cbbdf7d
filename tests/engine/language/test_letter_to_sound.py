"""Words that no dictionary has are pronounced by their letters, most probable first."""

from __future__ import annotations

from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.language.letter_to_sound import BEGIN, END, Graphone, LetterToSound
from tests.project import BUNDLE

SHIPPED = BUNDLE / "letters.safetensors"

GRAPHONES: list[Graphone] = [BEGIN, END, ("a", ("AE",)), ("a", ("EY",)), ("a", ()), ("b", ("B",)), ("b", ("B", "AE"))]
UNIGRAMS = [0.0, 0.2, 0.2, 0.1, 0.2, 0.2, 0.1]
BIGRAMS = {(0, 3): 0.5, (3, 5): 0.75, (5, 1): 0.25, (5, 4): 0.5}


def step(before: int, graphone: int) -> float:
    """Return the probability by definition: that of the pair, or the back-off to unigrams."""
    own = {last: chance for (first, last), chance in BIGRAMS.items() if first == before}
    spare = (1 - sum(own.values())) / (1 - sum(UNIGRAMS[last] for last in own))
    return own.get(graphone, spare * UNIGRAMS[graphone])


@pytest.fixture
def model() -> LetterToSound:
    """Two letters and pairs of graphones, stored as whole steps of a hundredth of a nat."""
    pairs = [[last for first, last in BIGRAMS if first == graphone] for graphone in range(len(GRAPHONES))]
    left = [
        (1 - sum(BIGRAMS[first, last] for last in own)) / (1 - sum(UNIGRAMS[last] for last in own))
        for first, own in enumerate(pairs)
    ]
    scores = [*(max(chance, 1e-4) for chance in UNIGRAMS), *(BIGRAMS[pair] for pair in sorted(BIGRAMS))]
    scale = [-10.0, 0.001]
    tensors: dict[str, NDArray[Any]] = {
        "graphones": np.array([*range(len(GRAPHONES)), *(last for _, last in sorted(BIGRAMS))], np.uint8),
        "children": np.array([len(GRAPHONES), *(len(own) for own in pairs)], np.uint8),
        "scores": np.array([round((log(score) - scale[0]) / scale[1]) for score in scores], np.uint16),
        "backoffs": np.array([round((log(value) - scale[0]) / scale[1]) for value in [1, *left]], np.uint16),
    }
    return LetterToSound(GRAPHONES, tensors, {"scores": scale, "backoffs": scale, "order": [2]})


def enumerated(word: str) -> dict[tuple[str, ...], float]:
    """Return the probability of every pronunciation, summed over its alignments."""
    ways = [[number for number, (letter, _) in enumerate(GRAPHONES) if letter == wanted] for wanted in word]
    found: dict[tuple[str, ...], float] = {}
    for path in product(*ways):
        chance, before = 1.0, 0
        for graphone in (*path, 1):
            chance *= step(before, graphone)
            before = graphone
        phones = tuple(phone for graphone in path for phone in GRAPHONES[graphone][1])
        found[phones] = found.get(phones, 0.0) + chance
    return found


@pytest.mark.parametrize("word", ["a", "ab", "ba", "bab"])
def test_scores_are_those_of_all_ways_to_write_a_word(model: LetterToSound, word: str) -> None:
    """The beam finds the same as exhaustive search."""
    expected = enumerated(word)
    expected.pop((), None)
    found = model.score(word)
    assert {phones: exp(score) for phones, score in found} == pytest.approx(expected, rel=0.01)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_the_best_come_first_and_no_more_than_asked_for(model: LetterToSound) -> None:
    """`pronounce` returns one pronunciation by default, and at most as many as requested."""
    ranked = sorted(enumerated("ab").items(), key=lambda item: -item[1])
    assert model.pronounce("ab") == [list(ranked[0][0])]
    assert model.pronounce("ab", 3) == [list(phones) for phones, _ in ranked[:3]]


def test_case_accents_and_foreign_signs_do_not_matter(model: LetterToSound) -> None:
    """Unknown letters are skipped; a word without known letters has no pronunciation."""
    assert model.pronounce("ÀB!") == model.pronounce("ab")
    assert model.pronounce("!") == model.pronounce("") == []


def test_the_file_holds_the_whole_model(model: LetterToSound, tmp_path: Path) -> None:
    """A saved model pronounces the same."""
    (tmp_path / "letters").write_bytes(model.to_bytes())
    assert LetterToSound.load(tmp_path / "letters").score("bab") == model.score("bab")


def test_another_file_is_refused_by_name(tmp_path: Path) -> None:
    """A missing or broken file is refused by name."""
    (tmp_path / "broken").write_bytes(b"something else altogether")
    for name in ("missing", "broken"):
        with pytest.raises(ValueError, match=f"{name} is not a letter-to-sound model"):
            LetterToSound.load(tmp_path / name)


def test_the_shipped_model_knows_english_spelling() -> None:
    """The shipped model handles silent letters, digraphs and endings, and is small."""
    letters = LetterToSound.load(SHIPPED)
    assert letters.pronounce("phlight") == [["F", "L", "AY", "T"]]
    assert letters.pronounce("blanked") == [["B", "L", "AE", "NG", "K", "T"]]
    assert letters.pronounce("o'shaw") == [["OW", "SH", "AO"]]
    assert SHIPPED.stat().st_size < 1_500_000
    for word in ("zzyzx", "qqq", "supercalifragilisticexpialidocious", "''x''"):
        assert letters.pronounce(word, 5)
