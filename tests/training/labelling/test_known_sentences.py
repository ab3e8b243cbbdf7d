"""Looking up the sentence that was read aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.labelling.known_sentences import KnownSentences, read_sentences

SENTENCES = ["the cat sees the dog", "the dog sees the tree", "a quokka sees the dog and the cat", "no two are alike"]


def test_the_sentence_with_most_rare_words_heard_is_nearest() -> None:
    """Frequent words count little, and misrecognised words do no harm."""
    known = KnownSentences([*SENTENCES, SENTENCES[0]])
    assert len(known) == len(SENTENCES)
    assert known.nearest(["the", "quokka", "bees", "the", "dog"], 2)[0] == SENTENCES[2]
    assert known.nearest(["two", "are", "a", "like"], 9)[0] == SENTENCES[3]


def test_of_equal_matches_the_shorter_sentence_is_nearer() -> None:
    """Further words of a sentence, which were not recognised, count against it."""
    assert KnownSentences(["a cat and a quokka", "a cat"]).nearest(["cat"], 2) == ["a cat", "a cat and a quokka"]


def test_pairs_of_neighbouring_words_find_a_sentence_of_frequent_words() -> None:
    """Each word is in too many sentences, but the same two words seldom follow each other."""
    known = KnownSentences(["they have been seen", "have they been seen", "seen they have been"], most_sentences=2)
    assert known.nearest(["have", "they", "seen"], 2) == ["have they been seen"]
    assert known.nearest(["been", "have"], 2) == []


def test_a_word_said_twice_counts_once() -> None:
    """A sentence is not nearer because it repeats a word, and what was asked before does not matter."""
    known = KnownSentences(["well well", "well done"])
    assert [known.nearest(["done", "well", "done"], 1) for _ in range(2)] == [["well done"], ["well done"]]


def test_nothing_is_near_to_unknown_or_too_frequent_words() -> None:
    """Words that are in more sentences than the limit find none."""
    assert KnownSentences(SENTENCES).nearest(["zebra"], 3) == []
    assert KnownSentences(SENTENCES, most_sentences=2).nearest(["the"], 3) == []
    assert KnownSentences([]).nearest(["the"], 3) == []


def test_sentences_are_read_as_they_are_spoken(tmp_path: Path) -> None:
    """A line may have several sentences; numbers become words; short and unwanted sentences are left out."""
    path = tmp_path / "text.txt"
    path.write_text("It was 5 o'clock. Go on! “Nobody saw him.”\nStay with me, please.\n", encoding="utf-8")
    assert list(read_sentences([path], {"stay with me please"})) == ["it was five o'clock", "nobody saw him"]
    with pytest.raises(CorpusError, match="missing"):
        list(read_sentences([tmp_path / "none.txt"]))
