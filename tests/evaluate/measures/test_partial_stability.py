"""How words of partials are counted as shown and changed."""

from __future__ import annotations

from streamer.evaluate.measures.partial_stability import PartialCounts, count_partials
from tests.evaluate.session_events import arrived, final, partial


def test_a_word_that_leaves_its_place_was_changed() -> None:
    """A word that another word or nothing replaces is changed; if it comes back, it is shown again."""
    events = [
        partial("the", 320),
        partial("the cat", 640),
        partial("the car sat", 960),
        partial("the cat sat", 1280),
        partial("the cat", 1600),
        final("the cat ran"),
    ]
    # the, cat, car, sat, cat; of them cat, car and sat did not stay. What only the final has was not shown.
    assert count_partials(arrived(*events)) == PartialCounts(shown=5, changed=3)


def test_what_never_becomes_final_was_changed() -> None:
    """Segments are independent; without a final all words of a segment count as changed."""
    events = [partial("yes", 320), final("yes"), partial("oh no", 640, 1)]
    assert count_partials(arrived(*events)) == PartialCounts(shown=3, changed=2)
    assert count_partials(arrived(final("yes"))) == PartialCounts()


def test_stable_words_must_stay() -> None:
    """Stable words that change or become unstable are counted; unstable words may change."""
    honest = [partial("the cat", 320, stable=3), partial("the car", 640, stable=3), final("the cart")]
    assert count_partials(arrived(*honest)).broken == 0
    changed = [partial("the cat", 320, stable=7), partial("the car", 640, stable=3), final("a car")]
    assert count_partials(arrived(*changed)).broken == 2
    shrunk = [partial("the cat", 320, stable=7), partial("the cat", 640, stable=3), final("the cat")]
    assert count_partials(arrived(*shrunk)).broken == 1


def test_counts_can_be_added() -> None:
    """Counts are added field by field."""
    assert PartialCounts(1, 2, 3) + PartialCounts(10, 20, 30) == PartialCounts(11, 22, 33)
