"""How late words come."""

from __future__ import annotations

from streamer.evaluate.emission import Emission, Moment
from streamer.evaluate.measures.delay import Delay, delay, summary


def test_a_delay_is_counted_from_the_words_end() -> None:
    """By both clocks; what is shown when all audio was read was only shown because it was over."""
    word = Emission("cat", Moment(900, 950.0), Moment(1200, 1300.0), Moment(2000, 2500.0))
    assert delay(600, word, audio_ms=2000) == Delay(Moment(300, 350.0), Moment(600, 700.0), Moment(1400, 1900.0), False)
    assert delay(600, word, audio_ms=900).at_end


def test_medians_and_percentiles() -> None:
    """By either clock; of nothing there are none."""
    found = [
        Delay(Moment(number, 2.0 * number), Moment(3 * number, 0.0), Moment(10 * number, 0.0), number == 3)
        for number in range(101)
    ]
    spread = summary(found)
    assert spread is not None
    assert (spread.words, spread.at_end) == (101, 1)
    assert (spread.shown, spread.stable, spread.final) == ((50, 90), (150, 270), (500, 900))
    by_wall = summary(found, wall=True)
    assert by_wall is not None
    assert by_wall.shown == (100, 180)
    assert summary([]) is None
