"""Written text becomes the words that a reader says."""

from __future__ import annotations

import pytest

from streamer.training.language.spoken_text import sentences


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
