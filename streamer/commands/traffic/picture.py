"""Draws the curve of a load measurement as SVG: delays and processor time over the number of sessions, and the knee."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from streamer.base.text import counted
from streamer.commands.traffic.results import BOUNDS, OURS, Delay, Level, Limit, knee

WIDTH: Final = 960
LEFT, RIGHT = 70, 200
UPPER, LOWER = (60, 340), (420, 560)  # the tops and bottoms of both parts
HEIGHT: Final = 610
LEAST_S, MOST_S = 0.01, 30.0
GRID_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
MOST_LABELS: Final = 12
APART: Final = 15  # between the names of two curves
STYLE: Final = """
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#33454b}
.title{font-size:15px;font-weight:600;fill:#10211f}.small{font-size:12px;fill:#6f8288}.end{text-anchor:end}
.middle{text-anchor:middle}.frame{fill:#f3f7f7;stroke:#b9c8c9}.grid{stroke:#d5dfe0}
.bound{stroke:#b4553a;stroke-dasharray:5 4}.knee{stroke:#10211f;stroke-width:1.5}
.curve{fill:none;stroke-width:2}.thin{stroke-width:1.2;stroke-dasharray:2 3}
.c0{stroke:#1f7f6e}.c1{stroke:#b4553a}.c2{stroke:#5a6fb0}.c3{stroke:#8a6d1f}.c4{stroke:#7b4b94}.c5{stroke:#5d6b70}
.t0{fill:#1f7f6e}.t1{fill:#b4553a}.t2{fill:#5a6fb0}.t3{fill:#8a6d1f}.t4{fill:#7b4b94}.t5{fill:#5d6b70}
@media (prefers-color-scheme:dark){
text{fill:#b8c7cb}.title{fill:#f0f6f6}.small{fill:#8fa2a8}.frame{fill:#172024;stroke:#3a4b51}.grid{stroke:#2a373c}
.bound{stroke:#e08b6f}.knee{stroke:#f0f6f6}
.c0{stroke:#4cc2ac}.c1{stroke:#e08b6f}.c2{stroke:#93a6e6}.c3{stroke:#d3b25c}.c4{stroke:#c08fdc}.c5{stroke:#9fb0b6}
.t0{fill:#4cc2ac}.t1{fill:#e08b6f}.t2{fill:#93a6e6}.t3{fill:#d3b25c}.t4{fill:#c08fdc}.t5{fill:#9fb0b6}}
"""
_DELAYS: Final = ((Delay.LAST, "last words"), (Delay.PARTIAL, "partials"), (Delay.WORD, "words"))


@dataclass(frozen=True)
class Curve:
    """A line through points: the number of sessions, and a value."""

    name: str
    colour: int
    points: Sequence[tuple[float, float]]
    thin: bool = False


def draw(levels: Sequence[Level], title: str) -> str:
    """Return the picture. Levels that were not measured to their end are left out."""
    whole = sorted((level for level in levels if level.whole), key=lambda level: level.sessions)
    most = max((level.sessions for level in whole), default=1)
    across = _Scale(0, most, LEFT, WIDTH - RIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
        *_delays(whole, across),
        *_costs(whole, across),
        *_knee(whole, across),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True)
class _Scale:
    """From values to places. If `logarithmic`, by their logarithms."""

    least: float
    most: float
    begin: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        value = min(self.most, max(self.least, value))
        if self.logarithmic:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = (value - self.least) / ((self.most - self.least) or 1)
        return round(self.begin + share * (self.end - self.begin), 1)


def _delays(levels: Sequence[Level], across: _Scale) -> Iterator[str]:
    top, bottom = UPPER
    curves = []
    for colour, (kind, name) in enumerate(_DELAYS):
        found = [(level.sessions, each) for level in levels if (each := level.quantiles(kind)) is not None]
        curves.append(Curve(f"{name}, 95 %", colour, [(sessions, each.p95) for sessions, each in found]))
        curves.append(Curve("", colour, [(sessions, each.p50) for sessions, each in found], thin=True))
    values = [value for curve in curves for _, value in curve.points] + list(BOUNDS.values())
    grid = [each for each in GRID_S if each <= 2 * max(values)] + [each for each in GRID_S if each > 2 * max(values)][
        :1
    ]
    up = _Scale(LEAST_S, min(MOST_S, grid[-1]), bottom, top, logarithmic=True)
    yield from _frame(levels, across, UPPER, "seconds (dashed: median)")
    for value in grid:
        yield from _line_across(up(value), f"{value:g}", "grid")
    for value in sorted(set(BOUNDS.values())):
        yield f'<path class="bound" d="M{LEFT} {up(value)}H{WIDTH - RIGHT}"/>'
    yield from _curves(curves, across, up)


def _costs(levels: Sequence[Level], across: _Scale) -> Iterator[str]:
    top, bottom = LOWER
    names = list(dict.fromkeys(name for level in levels for name in level.work if name not in OURS))
    curves = [
        Curve(name, colour, [(level.sessions, cost) for level in levels if (cost := _cost(level, name)) is not None])
        for colour, name in enumerate(("the service", *names))
        if name != "others"
    ]
    values = [value for curve in curves for _, value in curve.points]
    if not values:
        return
    step = _round_step(max(values))
    up = _Scale(0, step * math.ceil(max(values) / step), bottom, top)
    yield from _frame(levels, across, LOWER, "ms of processor time for a second of audio")
    for number in range(math.ceil(max(values) / step) + 1):
        yield from _line_across(up(number * step), f"{number * step:g}", "grid")
    yield from _curves(curves, across, up)


def _cost(level: Level, name: str) -> float | None:
    if name in level.work:
        return level.cost_ms(level.work[name].cpu_s)
    return level.cost_ms(level.service_cpu_s) if name == "the service" and level.service_cpu_s else None


def _round_step(most: float) -> float:
    """Return a round number that divides a scale into two to five parts."""
    power = 10.0 ** math.floor(math.log10(most or 1))
    return power * next(each for each in (0.2, 0.5, 1.0, 2.0) if most / (each * power) <= 5)


def _frame(levels: Sequence[Level], across: _Scale, place: tuple[int, int], name: str) -> Iterator[str]:
    top, bottom = place
    yield f'<rect class="frame" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{bottom - top}"/>'
    yield f'<text class="small" x="{LEFT}" y="{top - 8}">{escape(name)}</text>'
    last = -math.inf
    for level in levels[:: max(1, len(levels) // MOST_LABELS)]:
        x = across(level.sessions)
        if x - last > 2 * APART:
            yield f'<text class="small middle" x="{x}" y="{bottom + 18}">{level.sessions}</text>'
            last = x
    yield f'<text class="small" x="{WIDTH - RIGHT + 26}" y="{bottom + 18}">sessions</text>'


def _line_across(y: float, label: str, kind: str) -> Iterator[str]:
    yield f'<path class="{kind}" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
    yield f'<text class="small end" x="{LEFT - 8}" y="{y + 4}">{label}</text>'


def _curves(curves: Sequence[Curve], across: _Scale, up: _Scale) -> Iterator[str]:
    names = []
    for curve in curves:
        if not curve.points:
            continue
        places = [(across(sessions), up(value)) for sessions, value in curve.points]
        path = "L".join(f"{x} {y}" for x, y in places)
        yield f'<path class="curve c{curve.colour}{" thin" if curve.thin else ""}" d="M{path}"/>'
        if not curve.thin:
            names.append((places[-1][1], curve))
            yield from (f'<circle class="t{curve.colour}" cx="{x}" cy="{y}" r="2.6"/>' for x, y in places)
    last = -math.inf
    for y, curve in sorted(names, key=lambda each: each[0]):
        last = max(y + 4, last + APART)
        yield f'<text class="t{curve.colour}" x="{WIDTH - RIGHT + 10}" y="{last:g}">{escape(curve.name)}</text>'


def _knee(levels: Sequence[Level], across: _Scale) -> Iterator[str]:
    found = knee(levels)
    if found is None or found.limit is Limit.NOTHING or not found.sessions:
        return
    x = across(found.sessions)
    yield f'<path class="knee" d="M{x} {UPPER[0]}V{LOWER[1]}"/>'
    side, shift = ("end", -6) if x > (LEFT + WIDTH - RIGHT) / 2 else ("", 6)
    words = f"knee: {counted(round(found.sessions), 'session')}"
    yield f'<text class="{side}" x="{x + shift}" y="{UPPER[0] + 16}">{words}</text>'
