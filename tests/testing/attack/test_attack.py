"""What of an answer breaks a promise: the attacker must see it, or it finds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.testing.attack.attack import PromiseBroken, RecogniserFailed, at_once, judged
from streamer.testing.attack.raw_connection import Ended


def error(code: str, message: str = "It is so and so.") -> dict[str, Any]:
    return {"type": "error", "code": code, "message": message, "fatal": True}


@pytest.mark.parametrize(
    ("ended", "answer"),
    [
        (Ended([error("bad_json")], 4000), "bad_json"),
        (Ended([{"type": "done"}], 1000), "close 1000"),
        (Ended([], 1002), "close 1002"),
        (Ended([], 3004), "close 3004"),
        (Ended([], None), "cut off"),
    ],
)
def test_right_answers(ended: Ended, answer: str) -> None:
    """They are told in a word."""
    assert judged(ended, b"said") == answer


@pytest.mark.parametrize(
    "ended", [Ended([], 1011), Ended([error("failed", "The service failed")], 1011), Ended([error("internal")], 1000)]
)
def test_a_fault_inside_breaks_a_promise(ended: Ended) -> None:
    """Whether it was said or not."""
    with pytest.raises(PromiseBroken, match="b'said'"):
        judged(ended, b"said")


def test_a_recogniser_that_is_gone() -> None:
    """That is right only while one was killed on purpose, which somebody else knows."""
    with pytest.raises(RecogniserFailed):
        judged(Ended([error("failed", "The recogniser failed (overdue)")], 1011), b"said")


async def test_at_once() -> None:
    """Each input has its answer; who is cut off has one, too."""

    async def act(number: int) -> str:
        if number % 3 == 0:
            raise ConnectionResetError
        return "answered"

    strike = await at_once(7, act)
    assert strike.inputs == 7
    assert strike.answers == {"cut off": 3, "answered": 4}
