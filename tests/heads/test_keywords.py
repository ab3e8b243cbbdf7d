"""A keyword spotter reports each word once in any passages, and does not repeat words from before a cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from streamer.heads.keywords import (
    KEYWORDS_FILE,
    WINDOW,
    Floats,
    Frames,
    Keyword,
    KeywordNetwork,
    KeywordPaths,
    KeywordsError,
    KeywordSpotter,
)
from streamer.heads.passage import Passage
from tests.heads.keyword_networks import with_equal_layers
from workshop.keywords.measurement import errors, with_thresholds
from workshop.keywords.training import Spoken, SpokenKeyword, candidates, train, untrained

FRAME = 640
LEFT, RIGHT = 2, 3  # units, after the blank and the boundary


def network(threshold: float = 0.9, frame_samples: int = FRAME) -> KeywordNetwork:
    """Return a network that finds "left" where the first number of a frame is high, and "right" where the second is.

    Otherwise it hears a boundary between words, so a word ends with the next frame.
    """
    phones, bias = 40 * np.eye(2, 4, k=2), [0, 20, 0, 0]
    pronunciations = ((0, (LEFT,)), (1, (RIGHT,)))
    sure = {"threshold": threshold, "doubt": 5.0}
    return with_equal_layers(("left", "right"), pronunciations, phones, bias, **sure, frame_samples=frame_samples)


def frames(length: int, **said: int) -> Floats:
    """Return frames in which each word is said at one place."""
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
    assert [(word.word, word.at_ms) for word in whole] == [("left", 22 * 40), ("right", 43 * 40)]
    found: list[Keyword] = []
    for first, last in ((0, 1), (1, 20), (20, 21), (21, 60)):
        part = Frames(2, passage(last - first, first=first), heard[first:last], start=first == 0, end=last == 60)
        [told] = spotter.listen([part])
        found += told
    assert found == whole
    assert spotter.streams.live == 0


def test_times_are_those_of_the_frames(tmp_path: Path) -> None:
    """A network that learnt from an encoder with frames of 48 ms tells times in these, also from its file."""
    network(frame_samples=768).save(tmp_path)
    part = Passage(step=1, steps=60, base=1600, received=1600 + 60 * 768)
    for each in (network(frame_samples=768), KeywordNetwork.load(tmp_path)):
        [found] = KeywordSpotter(each, slots=1).listen([Frames(1, part, frames(60, left=20), start=True)])
        assert [word.at_ms for word in found] == [100 + 22 * 48]


def test_a_file_that_does_not_name_its_frames(tmp_path: Path) -> None:
    """It was made for frames of 40 ms, as all were before."""
    network(frame_samples=768).save(tmp_path)
    path = tmp_path / KEYWORDS_FILE
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    del metadata["frame_samples"]
    save_file(load_file(path), path, metadata)
    assert KeywordNetwork.load(tmp_path).frame_samples == FRAME


def test_what_is_computed_again_is_not_told_again() -> None:
    """After a cut, audio is computed again; only words that end later are reported."""
    spotter = KeywordSpotter(network(), slots=1)
    [first] = spotter.listen([Frames(1, passage(40), frames(40, left=30), start=True)])
    [again] = spotter.listen([Frames(1, passage(20, run=1, base=25 * FRAME), frames(20, left=5, right=15))])
    assert [(word.word, word.at_ms) for word in first] == [("left", 32 * 40)]
    assert [(word.word, word.at_ms) for word in again] == [("right", 42 * 40)]


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
    told = spotter.listen(
        [Frames(1, passage(5, first=9), frames(5, left=1)), Frames(2, passage(5, first=5), frames(5, left=1))]
    )
    assert [len(each) for each in told] == [0, 1]
    assert spotter.listen([Frames(1, passage(5, first=14), frames(5, left=1))]) == [[]]
    assert spotter.streams.live == 1


def test_a_network_survives_its_file(tmp_path: Path) -> None:
    """A network that was saved and loaded is the same; a missing or damaged file is named in the error."""
    network().save(tmp_path)
    loaded = KeywordNetwork.load(tmp_path)
    heard = frames(40, left=30)
    assert (loaded.words, loaded.pronunciations) == (("left", "right"), ((0, (LEFT,)), (1, (RIGHT,))))
    assert np.array_equal(loaded.thresholds, network().thresholds)
    scores = np.zeros((len(heard) - WINDOW + 1, 2), np.float32)
    assert np.array_equal(loaded.probabilities(heard, scores), network().probabilities(heard, scores))
    (tmp_path / KEYWORDS_FILE).write_bytes(b"nothing")
    with pytest.raises(KeywordsError, match="does not have a keyword spotter"):
        KeywordNetwork.load(tmp_path)
    with pytest.raises(KeywordsError, match=r"run scripts/train/train_keywords\.py"):
        KeywordNetwork.load(tmp_path / "missing")


def test_the_score_of_a_path() -> None:
    """The score is that of the likeliest path of CTC, with blanks, a doubled phone and two pronunciations of a word."""
    paths = KeywordPaths(((0, (2, 2)), (0, (3,))), 1)

    def score(*told: int) -> float:
        shares = np.full((1, len(told), 4), 0.001, np.float32)
        shares[0, np.arange(len(told)), told] = 0.997
        _, scores = paths.follow(paths.begin(), shares)
        return float(scores[0, -1, 0])

    for exact in ((1, 2, 0, 2, 1), (2, 0, 0, 2, 0, 1), (0, 1, 1, 2, 2, 0, 2, 1), (1, 3, 1), (2, 1, 3, 0, 1)):
        assert score(*exact) == pytest.approx(0, abs=1e-4)
    one_wrong = np.log(0.001 / 0.997)
    # Without a blank between them, two equal phones are one; without a boundary, the word is not over.
    for wrong in ((1, 2, 2, 2, 1), (1, 3, 0), (1, 2, 0, 3, 1)):
        assert score(*wrong) == pytest.approx(one_wrong, abs=0.01)


def spoken(*words: tuple[str, int], length: int = 60) -> Spoken:
    """Return an utterance with words that end in these frames."""
    found = np.zeros((length, 2), np.float16)
    for word, at in words:
        found[at, ("left", "right").index(word)] = 1
    return Spoken(found, tuple(SpokenKeyword(("left", "right").index(word), at) for word, at in words), FRAME)


@pytest.mark.parametrize("frame", [FRAME, 768])
def test_misses_and_false_alarms(frame: int) -> None:
    """A word that was said and told counts once; one that was not said, or is told far from its place, is false."""
    silent, heard = spoken(), spoken(("left", 30), ("right", 45))
    wrong = Spoken(spoken(("left", 150), ("right", 170), length=180).frames, (SpokenKeyword(0, 5),), FRAME)
    said = [replace(each, frame_samples=frame) for each in (silent, heard, wrong)]
    found = errors(network(frame_samples=frame), said)
    assert (found.said, found.detected, found.false) == (
        {"left": 2, "right": 1}, {"left": 1, "right": 1}, {"left": 1, "right": 1},
    )  # fmt: skip
    assert found.missed == pytest.approx(1 / 3)
    assert found.false_an_hour == pytest.approx(2 / (300 * frame / 16_000 / 3600))
    assert (found + found).false_an_hour == pytest.approx(found.false_an_hour)


def test_thresholds_of_each_word() -> None:
    """A word with many false alarms gets a higher threshold, and the threshold of the other word stays."""
    said = [spoken(("left", 30)), spoken(("right", 30))]
    faint = spoken(("right", 30))
    lures = [Spoken(np.float16(0.45) * faint.frames, (), FRAME) for _ in range(20)]
    chosen = with_thresholds(network(0.01), [*said, *lures], most_false=1.0)
    assert chosen.thresholds[0] < chosen.thresholds[1]
    found = errors(chosen, [*said, *lures])
    assert (sum(found.detected.values()), sum(found.false.values())) == (2, 0)


def test_what_sounds_alike_is_told_apart() -> None:
    """The trained network tells two words with the same phones by what else is in the frames, as numpy and torch do."""
    torch.manual_seed(0)
    dice = np.random.default_rng(0)
    layer = torch.nn.Linear(3, 4)
    layer.weight.data = torch.tensor([[0.0, 0, 0], [0, 0, 0], [40, 0, 0], [0, 40, 0]])
    layer.bias.data = torch.tensor([0.0, 20, 0, 0])

    def utterance(*, right: bool) -> Spoken:
        found = np.zeros((40, 3), np.float16)
        place = int(dice.integers(28, 34))
        found[place, 0] = 1
        found[place - 3 : place, 2] = 2.0 if right else -2.0
        return Spoken(found, (SpokenKeyword(0, place),) if right else (), FRAME)

    material = [utterance(right=number % 2 == 0) for number in range(60)]
    before = untrained(("left",), ((0, (LEFT,)),), layer, material)
    after = train(before, material[:40], 60, 1, lambda _: None)
    found = errors(replace(after, thresholds=np.array([0.5], np.float32)), material[40:])
    assert (found.missed, sum(found.false.values())) == (0, 0)
    assert len(candidates(before, material).words) >= 60
