"""The picture of a load measurement."""

from __future__ import annotations

from xml.etree import ElementTree

from streamer.commands.traffic.picture import draw
from streamer.commands.traffic.results import Delay, Level, Work

SVG = "{http://www.w3.org/2000/svg}"


def level(sessions: int, seconds: float) -> Level:
    """A level in which the last words took this long."""
    found = Level(sessions, whole=True, audio_s=10.0)
    found.delays[Delay.LAST] += [seconds]
    found.delays[Delay.WORD] += [seconds / 2]
    found.work = {"bridge": Work(0.1 * sessions, 80.0, 1), "model": Work(0.3, 200.0, 1)}
    return found


def words(picture: str) -> list[str]:
    """All text in a picture, which must be well-formed."""
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_curves_and_knee() -> None:
    """Every curve has its name, every level a point, and the knee a line with its number."""
    picture = draw([level(2, 0.1), level(4, 0.3), level(8, 0.7)], "streamer serve <here>")
    told = words(picture)
    assert told[0] == "streamer serve <here>"
    assert {"last words, 95 %", "words, 95 %", "the service", "bridge", "model", "knee: 6 sessions"} <= set(told)
    assert "partials, 95 %" not in told
    points = [each.get("class") for each in ElementTree.fromstring(picture).iter(f"{SVG}circle")]
    assert len(points) == 5 * 3


def test_a_level_that_was_interrupted_has_no_point() -> None:
    """Only levels that were measured to their end are drawn."""
    cut = level(4, 9.0)
    cut.whole = False
    assert "4" not in words(draw([level(2, 0.1), cut], ""))


def test_nothing_measured() -> None:
    """Without levels there is still a picture."""
    assert words(draw([], "nothing"))[0] == "nothing"
