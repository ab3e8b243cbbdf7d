"""Guessed pronunciations, and their memory for each caller."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from streamer.engine.language.letter_to_sound import BEAM, LetterToSound
from streamer.engine.language.pronouncer import CallerMemories, Pronouncer, Ways
from streamer.engine.work.parts import Work, finish
from tests.engine.tiny_language import spelling

WORDS = ["".join(way) for way in itertools.product("abc", repeat=4)]


def ways(word: str) -> Ways:
    return [(word,)]


def test_a_guess_is_made_once_for_each_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same caller's words are not guessed twice; other callers cannot see that they were guessed."""
    asked: list[str] = []
    scoring = LetterToSound.score_in_parts

    def noted(self: LetterToSound, words: Sequence[str], beam: int = BEAM) -> Work[list[list[tuple[Ways, float]]]]:
        asked.extend(words)
        return scoring(self, words, beam)  # type: ignore[return-value]

    monkeypatch.setattr(LetterToSound, "score_in_parts", noted)
    pronouncer = Pronouncer(spelling())
    found = finish(pronouncer.guess(WORDS, "anna"))
    assert found["abab"] == [("a", "b", "a", "b")]
    assert sorted(asked) == WORDS
    assert finish(pronouncer.guess([*WORDS[:5], "cab"], "anna"))["cab"][0] == ("b", "a", "b")
    assert asked[len(WORDS) :] == ["cab"]
    finish(pronouncer.guess(["cab"], "ben"))
    assert asked[-2:] == ["cab", "cab"]


def test_the_work_is_in_small_parts() -> None:
    """A part of the work is one letter of a few words, however many words there are."""
    parts = sum(1 for _ in Pronouncer(spelling()).guess(WORDS, ""))
    assert parts > len(WORDS) / 8 * 5


def test_nobody_flushes_what_another_uses() -> None:
    """A caller with ever new words loses its own words, not those of a caller with fewer."""
    memories = CallerMemories(most_words=100, most_callers=10)
    for number in range(20):
        memories.keep("anna", f"name {number}", ways("n"))
    for number in range(10_000):
        memories.keep("mallory", str(number), ways("x"))
    assert all(memories.recall("anna", f"name {number}") for number in range(20))
    assert sum(memories.recall("mallory", str(number)) is not None for number in range(10_000)) == 80


def test_callers_who_come_once_make_room_for_those_who_return() -> None:
    """New callers, however many, do not displace the words of a caller that has used them again."""
    memories = CallerMemories(most_words=1000, most_callers=10)
    memories.keep("anna", "name", ways("n"))
    assert memories.recall("anna", "name")
    for number in range(10_000):
        memories.keep(f"stranger {number}", "word", ways("x"))
    assert memories.recall("anna", "name")
    assert memories.recall("stranger 9999", "word")
    assert memories.recall("stranger 0", "word") is None
