"""Judging how a service answers an attack: which answers are right, and which break a promise."""

from __future__ import annotations

from typing import Any

import pytest

from workshop.attack.attack import PromiseBroken, RecogniserFailed, at_once, judged
from workshop.attack.raw_connection import Ended


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
    """A right answer is summed up in one word."""
    assert judged(ended, b"said") == answer


@pytest.mark.parametrize(
    "ended", [Ended([], 1011), Ended([error("failed", "The service failed")], 1011), Ended([error("internal")], 1000)]
)
def test_a_fault_inside_breaks_a_promise(ended: Ended) -> None:
    """An internal failure breaks a promise, whether the client was told of it or not."""
    with pytest.raises(PromiseBroken, match="b'said'"):
        judged(ended, b"said")


def test_an_echo_is_no_code_of_the_service() -> None:
    """A websocket closes with the code of whoever closed first, so a code of the attacker's own may come back."""
    sent = b"\x88\x82\0\0\0\0" + (4461).to_bytes(2, "big")
    assert judged(Ended([], 4461), sent) == "close 4461"
    assert judged(Ended([], 3333), b"") == "close 3333"
    with pytest.raises(PromiseBroken, match="closed with 4462"):
        judged(Ended([], 4462), sent)


def test_a_recogniser_that_is_gone() -> None:
    """A failed recogniser is an error of its own, because it is right if a process was killed on purpose."""
    with pytest.raises(RecogniserFailed):
        judged(Ended([error("failed", "The recogniser failed (overdue)")], 1011), b"said")


async def test_at_once() -> None:
    """Each input has its answer, and a connection that is cut off counts as an answer."""

    async def act(number: int) -> str:
        if number % 3 == 0:
            raise ConnectionResetError
        return "answered"

    strike = await at_once(7, act)
    assert strike.inputs == 7
    assert strike.answers == {"cut off": 3, "answered": 4}
