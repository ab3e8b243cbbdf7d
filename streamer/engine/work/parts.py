"""Work in small parts, so that other streams do not have to wait until all of it is done.

A function that may take long is a generator. It yields after every part, which takes some tenths of a millisecond.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Work = Generator[None, None, Result]


class NotNow(Exception):
    """There is no room or no time for this work now. It may be possible later."""


def finish(work: Work[Result]) -> Result:
    """Do the work without a pause, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
