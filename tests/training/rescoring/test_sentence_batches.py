"""Batches of sentences from several sources."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.language.ngram_counts import END_ID, UNKNOWN_ID
from streamer.training.rescoring import sentence_batches
from streamer.training.rescoring.sentence_batches import BATCH_WORDS, LONGEST, SentenceBatches, renumbered


def numbered(sentences: list[list[int]]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Sentences with their end marks."""
    return np.array([word for sentence in sentences for word in (*sentence, END_ID)], dtype=np.int32)


def test_a_batch_has_sentences_of_one_length() -> None:
    """A batch is filled. Long sentences are cut, rare words are unknown, and empty sentences are left out."""
    sources = {"novels": numbered([[3, 4], [5, 9], [], [6] * 100]), "web": numbered([[7, 8, 3]])}
    lengths = set()
    for batch in itertools.islice(SentenceBatches(sources, 8, 0), 300):
        sentences = {tuple(row) for row in batch.tolist()}
        lengths.add(batch.shape[1])
        assert len(batch) == max(BATCH_WORDS // batch.shape[1], 1)
        assert sentences <= {(3, 4, END_ID), (5, UNKNOWN_ID, END_ID), (7, UNKNOWN_ID, 3, END_ID), (6,) * LONGEST}
    assert lengths == {3, 4, LONGEST}


def test_sources_are_drawn_by_their_shares() -> None:
    """A small source with a share of its own is drawn more often than its length says."""
    sources = {"fiction": numbered([[3] * 9] * 10), "web": numbered([[4] * 9] * 990)}
    batches = SentenceBatches(sources, 5, 0)
    drawn = np.sum([np.bincount(batch.flatten(), minlength=5) for batch in itertools.islice(batches, 200)], axis=0)
    wanted = batches.shares["fiction"] / sum(batches.shares.values())
    assert wanted > 0.1
    assert drawn[3] / (drawn[3] + drawn[4]) == pytest.approx(wanted, abs=0.02)
    chances = batches.chances(5)
    assert float(chances.sum()) == pytest.approx(1.0)
    assert float(chances[3]) == pytest.approx(0.9 * wanted)


def test_the_largest_source_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A very large source gets no larger share than a source with the greatest counted number of words."""
    monkeypatch.setattr(sentence_batches, "LARGEST", 90)
    sources = {"speeches": numbered([[3] * 9] * 990), "web": numbered([[4] * 9] * 10)}
    shares = SentenceBatches(sources, 5, 0).shares
    assert shares["speeches"] == pytest.approx(shares["web"])


def test_no_text_is_refused() -> None:
    """Sources without text are refused, because they give no batch."""
    with pytest.raises(CorpusError, match="no text"):
        SentenceBatches({"web": numbered([[]])}, 5, 0)


def test_texts_get_the_numbers_of_the_language_model() -> None:
    """Words that the language model lacks become the unknown word, and a sentence ends with its mark."""
    found = renumbered(
        {"web": np.array([1, 2, -1], np.int32)}, ["<unk>", "cat", "zebu"], ["<unk>", "<s>", "</s>", "cat"]
    )
    assert found["web"].tolist() == [3, UNKNOWN_ID, END_ID]
