"""Texts and pronunciations as units, and the units that a path stands for."""

from __future__ import annotations

from tests.workshop.acoustic.tiny_run import aligned
from workshop.acoustic import units


def test_targets_mark_the_end_of_every_word() -> None:
    """Phones have a boundary after each word; collapsing a path drops blanks and repetitions."""
    names = [units.PHONE_UNITS[unit] for unit in units.phones(aligned("u"))]
    assert names == ["AH", "|", "K", "AE", "T", "|"]
    assert units.collapse([0, 5, 5, 0, 5, 7, 7, 0]) == [5, 5, 7]
    assert [units.CHARACTERS[unit] for unit in units.characters("it's a")] == list("it's a")


def test_errors_are_the_fewest_edits() -> None:
    """Substitutions, insertions and deletions count as one error each."""
    assert units.errors("kitten", "sitting") == 3
    assert units.errors("", "ab") == units.errors("ab", "") == 2
