"""Measures whether refused clients delay the accepted sessions: alternates periods with and without them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streamer.base.text import counted
from workshop.load.live_sessions import HEADS, LagWatch, LiveSession, Period, open_sessions, period

WARM_UP_S = 3.0
GATHER_S = 3.2
RETRY_S = 5  # the pause of a client that was refused without a time to try again
# The bounds.
LATER = 1.5
MOST_LAG_S = 2.0


@dataclass
class Observations:
    """The observations of one run."""

    alone: list[Period] = field(default_factory=list)
    beside: list[Period] = field(default_factory=list)
    attempts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    without_retry: int = 0  # refusals without a time to try again
    let_in: int = 0  # accepted sessions that should have been refused
    ended: Counter[str] = field(default_factory=Counter)  # how the accepted sessions ended

    def ratio(self, part: float) -> float:
        """Return the delay of this quantile of the partials beside refused clients, relative to that without them."""
        return _together(self.beside).quantile(part) / _together(self.alone).quantile(part)


async def run(url: str, audio: bytes, number: int, times: float, seconds: float, rounds: int) -> Observations:
    """Alternate periods without and with refused clients. All have the same sessions."""
    result, lag = Observations(), LagWatch(url)
    sessions = await open_sessions(url, audio, number, GATHER_S)
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(WARM_UP_S)
        for _ in range(rounds):
            for clients, periods in ((0, result.alone), (round(number * (times - 1)), result.beside)):
                trying = [asyncio.create_task(_try(url, audio, result)) for _ in range(clients)]
                since = time.monotonic()
                await asyncio.sleep(seconds)
                periods.append(period(sessions, lag, since, time.monotonic()))
                for task in trying:
                    task.cancel()
                failures = await asyncio.gather(*trying, return_exceptions=True)
                for failure in failures:
                    if not isinstance(failure, asyncio.CancelledError):
                        result.refused[type(failure).__name__] += 1
    finally:
        watching.cancel()
        await asyncio.gather(*(session.end() for session in sessions))
    result.ended.update(session.ended for session in sessions)
    return result


def report(result: Observations) -> str:
    """Return a table with a line for each kind of period, and the ratios."""
    lines = [HEADS, _together(result.alone).line("alone"), _together(result.beside).line("beside the refused")]
    ratios = ", ".join(f"p{part * 100:.0f} {result.ratio(part):.2f}" for part in (0.5, 0.95))
    refusals = ", ".join(f"{code} {number}" for code, number in result.refused.items())
    ends = ", ".join(f"{code} {number}" for code, number in result.ended.items())
    return (
        "\n".join(lines) + f"\n\nlater beside the refused, as a ratio: {ratios}. {result.attempts} attempts, "
        f"refused: {refusals or 'none'}; accepted beyond the limit: {result.let_in}. The sessions ended: {ends}."
    )


def failures(result: Observations) -> Iterator[str]:
    """Yield a sentence for each bound that was exceeded."""
    cut = sum(number for code, number in result.ended.items() if code != "done")
    if cut:
        yield f"{cut} of the accepted sessions ended too early"
    if result.let_in:
        yield f"{counted(result.let_in, 'session')} got in beyond the limit"
    if not result.refused["full"] or set(result.refused) != {"full"}:
        yield "clients got other answers than the refusal `full`"
    if result.without_retry:
        yield f"{counted(result.without_retry, 'refusal')} did not say when to try again"
    furthest = max(each.lag_s for each in (*result.alone, *result.beside))
    if furthest > MOST_LAG_S:
        yield f"a session was {furthest:.1f} s behind"
    for part in (0.5, 0.95):
        if not result.ratio(part) <= LATER:
            yield f"partials came {result.ratio(part):.2f} times as late (p{part * 100:.0f})"


async def _try(url: str, audio: bytes, result: Observations) -> None:
    """Ask for a session again and again, as one client."""
    while True:
        result.attempts += 1
        session = LiveSession()
        refusal = await session.begin(url, audio)
        if refusal is None:
            result.let_in += 1
            await session.end()
            continue
        result.refused[refusal.code] += 1
        result.without_retry += refusal.retry_s is None
        await asyncio.sleep(refusal.retry_s if refusal.retry_s is not None else RETRY_S)


def _together(periods: Sequence[Period]) -> Period:
    delays = [late for each in periods for late in each.delays_s]
    return Period(periods[0].sessions, delays, max(each.lag_s for each in periods))
