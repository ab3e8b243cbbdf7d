"""The counts of hotwords, and the choice of distractors."""

from __future__ import annotations

import torch

from workshop.data.corpus import Utterance
from workshop.search.hotwords import hotword_lists, judged
from workshop.search.trials import EmittedUtterance


def spoken(name: str, text: str) -> EmittedUtterance:
    """Return an utterance of which only the words matter."""
    return EmittedUtterance(torch.zeros(0, 41), Utterance(name, 0, 0, "tests", "nobody", text))


def test_rare_words_are_counted_apart() -> None:
    """Rare words, false insertions and errors in other words are counted separately."""
    said = [spoken("one", "we met quilter there"), spoken("two", "nobody met us")]
    heard = [["we", "met", "quilter", "the", "air"], ["quilter", "met", "us"]]
    result = judged(said, heard, [["quilter"], ["quilter"]])
    assert (result.said, result.recognised, result.inserted) == (1, 1, 1)
    assert (result.others, result.errors) == (6, 3)
    assert judged(said, [["we", "met", "there"], []], [["quilter"], []]).recognised == 0


def test_distractors_are_not_said_and_stay_the_same() -> None:
    """An utterance has its own rare words first, and then always the same others."""
    pool = [f"name{letter}" for letter in "abcdefgh"]
    one = spoken("one", "namea and nameb")
    [first] = hotword_lists([one], {"namea", "nameb", "namec"}, pool, 4)
    assert first[:2] == ["namea", "nameb"]
    assert len(set(first)) == 6
    assert hotword_lists([one], {"namea", "nameb", "namec"}, pool, 4) == [first]
    assert hotword_lists([spoken("two", "nothing")], {"namea"}, pool, 0) == [[]]
