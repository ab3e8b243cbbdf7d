"""Says what a fleet of bridges and Tritons takes, and what the loss of a zone does to its sessions.

    python scripts/service/soak.py network --every 0 --minutes 1 --sessions 20 --folder build/few
    python scripts/service/soak.py network --every 0 --minutes 1 --sessions 80 --folder build/many
    python scripts/measure/fleet.py build/few/report.json build/many/report.json

A small model of discrete events: sessions begin and end, each at the bridge that has the fewest; a zone is lost with
its bridges and Tritons; clients notice, dial again with growing pauses, and their audio is recognised again. All costs
are those of the runs without faults that are given. Two of them, with different numbers of sessions at a time, show
what a process takes by itself and what each of its sessions adds. Give `--store` to these runs for requests to a store.

`--against REPORT` predicts another run of `soak.py network` from its settings alone, and compares: the exit status is 0
only if every figure is within `--within` percent. If that run had faults, `--faults REPORT` is a third run, from which
the model takes what a fault costs: sessions last longer, and audio comes again.

The recogniser of all runs is the exact model of the tests. For a fleet with another one, give `--recogniser-ms`: the
processor time for a second of a session, which `streamer load` measures.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

Taken: TypeAlias = Mapping[str, object]
BRIDGE, TRITON, BALANCER, STORE = "bridge", "Triton", "balancer", "store"
KINDS = (BRIDGE, TRITON, BALANCER, STORE)
# The waves of `soak.py network`.
WAVE_S, WAVE, LOOK_S = 45.0, 0.6, 0.1
# How the client returns: the pauses between its attempts double from the first to the longest one.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
OVERDUE_S = 5.0  # an answer of a Triton, at the earliest
BEFORE_S, AFTER_S = 30.0, 90.0  # simulated around the loss of a zone
MEGABIT, MEGABYTE = 1e6 / 8, 1e6


class FleetError(Exception):
    """The model cannot be made from these runs."""


def main() -> int:
    """Print what the model says. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("measured", nargs="+", type=Path, metavar="REPORT", help="reports of runs of `soak.py network` without faults")
    add("--against", type=Path, metavar="REPORT", help="a run to predict")
    add("--faults", type=Path, metavar="REPORT", help="another run, with faults: what a fault costs")
    add("--within", type=float, default=20.0, metavar="PERCENT", help="how near a prediction must be (20)")
    add("--sessions", default="1000,10000,100000", metavar="N,N…", help="live sessions (1000,10000,100000)")
    add("--zones", type=int, default=3, help="the zones over which all kinds of nodes are spread (3)")
    add("--cores", type=int, default=8, help="cores of a Triton and of a balancer; a bridge uses one (8)")
    add("--most-use", type=float, default=0.8, help="the most of a core that is used while a zone is lost (0.8)")
    add("--recogniser-ms", type=float, metavar="MS", help="of a core for a second of a session (as in the runs)")
    add("--minutes", type=float, default=5.0, help="the mean length of a session (5)")
    add(
        "--notice", type=float, default=10.0, metavar="S", help="until a balancer closes what leads to a lost node (10)"
    )
    add("--behind", type=float, default=5.0, metavar="S", help="audio without a final, which is recognised again (5)")
    add("--opening", type=float, default=1.0, metavar="S", help="what opening a session costs, in its seconds (1)")
    add("--seed", type=int, default=1, help="the seed of all random choices (1)")
    options = parser.parse_args()
    try:
        costs = Costs.of([_taken(path) for path in options.measured])
        if options.against is not None:
            return _compare(costs, options)
        if options.zones < 2:
            raise FleetError("with one zone nothing is left when it is lost: give --zones 2 or more")
        plan = Plan.of(costs, options)
        fleets = [Fleet(plan, int(number), options.seed) for number in options.sessions.split(",")]
    except (FleetError, OSError) as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    print(_table(fleets))
    return 0


# What was measured.


@dataclass(frozen=True)
class Line:
    """What a process takes by itself, and what each session adds."""

    base: float
    slope: float

    def at(self, sessions: float) -> float:
        """Return what a process with so many sessions takes."""
        return self.base + self.slope * sessions

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]]) -> Line:
        """Return the line that is nearest to these points, and never below 0."""
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
        slope = max(0.0, min(slope, mean_y / mean_x if mean_x else slope))
        return cls(mean_y - slope * mean_x, slope)


@dataclass(frozen=True)
class Costs:
    """What the nodes take for a second, of each kind by itself."""

    cores: Mapping[str, Line]
    memory_mb: Mapping[str, Line]
    bytes: Mapping[str, Line]  # on the link to it
    packets: Mapping[str, Line]
    requests: Line  # to the store, of a bridge
    seconds_of_word: float  # of a session, for each of its words

    @classmethod
    def of(cls, runs: Sequence[Taken]) -> Costs:
        """Return the costs of these runs. Raise FleetError if they are not enough."""
        if len({_number(run, "sessions") for run in runs}) < 2:
            raise FleetError("give two runs with different numbers of sessions at a time")
        if any(_number(run, "settings", "every") for run in runs):
            raise FleetError("the costs must be those of runs without faults (--every 0)")

        def lines(name: str, over_time: bool) -> dict[str, Line]:
            return {
                kind: Line.through([(_each(run, kind), _rate(run, name, kind, over_time)) for run in runs])
                for kind in KINDS
            }

        words = sum(_number(run, "begun") * sum(_words(run)) / 2 for run in runs)
        spoken = sum(_number(run, "sessions") * _number(run, "seconds") for run in runs)
        asked = [
            (_each(run, BRIDGE), _number(run, "store_requests") / _number(run, "seconds") / _nodes(run, BRIDGE))
            for run in runs
        ]
        return cls(
            lines("cpu_s", True),
            lines("memory_mb", False),
            lines("bytes", True),
            lines("packets", True),
            Line.through(asked),
            spoken / words,
        )


def _taken(path: Path) -> Taken:
    try:
        taken: Taken = json.loads(path.read_text(encoding="utf-8")).get("taken", {})
    except ValueError as error:
        raise FleetError(f"{path} is no report: {error}") from error
    if not taken:
        raise FleetError(f"{path} is not the report of a run of `soak.py network`")
    return taken


def _number(taken: Taken, *names: str) -> float:
    value: object = taken
    for name in names:
        value = value.get(name, 0.0) if isinstance(value, Mapping) else 0.0
    return float(value) if isinstance(value, (int, float)) else 0.0


def _words(taken: Taken) -> tuple[int, int]:
    settings = taken["settings"]
    assert isinstance(settings, Mapping)
    least, most = settings["words"]
    return int(least), int(most)


def _nodes(taken: Taken, kind: str) -> int:
    return int(_number(taken, "settings", {BRIDGE: "bridges", TRITON: "tritons"}.get(kind, "")) or 1)


def _each(taken: Taken, kind: str) -> float:
    """Return the sessions at a time of each node of this kind."""
    return _number(taken, "sessions") / _nodes(taken, kind)


def _rate(taken: Taken, name: str, kind: str, over_time: bool) -> float:
    """Return what each node of this kind took, for a second if it is a sum over time."""
    if not over_time:
        return _number(taken, name, kind)
    return _number(taken, name, kind) / _number(taken, "seconds") / _nodes(taken, kind)


# The prediction of a run.


@dataclass(frozen=True)
class Toll:
    """What a fault takes for each session that lives then, besides what it takes without faults."""

    every_s: float = math.inf  # the time between faults
    seconds: float = 0.0  # by which the session lasts longer
    takes: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Taken, costs: Costs, seed: int) -> Toll:
        """Return the toll of a run with faults. Raise FleetError if it had none."""
        every_s = _number(run, "settings", "every")
        if not every_s:
            raise FleetError("the run of --faults had no faults")
        sessions, _, seconds = _run_of(run, costs, random.Random(seed))
        lived_s = _number(run, "sessions") * _number(run, "seconds")
        without = _takes(run, costs, _number(run, "sessions"), _number(run, "seconds"))
        each = {key: (_number(run, *key) - value) * every_s / lived_s for key, value in without.items()}
        return cls(every_s, (lived_s / (sessions * seconds) - 1) * every_s, each)

    def at(self, every_s: float) -> Toll:
        """Return the toll of such faults with another time between them."""
        return replace(self, every_s=every_s)

    @property
    def longer(self) -> float:
        """How many times as long a session lasts."""
        return 1 + self.seconds / self.every_s

    def of_sessions(self, key: tuple[str, ...], lived_s: float) -> float:
        """Return what the faults take of sessions that live for so many seconds together."""
        return self.takes.get(key, 0.0) * lived_s / self.every_s


def _takes(run: Taken, costs: Costs, sessions: float, seconds: float) -> dict[tuple[str, ...], float]:
    """Return what a run without faults takes with so many sessions at a time, by its place in a report."""
    takes: dict[tuple[str, ...], float] = {}
    for kind in KINDS:
        number = _nodes(run, kind)
        for name, lines in (("cpu_s", costs.cores), ("bytes", costs.bytes), ("packets", costs.packets)):
            takes[name, kind] = lines[kind].at(sessions / number) * seconds * number
    bridges = _nodes(run, BRIDGE)
    takes[("store_requests",)] = costs.requests.at(sessions / bridges) * seconds * bridges
    return takes


# The names of what is taken, and in which units it is printed.
_ROWS: Final = {
    "cpu_s": ("processor time of {}s, s", 1.0),
    "bytes": ("MB to {}s", MEGABYTE),
    "packets": ("1000 packets to {}s", 1000.0),
    "store_requests": ("requests to the store", 1.0),
}


def _compare(costs: Costs, options: argparse.Namespace) -> int:
    """Print the prediction of a run beside what was measured. Returns the exit status."""
    run = _taken(options.against)
    toll = _toll_of(run, costs, options)
    sessions, most, seconds = _run_of(run, costs, random.Random(options.seed), toll.longer)
    rows: dict[str, tuple[float, float]] = {
        "sessions at a time": (sessions, _number(run, "sessions")),
        "most sessions at a time": (most, _number(run, "most_sessions")),
        "seconds": (seconds, _number(run, "seconds")),
    }
    for kind in KINDS:
        memory_mb = costs.memory_mb[kind].at(sessions / _nodes(run, kind))
        rows[f"memory of a {kind}, MB"] = memory_mb, _number(run, "memory_mb", kind)
    for key, value in _takes(run, costs, sessions, seconds).items():
        label, unit = _ROWS[key[0]]
        predicted = value + toll.of_sessions(key, sessions * seconds)
        rows[label.format(*key[1:])] = predicted / unit, _number(run, *key) / unit
    lines, worst = ["| what | predicted | measured | difference |", "|---|---:|---:|---:|"], 0.0
    for name, (predicted, measured) in rows.items():
        if not measured:
            continue
        difference = 100 * (predicted - measured) / measured
        worst = max(worst, abs(difference))
        lines.append(f"| {name} | {predicted:.4g} | {measured:.4g} | {difference:+.0f} % |")
    print("\n".join(lines))
    if worst > options.within:
        print(f"fleet: a prediction is wrong by {worst:.0f} %", file=sys.stderr)
    return int(worst > options.within)


def _toll_of(run: Taken, costs: Costs, options: argparse.Namespace) -> Toll:
    """Return what the faults of the run to predict cost."""
    every_s = _number(run, "settings", "every")
    if not every_s:
        return Toll()
    if options.faults is None:
        raise FleetError("the run to predict had faults: give --faults REPORT, another run with faults")
    other = _taken(options.faults)
    if other == run:
        raise FleetError("a run does not predict itself: give --faults another one")
    return Toll.of(other, costs, options.seed).at(every_s)


def _run_of(run: Taken, costs: Costs, rng: random.Random, longer: float = 1.0) -> tuple[float, float, float]:
    """Simulate the sessions of a run. Return how many there are at a time, the mean and the most, and its seconds.

    `longer`: how many times as long a session lasts as without faults.
    """
    seconds, number = 60 * _number(run, "settings", "minutes"), int(_number(run, "settings", "sessions"))
    room = int(_number(run, "settings", "at_a_time"))
    waves = 2 * math.pi * max(1, round(seconds / WAVE_S))
    ends: list[float] = []
    total, most, now, begun = 0.0, 0, 0.0, 0
    while now < seconds:
        part = now / seconds
        due = number * (part + WAVE * math.sin(waves * part) / waves) + 1
        while ends and ends[0] <= now:
            heapq.heappop(ends)
        while begun + 1 <= min(due, number) and len(ends) < room:
            length = longer * costs.seconds_of_word * rng.uniform(*_words(run))
            heapq.heappush(ends, now + length)
            total += length
            begun += 1
        most = max(most, len(ends))
        now += LOOK_S
    lasted = max(seconds, *ends) if ends else seconds
    return total / lasted, most, lasted


# A fleet, and the loss of a zone.


@dataclass(frozen=True)
class Plan:
    """What a fleet is made of."""

    costs: Costs
    zones: int
    cores: int
    most_use: float
    recogniser_cores: float  # for a session
    length_s: float
    notice_s: float
    behind_s: float
    opening_s: float

    @classmethod
    def of(cls, costs: Costs, options: argparse.Namespace) -> Plan:
        """Return the plan of these options."""
        own = options.recogniser_ms / 1000 if options.recogniser_ms else costs.cores[TRITON].slope
        if not (own and costs.cores[BRIDGE].slope):
            raise FleetError("the runs do not show what a session costs: give runs that differ by more sessions")
        return cls(
            costs,
            options.zones,
            options.cores,
            options.most_use,
            own,
            60 * options.minutes,
            options.notice,
            options.behind,
            options.opening,
        )

    def sessions_of(self, kind: str) -> int:
        """Return the most sessions of a node of this kind."""
        if kind == TRITON:
            return int((self.most_use * self.cores - self.costs.cores[TRITON].base) / self.recogniser_cores)
        line = self.costs.cores[kind]
        cores = self.cores if kind == BALANCER else 1
        return int((self.most_use * cores - line.base) / line.slope) if line.slope else sys.maxsize

    def nodes(self, kind: str, sessions: int) -> int:
        """Return how many nodes carry so many sessions while a zone is lost."""
        most = self.sessions_of(kind)
        if most < 1:
            raise FleetError(f"a {kind} carries no session with this use of its cores")
        return self.zones * math.ceil(sessions / most / (self.zones - 1))


@dataclass
class _Session:
    bridge: int
    zone: int  # of its Triton
    lost_at: float | None = None
    attempts: int = 0
    over: bool = False


# When it happens, its number (so that no two are equal), and what happens with which session.
_Event: TypeAlias = tuple[float, int, str, "_Session | None"]


class Fleet:
    """A fleet with so many live sessions, before and after the loss of a zone."""

    def __init__(self, plan: Plan, sessions: int, seed: int) -> None:
        self.plan, self.sessions = plan, sessions
        self.count = {kind: plan.nodes(kind, sessions) for kind in (BRIDGE, TRITON, BALANCER)}
        self.returns_s: list[float] = []  # until a session is heard again
        self.lost: Counter[str] = Counter()  # sessions, by the kind of node that they lost
        self.refusals = 0
        self.most_of_bridge = 0  # sessions, after the loss
        self._rng = random.Random(f"{seed} {sessions}")
        self._on: list[int] = [0] * self.count[BRIDGE]  # sessions of each bridge
        self._free_at = [0.0] * self.count[BRIDGE]  # when it has opened all sessions that have asked for it
        self._least = [(0, number) for number in range(self.count[BRIDGE])]
        self._gone: int | None = None  # the zone that was lost
        self._living: list[_Session] = []
        self._events: list[_Event] = []
        self._number = 0
        self._again_until = 0.0  # when all audio that came again is recognised
        self._simulate()

    @property
    def tritons_left(self) -> int:
        """How many Tritons there are after the loss."""
        return self.count[TRITON] * (self.plan.zones - 1) // self.plan.zones

    def _simulate(self) -> None:
        for _ in range(self.sessions):
            self._begin(0.0)
        at = 0.0
        while at < BEFORE_S + AFTER_S:
            at += self._rng.expovariate(self.sessions / self.plan.length_s)
            self._plan(at, "begin")
        self._plan(BEFORE_S, "lose")
        while self._events:
            now, _, what, session = heapq.heappop(self._events)
            if now > BEFORE_S + AFTER_S:
                return
            if what == "begin":
                self._begin(now)
            elif what == "lose":
                self._lose(now)
            elif session is not None and what == "end":
                self._end(session)
            elif session is not None and not session.over:
                self._dial(session, now)

    def _begin(self, now: float) -> None:
        bridge = self._bridge_with_fewest()
        if bridge is None:
            self.refusals += 1
            return
        zones = [zone for zone in range(self.plan.zones) if zone != self._gone]
        session = _Session(bridge, self._rng.choice(zones))
        self._occupy(bridge, 1)
        self._living.append(session)
        self._plan(now + self._rng.expovariate(1 / self.plan.length_s), "end", session)

    def _end(self, session: _Session) -> None:
        session.over = True
        if not self._is_gone(session.bridge):
            self._occupy(session.bridge, -1)

    def _lose(self, now: float) -> None:
        """Lose a zone: a part of the bridges, of the Tritons, and of the balancers that lead to the others."""
        self._gone = 0
        for session in self._living:
            if session.over:
                continue
            through = self._rng.randrange(self.plan.zones)  # the zone of its balancer
            if self._is_gone(session.bridge) or through == self._gone:
                self.lost[BRIDGE if self._is_gone(session.bridge) else BALANCER] += 1
                session.lost_at = now
                if not self._is_gone(session.bridge):
                    self._occupy(session.bridge, -1)
                self._plan(now + self.plan.notice_s, "dial", session)
            elif session.zone == self._gone:
                self.lost[TRITON] += 1
                self._recognise_again(now, now + OVERDUE_S)

    def _dial(self, session: _Session, now: float) -> None:
        """Let a client that lost its connection try to return."""
        bridge = self._bridge_with_fewest()
        if bridge is None:
            self.refusals += 1
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**session.attempts)
            session.attempts += 1
            self._plan(now + pause, "dial", session)
            return
        session.bridge = bridge
        self._occupy(bridge, 1)
        line = self.plan.costs.cores[BRIDGE]
        free = max(0.05, 1 - line.at(self._on[bridge]))
        self._free_at[bridge] = max(self._free_at[bridge], now) + self.plan.opening_s * line.slope / free
        assert session.lost_at is not None
        self._recognise_again(session.lost_at, self._free_at[bridge])

    def _recognise_again(self, lost_at: float, now: float) -> None:
        """Note when a session is heard again, whose recogniser has begun anew now."""
        audio_s = now - lost_at + self.plan.behind_s
        cores = self.tritons_left * self.plan.cores
        spare = max(0.05 * cores, cores - self.sessions * self.plan.recogniser_cores)
        self._again_until = max(self._again_until, now) + audio_s * self.plan.recogniser_cores / spare
        self.returns_s.append(self._again_until - lost_at)

    def _bridge_with_fewest(self) -> int | None:
        """Return the living bridge with the fewest sessions; None if all are full."""
        while self._least:
            sessions, bridge = self._least[0]
            if not self._is_gone(bridge) and sessions == self._on[bridge]:
                return bridge if sessions < self.plan.sessions_of(BRIDGE) else None
            heapq.heappop(self._least)  # what it says is not so any more
        return None

    def _occupy(self, bridge: int, change: int) -> None:
        self._on[bridge] += change
        heapq.heappush(self._least, (self._on[bridge], bridge))
        if self._gone is not None:
            self.most_of_bridge = max(self.most_of_bridge, self._on[bridge])

    def _is_gone(self, bridge: int) -> bool:
        return bridge % self.plan.zones == self._gone

    def _plan(self, at: float, what: str, session: _Session | None = None) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, what, session))


def _table(fleets: Sequence[Fleet]) -> str:
    columns = [_column(fleet) for fleet in fleets]
    head = ["live sessions", *(f"{fleet.sessions}" for fleet in fleets)]
    rows = [
        head,
        ["---", *("---:" for _ in fleets)],
        *([name, *(each[name] for each in columns)] for name in columns[0]),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _column(fleet: Fleet) -> dict[str, str]:
    plan, costs, count = fleet.plan, fleet.plan.costs, fleet.count
    each = {kind: fleet.sessions / number for kind, number in count.items()}
    memory = sum(costs.memory_mb[kind].at(each[kind]) * count[kind] for kind in (BRIDGE, TRITON))
    returns = sorted(fleet.returns_s) or [0.0]
    bridge = costs.cores[BRIDGE].at(fleet.most_of_bridge)
    triton = fleet.sessions * plan.recogniser_cores / (fleet.tritons_left * plan.cores)
    column = {f"{kind}s": f"{number}" for kind, number in count.items()}
    column["memory of bridges and Tritons, GB"] = f"{memory / 1000:.1f}"
    for kind, number in each.items():
        column[f"Mbit/s to a {kind}"] = f"{costs.bytes[kind].slope * number / MEGABIT:.1f}"
    requests = costs.requests.at(each[BRIDGE])
    if requests:
        column["requests to the store, for a second"] = f"{requests * count[BRIDGE]:.0f}"
    lost = ", ".join(f"{kind} {fleet.lost[kind]}" for kind in (BRIDGE, BALANCER, TRITON))
    parts = [returns[int(part * (len(returns) - 1))] for part in (0.5, 0.95, 1.0)]
    return {
        **column,
        "a zone is lost: sessions that lose their …": lost,
        "heard again after p50 / p95 / max, s": " / ".join(f"{part:.1f}" for part in parts),
        "refused meanwhile": f"{fleet.refusals}",
        "most use of a bridge / of the Tritons": f"{bridge:.0%} / {triton:.0%}",
    }


if __name__ == "__main__":
    sys.exit(main())
