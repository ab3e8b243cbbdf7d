"""Words of bystanders that are missing, late, or from another session are noticed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from workshop.attack.attack import Target
from workshop.attack.bystanders import Bystanders, Witness
from workshop.attack.campaign import AttackReport
from workshop.soak.session_plan import draw_speech, word

DONE = {"type": "done", "n": 9}


def complaints(words: list[str], last: dict[str, Any], code: int | None) -> Witness:
    """Return the complaints about a session of voice 5 with four words that received these words."""
    witness = Witness()
    bystanders = Bystanders("ws://a/", "key", Target("a", 1, "key"), 1, witness)
    told = [{"type": "final", "text": " ".join(words)}, last]
    bystanders._check(5, draw_speech(5, 4, random.Random(1)), told, code, 0.0)
    return witness


OWN = [word(5, index) for index in range(4)]


@pytest.mark.parametrize(
    ("words", "last", "code", "lost", "crossed", "complained"),
    [
        (OWN, DONE, 1000, 0, 0, 0),
        (OWN[:3], DONE, 1000, 1, 0, 1),
        ([*OWN[:3], word(6, 3)], DONE, 1000, 1, 1, 1),
        ([*OWN, OWN[3]], DONE, 1000, 0, 0, 1),
        (OWN, {"type": "lost", "why": "reset"}, None, 0, 0, 1),
        (OWN, {"type": "error", "code": "failed"}, 1011, 0, 0, 1),
    ],
)
def test_words(
    words: list[str], last: dict[str, Any], code: int | None, lost: int, crossed: int, complained: int
) -> None:
    """Lost, crossed and doubled words are found, and so are sessions that end in a wrong way."""
    witness = complaints(words, last, code)
    assert (witness.lost, witness.crossed, len(witness.complaints)) == (lost, crossed, complained)


def test_a_report_of_a_broken_promise() -> None:
    """A broken promise is in both forms of the report."""
    report = AttackReport(1, broken=["the service lied"], witness=complaints(OWN[:1], DONE, 1000))
    assert next(iter(report.complaints())) == "the service lied"
    assert len(report.as_json()["broken"]) == 2
    assert "| promises broken | 2 |" in report.text()
