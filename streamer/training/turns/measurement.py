"""How often a rule cuts a turn in two, and how soon it ends one: a table of rules on the same recorded turns."""

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
    """What a rule does with turns as they were spoken, and with those that have a further pause."""

    name: str
    cut_percent: float
    cut_hesitating_percent: float
    delay_ms_median: float
    delay_ms_p90: float


def rules() -> list[tuple[str, EndpointRule]]:
    """The rules to compare: fixed silences, and the end of a turn with each eagerness."""
    fixed = [(f"silence of {silence_ms} ms", _fixed(silence_ms)) for silence_ms in SILENCES_MS]
    return [*fixed, *((f"turn, {name}", EndpointRule(turn=True, eagerness=name)) for name in PATIENCE)]


def figures(name: str, rule: EndpointRule, recorded: Iterable[RecordedTurn], judge: Judge | None) -> RuleFigures:
    """Apply a rule to all turns. Delays are those of turns that were not cut."""
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
    found = np.array(delays or [np.nan])
    return RuleFigures(name, natural, hesitating, float(np.median(found)), float(np.percentile(found, 90)))


def table(rows: Sequence[RuleFigures]) -> str:
    """A table with a line for each rule."""
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
    # Silences below what a session may ask for are cut nearer to the present, and need less time without activity.
    short = min(silence_ms, EndpointRule.quiet_ms)
    return EndpointRule(silence_ms, look_back_ms=min(EndpointRule.look_back_ms, short // 2), quiet_ms=short)
