"""Text is sorted into sources without that of dev, and becomes the words that a reader says."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.workshop.language.text_folder import archive, make_texts
from workshop.language.text_sources import SENTENCE_END, read_texts, read_transcripts, sentences


def test_texts_are_read_by_source_without_dev(tmp_path: Path) -> None:
    """Every file belongs to its source; sentences of dev, and long stretches of them, are left out."""
    speech = make_texts(tmp_path)
    archives = [speech / "old.tar.xz", speech / "new.tar.xz"]
    dev = read_transcripts(speech / "dev.tsv")
    texts = read_texts(archives, speech / "train.tsv", dev)
    assert set(texts.sources) == {"novels", "dialogue", "examples", "web", "transcripts"}
    assert {"quokka", "zebu", "thing"} <= set(texts.words)
    assert not {"zebra", "stay", "forest", "unicorn"} & set(texts.words)
    sentences_read = Counter(
        " ".join(texts.words[number] for number in sentence)
        for ids in texts.sources.values()
        for sentence in np.split(ids, np.flatnonzero(ids == SENTENCE_END) + 1)
    )
    assert not any(" ".join(reference.words) in sentences_read for reference in dev)
    assert texts.left_out >= 2
    free = read_texts(archives, None, dev, share_alike=False)
    assert set(free.sources) == {"novels", "examples", "web"}


def test_names_and_numbers_are_dictated(tmp_path: Path) -> None:
    """Where there are words enough to spell, a fiftieth of the text is made of letters, digits and addresses."""
    words = ["".join(letters) for letters in product("bdfgs", "aei", "lmn", "op", "xy")]
    archive(tmp_path / "text.tar.xz", {"more.txt": "\n".join(" ".join(words) + "." for _ in range(200))})
    texts = read_texts([tmp_path / "text.tar.xz"], None, [])
    dictated, other = texts.sources["dictated"], texts.sources["web"]
    shares = np.count_nonzero(dictated >= 0) / np.count_nonzero(other >= 0)
    assert 0.02 <= shares < 0.025
    said = Counter(texts.words[number] for number in dictated if number != SENTENCE_END)
    assert {"a", "b", "x", "zero", "seven", "my", "number"} <= set(said)
    assert said["b"] > 10 * said["balox"], "words are spelled more often than they are said"
    assert np.array_equal(read_texts([tmp_path / "text.tar.xz"], None, []).sources["dictated"], dictated)


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("\u201cGood night,\u201d he said \u2014 \u2018Sir John!\u2019", ["good night he said sir john"]),
        ("Mr. and Mrs. Hall left. Dr. Who stayed.", ["mister and missus hall left", "doctor who stayed"]),
        ("It's the boys' o'clock, 'tis.", ["it's the boys' o'clock 'tis"]),
        ("In 1904 the 21st came.", ["in nineteen o four the twenty first came"]),
        ("1,250 men of the 1990s", ["one thousand two hundred and fifty men of the nineteen nineties"]),
        ("At 5:40 pm for $15.50 or 3.5%", ["at five forty p m for fifteen dollars fifty or three point five percent"]),
        ("470-231-3030 in the U.S.", ["four seven zero two three one three zero three zero in the u s"]),
        ("A naïve well-known café & 9mm", ["a naive well known cafe and <unk>"]),
        ("Yes! No? Perhaps... He went.", ["yes", "no", "perhaps", "he went"]),
        ("--- ***", []),
    ],
)
def test_text_becomes_what_a_reader_says(written: str, spoken: list[str]) -> None:
    """Signs, numbers and abbreviations become words, and sentences end at the right places."""
    assert [" ".join(words) for words in sentences(written)] == spoken
