"""Measures how often a rule cuts a turn in two, and how soon it ends one: a table of rules on the same turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from streamer.engine.endpointing import EndpointRule
from streamer.engine.turn.turn_rule import PATIENCE
from streamer.engine.turn.turn_watch import Judge
from streamer.training.turns.recorded_turns import RecordedTurn, end_ms

SILENCES_MS = (300, 500, 700, 1000, 1500)


@dataclass(frozen=True)
class RuleFigures:
    """The results of a rule for turns as they were spoken, and for those that have a further pause."""

    name: str
    cut_percent: float
    cut_hesitating_percent: float
    delay_ms_median: float
    delay_ms_p90: float


def rules() -> list[tuple[str, EndpointRule]]:
    """Return the rules to compare: fixed silences, and the end of a turn with each eagerness."""
    fixed = [(f"silence of {silence_ms} ms", _fixed(silence_ms)) for silence_ms in SILENCES_MS]
    return [*fixed, *((f"turn, {name}", EndpointRule(turn=True, eagerness=name)) for name in PATIENCE)]


def figures(name: str, rule: EndpointRule, recorded: Iterable[RecordedTurn], judge: Judge | None) -> RuleFigures:
    """Apply a rule to all turns. Only turns that were not cut have delays."""
    cut: dict[bool, list[bool]] = {False: [], True: []}
    delays = []
    for each in recorded:
        ended = end_ms(each, rule, judge)
        if ended is None:
            continue  # nothing was recognised
        cut[each.turn.hesitates].append(ended < each.turn.end_ms)
        if ended >= each.turn.end_ms:
            delays.append(ended - each.turn.end_ms)
    natural, hesitating = (_percent(cut[kind]) for kind in (False, True))
    delay = np.array(delays or [np.nan])
    return RuleFigures(name, natural, hesitating, float(np.median(delay)), float(np.percentile(delay, 90)))


def table(rows: Sequence[RuleFigures]) -> str:
    """Return a table with a line for each rule."""
    lines = [
        "| end of a segment | turns cut in two | those with a further pause | delay median / 90 % |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.cut_percent:.1f} % | {row.cut_hesitating_percent:.1f} % "
        f"| {row.delay_ms_median:.0f} / {row.delay_ms_p90:.0f} ms |"
        for row in rows
    ]
    return "\n".join(lines)


def _percent(cut: Sequence[bool]) -> float:
    return 100 * sum(cut) / len(cut) if cut else float("nan")


def _fixed(silence_ms: int) -> EndpointRule:
    # A silence below the least of a session is cut nearer to the present, and needs less time without activity.
    short = min(silence_ms, EndpointRule.quiet_ms)
    return EndpointRule(silence_ms, look_back_ms=min(EndpointRule.look_back_ms, short // 2), quiet_ms=short)
