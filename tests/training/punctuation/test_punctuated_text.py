"""Spoken words with labels, made from punctuated text."""

from __future__ import annotations

import pytest

from streamer.engine.punctuation.marks import Case
from streamer.training.punctuation.punctuated_text import LabelledWord, labelled_sentences


def shown(word: LabelledWord) -> str:
    """A word as it is written; ? stands for an unknown case, and _ for an unknown mark."""
    written = f"{word.word}?" if word.case is None else word.case.written(word.word, word.begins)
    return written + ("_" if word.mark is None else word.mark.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith, of the U.S. Navy, paid $5.10.", "Mister Smith, of the U S Navy, paid five dollars ten."),
        ('"Why?" he asked. "Stop!" she cried.', "Why? He asked. Stop, she cried."),
        ("He is -- no, wait! It's 4:30, isn't it?", "He is, no, wait. It's four thirty, isn't it?"),
        ("I know; NASA's men, at 5 p.m. (or so) ...", "I know, NASA's men, at five p m or so."),
        ("Anglo-Saxon disease , but no.", "Anglo Saxon disease, but no."),
        ("See vol. two. Twenty-one of AT&T", "See vol two. Twenty one of AT and T_"),
        ("10% of it. 1984 was good.", "ten? percent? of? it?. nineteen? eighty? four? was? good?."),
        ("she knew. i knew.", "she? knew? I knew?."),
        ("CHAPTER THE FIRST", "chapter? the? first?_"),
    ],
)
def test_words_have_the_marks_and_capitals_of_the_text(text: str, expected: str) -> None:
    """Words have the marks and capitals of the text, where it has them."""
    found = [word for sentence in labelled_sentences(text) for word in sentence]
    assert " ".join(map(shown, found)) == expected


def test_a_sentence_that_cannot_be_said_leaves_a_gap() -> None:
    """The sentences around it are whole."""
    sentences = list(labelled_sentences("That is good. The B2B deal is not. And this is."))
    assert [len(sentence) for sentence in sentences] == [3, 0, 3]


def test_the_first_person_always_has_a_capital() -> None:
    """The first person has a capital even in a text without capitals."""
    [sentence] = labelled_sentences("then i said i'm here.")
    assert [word.case for word in sentence] == [None, Case.FIRST, None, Case.FIRST, None]
