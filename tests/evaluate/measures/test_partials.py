"""What became of words that partials showed."""

from __future__ import annotations

from streamer.evaluate.measures.partials import Showings, showings
from tests.evaluate.events import arrived, final, partial


def test_a_word_that_leaves_its_place_was_changed() -> None:
    """For another one, or for nothing, in a partial or in the final; if it comes back it is shown again."""
    events = [
        partial("the", 320),
        partial("the cat", 640),
        partial("the car sat", 960),
        partial("the cat sat", 1280),
        partial("the cat", 1600),
        final("the cat ran"),
    ]
    # the, cat, car, sat, cat; of them cat, car and sat did not stay. What only the final has was not shown.
    assert showings(arrived(*events)) == Showings(shown=5, changed=3)


def test_what_never_becomes_final_was_changed() -> None:
    """Segments count for themselves; one that is left without a final takes back all its words."""
    events = [partial("yes", 320), final("yes"), partial("oh no", 640, 1)]
    assert showings(arrived(*events)) == Showings(shown=3, changed=2)
    assert showings(arrived(final("yes"))) == Showings()


def test_stable_words_must_stay() -> None:
    """Those that are changed, or called unstable again, are counted; what is unstable may do as it likes."""
    honest = [partial("the cat", 320, stable=3), partial("the car", 640, stable=3), final("the cart")]
    assert showings(arrived(*honest)).broken == 0
    changed = [partial("the cat", 320, stable=7), partial("the car", 640, stable=3), final("a car")]
    assert showings(arrived(*changed)).broken == 2
    shrunk = [partial("the cat", 320, stable=7), partial("the cat", 640, stable=3), final("the cat")]
    assert showings(arrived(*shrunk)).broken == 1


def test_counts_can_be_added() -> None:
    """Each by itself."""
    assert Showings(1, 2, 3) + Showings(10, 20, 30) == Showings(11, 22, 33)
