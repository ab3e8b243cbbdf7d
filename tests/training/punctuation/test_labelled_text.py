"""Text files as arrays of labelled words."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.language.text_sources import LeakGuard, Reference
from streamer.training.punctuation.labelled_text import READINGS, UNLABELLED, read_texts, tell_first_cases

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
