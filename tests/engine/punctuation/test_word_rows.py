"""The rows of words in the table of their vectors."""

from __future__ import annotations

from streamer.engine.punctuation.word_rows import AFFIXES, WordRows


def test_known_words_have_rows_of_their_own() -> None:
    """Known words have different rows, and none has the row of an unknown word."""
    rows = WordRows(["walk", "walked", "talked"], 50)
    own = [rows.of(word)[0] for word in ("walk", "walked", "talked")]
    assert sorted({*own, rows.of("unheard")[0]}) == [0, *sorted(own)]


def test_words_with_the_same_ending_share_a_row() -> None:
    """Words with the same beginning or ending share a row."""
    rows = WordRows([], 5000)
    assert set(rows.of("walking")) & set(rows.of("talking")) - {0}
    assert not set(rows.of("walking")) & set(rows.of("houses")) - {0}


def test_all_rows_are_within_the_table() -> None:
    """The rows of all words, even of odd ones, are within the table."""
    rows = WordRows(["a", "b"], 7)
    for word in ("", "a", "ab", "naïve", "x" * 1000, "'"):
        found = rows.of(word)
        assert len(found) == 1 + AFFIXES
        assert max(found) < len(rows)
        assert min(found[1:]) > 2
