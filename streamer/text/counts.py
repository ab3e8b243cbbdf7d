"""Counts in sentences: 1 session, but 2 sessions. Pure."""

from __future__ import annotations


def counted(number: int, one: str) -> str:
    """Return a number with its noun: 0 sessions, 1 session, 2 sessions. `one`: the noun in the singular."""
    return f"{number} {noun(number, one)}"


def part_of(number: int, whole: int, one: str) -> str:
    """Return a part of a whole: 1 of 2 sessions, 1 of 1 session. `one`: the noun in the singular."""
    return f"{number} of {counted(whole, one)}"


def noun(number: int, one: str) -> str:
    """Return a noun in the form for this number. All nouns here have a plural with `s`."""
    return one if number == 1 else f"{one}s"
