"""All checks together and their conclusion."""

from __future__ import annotations

import pytest

from streamer.doctor import packages
from streamer.doctor.examination import Examination, usable
from streamer.doctor.finding import FINE, WARNING, WRONG, Finding

WELL, WARNED, BROKEN = (Finding("ffmpeg", state, "said") for state in (FINE, WARNING, WRONG))


def test_only_what_is_wrong_makes_it_unusable() -> None:
    """A warning does not make it unusable."""
    assert usable([WELL, WARNED])
    assert not usable([WELL, BROKEN])


@pytest.mark.parametrize(
    ("light", "quick", "found", "concluded"),
    [
        (False, False, [WELL], "Recordings can be transcribed. 0 warnings."),
        (False, False, [WELL, WARNED], "Recordings can be transcribed. 1 warning."),
        (False, True, [WELL], "No problem was found. 0 warnings."),
        (True, True, [WELL], "Recordings can be transcribed with the service. 0 warnings."),
        (False, False, [WARNED, WARNED, BROKEN], "1 problem, 2 warnings."),
    ],
)
def test_the_conclusion_promises_only_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, light: bool, quick: bool, found: list[Finding], concluded: str
) -> None:
    """Without the trial, the conclusion says nothing about transcribing."""
    monkeypatch.setattr(packages, "is_light", lambda: light)
    assert Examination(quick=quick).conclusion(found) == concluded
