"""Counts in sentences: 1 session, but 2 sessions. Pure."""

from __future__ import annotations


def counted(number: int, one: str) -> str:
    """A number of things: 0 sessions, 1 session, 2 sessions. `one`: what one of them is called."""
    return f"{number} {noun(number, one)}"


def part_of(number: int, whole: int, one: str) -> str:
    """How many of all things: 1 of 2 sessions, 1 of 1 session. `one`: what one of them is called."""
    return f"{number} of {counted(whole, one)}"


def noun(number: int, one: str) -> str:
    """What so many things are called. A plural is made by `s`, as all that is counted here makes it."""
    return one if number == 1 else f"{one}s"
