"""Punctuated text becomes arrays of spoken words with labels and habits."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.engine.text.marks import Case
from workshop.data.corpus import CorpusError
from workshop.language.text_sources import LeakGuard, Reference
from workshop.punctuation.labelled_text import (
    READINGS,
    UNLABELLED,
    LabelledWord,
    WordHabits,
    labelled_sentences,
    number_sentences,
    read_texts,
    tell_first_cases,
)

NOTHING = LeakGuard([])


def folder(tmp_path: Path, **files: str) -> Path:
    """A folder with these text files."""
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content, encoding="utf-8")
    return tmp_path


def test_lines_become_running_text(tmp_path: Path) -> None:
    """Running text has marks, capitals, and the places where sentences and new texts begin."""
    texts = read_texts(folder(tmp_path, web="We met Ann, there. Did you?\nNo end\nYes!\n"), NOTHING, 1000)
    text = texts.learnt["web"]
    assert [texts.words[number] for number in text.words] == [
        "we",
        "met",
        "ann",
        "there",
        "did",
        "you",
        "no",
        "end",
        "yes",
    ]
    assert text.marks.tolist() == [0, 0, 1, 2, 0, 3, 0, UNLABELLED, 2]
    assert text.cases.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert text.begins.tolist() == [2, 0, 0, 0, 1, 0, 1, 0, 2]


def test_what_was_read_aloud_is_not_learnt_from(tmp_path: Path) -> None:
    """Neither its file nor the same sentence elsewhere."""
    read = "it was the best of times and it was the worst"
    files = {"ljspeech_sentences": "One two three.", "web": f"{read.capitalize()}.\nSomething else."}
    texts = read_texts(folder(tmp_path, **files), LeakGuard([Reference("lj", read.split())]), 1000)
    assert len(texts.learnt["web"]) == 2
    assert texts.left_out == 1
    assert READINGS not in texts.learnt
    assert len(texts.held_out[READINGS]) == 3


def test_some_of_each_source_is_held_out(tmp_path: Path) -> None:
    """Blocks of each source are held out, and are not used to learn."""
    lines = [f"This is the sentence {'a' * (number % 50 + 1)} {'b' * (number // 50 + 1)}." for number in range(4800)]
    texts = read_texts(folder(tmp_path, web="\n".join(lines)), NOTHING, 100_000)
    learnt, held_out = texts.learnt["web"], texts.held_out["web"]
    assert len(held_out) == 2 * 60 * 6
    assert len(learnt) + len(held_out) == 4800 * 6


def test_no_source_outweighs_the_others(tmp_path: Path) -> None:
    """At most a fixed number of words of each source is read."""
    texts = read_texts(folder(tmp_path, web="Yes, it is. " * 500, tatoeba="No. " * 50), NOTHING, 300)
    assert len(texts.learnt["web"]) == 300
    assert len(texts.learnt["examples"]) == 50


def test_first_words_have_their_usual_case(tmp_path: Path) -> None:
    """First words get their usual case; without one, they have no label."""
    content = "I saw Ann. You saw Ann. She saw Ann. We met Ann. Ann ran. Then we ran, and then sat. Mostly ran."
    content += " I then ran, then sat, then ran."
    texts = read_texts(folder(tmp_path, web=content), NOTHING, 1000)
    tell_first_cases(texts)
    text = texts.learnt["web"]
    firsts = {
        texts.words[word]: case
        for word, case, begins in zip(text.words, text.cases.tolist(), text.begins, strict=True)
        if begins
    }
    assert (firsts["ann"], firsts["then"], firsts["mostly"]) == (1, 0, UNLABELLED)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    with pytest.raises(CorpusError, match="contains no text files: unpack"):
        read_texts(tmp_path, NOTHING, 10)


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


def test_habits_are_logarithms_of_ratios_to_the_average() -> None:
    """A word that often has a comma after it has a positive one, and an average word nearly zero."""
    numbers: dict[str, int] = {}
    text = number_sentences(labelled_sentences("However, it is. However, we met Bob. However, I saw it. " * 9), numbers)
    words = list(numbers)
    habits = WordHabits([text], len(words))
    found = dict(zip(words, habits.of(range(len(words))), strict=True))
    assert found["however"][0] > 0.2
    assert found["saw"][0] < -0.2
    assert found["it"][1] > 0.1
    assert found["met"][1] < -0.1


def test_the_vocabulary_is_the_most_frequent_words_that_can_be_written() -> None:
    """The vocabulary is in the order of frequency; rare words have no row."""
    numbers: dict[str, int] = {}
    text = number_sentences(labelled_sentences("A b c a b a a b c d."), numbers)
    words = list(numbers)
    habits = WordHabits([text], len(words))
    assert [words[number] for number in habits.vocabulary(words, {"a", "b", "d"}, 5)] == ["a", "b"]
    assert [words[number] for number in habits.vocabulary(words, {"a", "b"}, 1)] == ["a"]
