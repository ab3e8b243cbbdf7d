"""A keyword spotter tells each word once, whatever the passages, and does not tell what it heard before a cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.engine.heads.keyword_spotter import (
    KEYWORDS_FILE,
    WINDOW,
    Floats,
    Frames,
    Keyword,
    KeywordNetwork,
    KeywordsError,
    KeywordSpotter,
)
from streamer.engine.heads.passage import Passage

FRAME = 640


def network() -> KeywordNetwork:
    """A network that hears "left" where the first number of a frame is high, and "right" where the second one is."""
    hidden = np.zeros((3 * WINDOW, 2), np.float32)
    hidden[WINDOW - 1, 0] = hidden[2 * WINDOW - 1, 1] = 1  # the last frame of the window
    weights = {
        "silence": np.zeros(2), "phones": 20 * np.eye(2, 3), "phones_bias": np.array([0, 0, 10]), "hidden": hidden,
        "hidden_bias": np.zeros(2), "output": np.array([[0, 9, 0], [0, 0, 9]]), "output_bias": np.array([5.0, 0, 0]),
    }  # fmt: skip
    return KeywordNetwork(("left", "right"), 0.9, {name: each.astype(np.float32) for name, each in weights.items()})


def frames(length: int, **said: int) -> Floats:
    """Frames in which each word is said at one place."""
    found = np.zeros((length, 2), np.float32)
    for word, at in said.items():
        found[at, ("left", "right").index(word)] = 1
    return found


def passage(steps: int, *, run: int = 0, base: int = 0, first: int = 0) -> Passage:
    return Passage(run, base, first, 1, steps, received=base + (first + steps) * FRAME)


def test_any_passages_give_the_same_words() -> None:
    """Words are told with the time after their last frame, at once, in passages of any size."""
    heard = frames(60, left=20, right=41)
    spotter = KeywordSpotter(network(), slots=2)
    [whole] = spotter.listen([Frames(1, passage(60), heard, start=True, end=True)])
    assert [(word.word, word.at_ms) for word in whole] == [("left", 21 * 40), ("right", 42 * 40)]
    found: list[Keyword] = []
    for first, last in ((0, 1), (1, 20), (20, 21), (21, 60)):
        part = Frames(2, passage(last - first, first=first), heard[first:last], start=first == 0, end=last == 60)
        [told] = spotter.listen([part])
        found += told
    assert found == whole
    assert spotter.streams.live == 0


def test_what_is_computed_again_is_not_told_again() -> None:
    """After a cut the audio since then is heard again; only what comes later is told."""
    spotter = KeywordSpotter(network(), slots=1)
    [first] = spotter.listen([Frames(1, passage(40), frames(40, left=30), start=True)])
    [again] = spotter.listen([Frames(1, passage(20, run=1, base=25 * FRAME), frames(20, left=5, right=15))])
    assert [(word.word, word.at_ms) for word in first] == [("left", 31 * 40)]
    assert [(word.word, word.at_ms) for word in again] == [("right", 41 * 40)]


def test_a_word_is_told_once() -> None:
    """A word that several frames show is one word."""
    heard = frames(40)
    heard[10:14, 0] = 1
    [found] = KeywordSpotter(network(), slots=1).listen([Frames(1, passage(40), heard, start=True)])
    assert len(found) == 1


def test_a_missing_passage_silences_only_its_stream() -> None:
    """A stream of which a passage is missing gets no more keywords; another one does."""
    spotter = KeywordSpotter(network(), slots=2)
    spotter.listen([Frames(number, passage(5), frames(5), start=True) for number in (1, 2)])
    told = spotter.listen([Frames(1, passage(5, first=9), frames(5, left=1)),
                           Frames(2, passage(5, first=5), frames(5, left=1))])  # fmt: skip
    assert [len(each) for each in told] == [0, 1]
    assert spotter.listen([Frames(1, passage(5, first=14), frames(5, left=1))]) == [[]]
    assert spotter.streams.live == 1


def test_a_network_survives_its_file(tmp_path: Path) -> None:
    """Its words, its threshold and its numbers; a missing or damaged file is named."""
    network().save(tmp_path)
    loaded = KeywordNetwork.load(tmp_path)
    heard = frames(40, left=30)
    assert (loaded.words, loaded.threshold) == (("left", "right"), 0.9)
    assert np.array_equal(loaded.probabilities(heard), network().probabilities(heard))
    (tmp_path / KEYWORDS_FILE).write_bytes(b"nothing")
    with pytest.raises(KeywordsError, match="does not have a keyword spotter"):
        KeywordNetwork.load(tmp_path)
    with pytest.raises(KeywordsError, match=r"run scripts/train/train_keywords\.py"):
        KeywordNetwork.load(tmp_path / "missing")
