"""Text as a reader writes it becomes the words that were spoken."""

from __future__ import annotations

import pytest

from streamer.engine.reader.spoken import SpokenToken, spoken_tokens, spoken_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", "hello world"),
        ("Mr. O'Brien, Mrs. Smith & Dr. Jones.", "mister o'brien missus smith and doctor jones"),
        ("It\u2019s the dogs' to-night\u2014\u2018tis.", "it's the dogs' to night 'tis"),
        ("In 1985 and 1900 and 1906", "in nineteen eighty five and nineteen hundred and nineteen oh six"),
        ("2001, 2024 and 1,985", "two thousand one twenty twenty four and one thousand nine hundred eighty five"),
        ("the 1st, 22nd and 30th", "the first twenty second and thirtieth"),
        ("the 1980s and '90s", "the nineteen eighties and nineties"),
        ("at 6:30 or 7:05 or 8:00", "at six thirty or seven oh five or eight"),
        ("3.14 and 50%", "three point one four and fifty percent"),
        ("$5, $1, $2.50 and \u00a310", "five dollars one dollar two dollars fifty and ten pounds"),
        ("1,000,000 and 110", "one million and one hundred ten"),
        ("007", "zero zero seven"),
        ("1234567890123456", "one two three four five six seven eight nine zero one two three four five six"),
        ("'quoted' and \"more\" o'", "quoted and more o"),
        ("the U.S. and b2b", "the u s and b two b"),
        ("0", "zero"),
        ("... -- !", ""),
        ("", ""),
    ],
)
def test_words_of_a_text(text: str, words: str) -> None:
    """Figures, titles and signs are spoken, and marks are not."""
    assert " ".join(spoken_words(text)) == words


def test_each_part_of_a_text_has_its_words() -> None:
    """So the words keep what was written for them."""
    assert spoken_tokens("At 6:30, Mr. Hill \u2014 alone.") == [
        SpokenToken("At", ("at",)),
        SpokenToken("6:30,", ("six", "thirty")),
        SpokenToken("Mr.", ("mister",)),
        SpokenToken("Hill", ("hill",)),
        SpokenToken("\u2014", ()),
        SpokenToken("alone.", ("alone",)),
    ]
