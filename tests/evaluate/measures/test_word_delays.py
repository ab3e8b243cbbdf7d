"""Delays of words."""

from __future__ import annotations

from streamer.evaluate.measures.word_delays import WordDelay, summarise_delays, word_delay
from streamer.evaluate.word_timing import TimedWord, TimePoint


def test_a_delay_is_counted_from_the_words_end() -> None:
    """Delays have both clocks, and a word shown only after all audio is marked."""
    word = TimedWord("cat", TimePoint(900, 950.0), TimePoint(1200, 1300.0), TimePoint(2000, 2500.0))
    assert word_delay(600, word, audio_ms=2000) == WordDelay(
        TimePoint(300, 350.0), TimePoint(600, 700.0), TimePoint(1400, 1900.0), False
    )
    assert word_delay(600, word, audio_ms=900).at_end


def test_medians_and_percentiles() -> None:
    """The summary has medians and percentiles by either clock, and is None without delays."""
    found = [
        WordDelay(TimePoint(number, 2.0 * number), TimePoint(3 * number, 0.0), TimePoint(10 * number, 0.0), number == 3)
        for number in range(101)
    ]
    spread = summarise_delays(found)
    assert spread is not None
    assert (spread.words, spread.at_end) == (101, 1)
    assert (spread.shown, spread.stable, spread.final) == ((50, 90), (150, 270), (500, 900))
    by_wall = summarise_delays(found, wall=True)
    assert by_wall is not None
    assert by_wall.shown == (100, 180)
    assert summarise_delays([]) is None
