"""A load measurement in words: the lines of the live display, the tables of the report, and the JSON of it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamer import __version__
from streamer.base.json_types import JsonObject
from streamer.base.machine import machine_memory, processors
from streamer.base.text import as_sentence, counted
from streamer.commands.traffic.results import (
    BOUNDS,
    OURS,
    Delay,
    End,
    Knee,
    Level,
    Limit,
    Pressure,
    Quantiles,
    complaints,
    knee,
    level_content,
    quantiles,
)

NOTHING: Final = "-"
_NAMES: Final[Mapping[Delay, str]] = {
    Delay.FIRST: "first text",
    Delay.PARTIAL: "partials",
    Delay.WORD: "words",
    Delay.FINAL: "finals",
    Delay.LAST: "last words",
}
_MEANINGS: Final = """\
first text: from the first sample of the audio. partials: from the end of the audio that they cover. words: from the
end of a word until it is shown in its place. finals: from the end of their last word, while the audio goes on; that
includes the pause that ends a segment. last words: from the last sample of the audio."""
_LIMITS: Final[Mapping[Limit, str]] = {
    Limit.PARTIALS: f"With more, 5 of 100 partials take longer than {BOUNDS[Delay.PARTIAL]:g} s.",
    Limit.LAST: f"With more, 5 of 100 sessions wait longer than {BOUNDS[Delay.LAST]:g} s for their last words.",
    Limit.REFUSED: "With more, the service refused sessions.",
    Limit.FAILED: "With more, sessions failed.",
}
_FIRST_LIMITS: Final[Mapping[Limit, str]] = {
    limit: sentence.replace("With more, ", "") for limit, sentence in _LIMITS.items()
}


@dataclass(frozen=True)
class About:
    """What was measured, and how."""

    service: str  # its address, or the settings of one that was started
    format: str
    options: Mapping[str, Any]
    recordings: Sequence[str]
    without_text: Sequence[str]
    seconds: float
    clients: int


def live_lines(level: Level, measured_s: float, about: About, number: int) -> list[str]:
    """Return the present state of a level for a terminal. `number`: which level it is, from 1."""
    cpu = ", ".join(
        f"{name} {100 * work.cpu_s / level.measured_s:.0f} %"
        for name, work in level.work.items()
        if level.measured_s and work.cpu_s / level.measured_s >= _SHOWN_CPU
    )
    delays = ", ".join(
        f"{_NAMES[kind]} {found.p50:.2f}/{found.p95:.2f} s"
        for kind in (Delay.PARTIAL, Delay.WORD, Delay.LAST)
        if (found := level.quantiles(kind)) is not None
    )
    ends = f"; refused {level.refused.total()}" if level.refused else ""
    ends += f"; failed {level.failed.total()}" if level.failed else ""
    return [
        f"level {number}: {counted(level.sessions, 'session')}, {measured_s:.0f} of {about.seconds:g} s{ends}",
        f"delays p50/p95: {delays or NOTHING}",
        f"processors: {cpu or NOTHING}",
    ]


_SHOWN_CPU: Final = 0.005


def level_line(level: Level) -> str:
    """Return the figures of a level in a line."""
    parts = [
        f"{_NAMES[kind]} {found.p50:.2f}/{found.p95:.2f} s"
        for kind in (Delay.PARTIAL, Delay.LAST)
        if (found := level.quantiles(kind)) is not None
    ]
    if level.work and (cost := level.cost_ms(level.service_cpu_s)) is not None:
        parts.append(f"{cost:.0f} ms of processor time for a second of audio")
    return f"{counted(level.sessions, 'session')}: {', '.join(parts) or 'nothing was heard'}"


def text(levels: Sequence[Level], end: End, why: str, about: About) -> str:
    """Return the whole report."""
    lines = [
        f"{about.service}: {about.format} sessions with {', '.join(about.recordings)}",
        f"{about.seconds:g} s for each number of sessions; {counted(about.clients, 'client')}",
        machine(),
        "",
        "Delays in seconds: p50 / p95 / p99 / longest",
        "",
        *_delay_table(levels),
        "",
        _MEANINGS,
        "",
        "Sessions, words, and requests that the model computed together",
        "",
        *_session_table(levels),
        "",
        "Processes: processor time in ms for a second of audio / memory in MB",
        "",
        *_process_table(levels),
        "",
        *_sentences(levels, end, why, about),
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Return the processors and the memory of this machine in words."""
    name = _processor_name()
    gigabytes = machine_memory().size / 1e9
    return f"{counted(processors(), 'processor')}{f' ({name})' if name else ''}, {gigabytes:.0f} GB of memory"


def content(levels: Sequence[Level], end: End, why: str, about: About) -> JsonObject:
    """Return the report for JSON."""
    found = knee(levels)
    return {
        "streamer": __version__,
        "machine": {
            "processors": processors(),
            "processor": _processor_name(),
            "memory": machine_memory().size,
            "python": platform.python_version(),
        },
        "service": about.service,
        "format": about.format,
        "options": dict(about.options),
        "recordings": list(about.recordings),
        "without_text": list(about.without_text),
        "seconds": about.seconds,
        "clients": about.clients,
        "end": end.value,
        "why": why,
        "bounds_s": {kind.value: bound for kind, bound in BOUNDS.items()},
        "knee": None if found is None else {"sessions": round(found.sessions, 1), "limit": found.limit.value},
        "levels": [level_content(level) for level in levels],
    }


def _delay_table(levels: Sequence[Level]) -> Iterator[str]:
    yield f"| sessions | {' | '.join(_NAMES.values())} |"
    yield "| ---: |" + " ---: |" * len(_NAMES)
    for level in levels:
        cells = (_cell(level.quantiles(kind)) for kind in _NAMES)
        yield f"| {_name(level)} | {' | '.join(cells)} |"


def _cell(found: Quantiles | None) -> str:
    if found is None:
        return NOTHING
    return " / ".join(f"{value:.2f}" for value in (found.p50, found.p95, found.p99, found.most))


def _session_table(levels: Sequence[Level]) -> Iterator[str]:
    yield "| sessions | at a time | ended in order | refused | failed | recovered | wrong words | batch mean / p95 |"
    yield "| ---: " * 8 + "|"
    for level in levels:
        rate = level.words.rate
        cells = [
            _name(level),
            *map(str, (level.live, level.done, level.refused.total(), level.failed.total(), level.recovered)),
            NOTHING if rate is None else f"{level.words.errors} of {level.words.words} ({100 * rate:.1f} %)",
            _batch(level),
        ]
        yield f"| {' | '.join(cells)} |"


def _process_table(levels: Sequence[Level]) -> Iterator[str]:
    parts = list(dict.fromkeys(name for level in levels for name in level.work if name not in OURS))
    names = [*parts, *(name for name in OURS if any(name in level.work for level in levels))]
    if not names:
        yield "Nothing is known about them on this system."
        return
    heads = ["sessions", *(("the service",) if parts else ()), *names]
    yield f"| {' | '.join(heads)} |"
    yield "| ---: " * len(heads) + "|"
    for level in levels:
        memory_mb = sum(work.memory_mb for name, work in level.work.items() if name not in OURS)
        cells = [_name(level)]
        if parts:
            cells.append(_use(level, level.service_cpu_s, memory_mb) if level.work else NOTHING)
        for name in names:
            work = level.work.get(name)
            cells.append(NOTHING if work is None else _use(level, work.cpu_s, work.memory_mb))
        yield f"| {' | '.join(cells)} |"


def _name(level: Level) -> str:
    return f"{level.sessions}{'' if level.whole else '*'}"


def _use(level: Level, cpu_s: float, memory_mb: float) -> str:
    cost = level.cost_ms(cpu_s)
    return f"{NOTHING if cost is None else f'{cost:.1f}'} / {memory_mb:.0f}"


def _batch(level: Level) -> str:
    if level.batches is None:
        return NOTHING
    return f"{level.batches.mean:.1f} / {NOTHING if level.batches.p95 is None else f'{level.batches.p95:g}'}"


def _sentences(levels: Sequence[Level], end: End, why: str, about: About) -> Iterator[str]:
    if any(not level.whole for level in levels):
        yield "* This level was not measured to its end."
    found = knee(levels)
    if found is not None:
        yield _knee_sentence(found)
    recovered = sum(level.recovered for level in levels)
    if recovered:
        yield f"Sessions went on after a failure {recovered} times, with nothing lost."
    for level in levels:
        if level.graphics is not None:
            busy, memory_mb = level.graphics.busy, level.graphics.memory_mb
            yield (
                f"With {counted(level.sessions, 'session')}, the GPUs computed {100 * busy:.0f} % of the time and used "
                f"{memory_mb:.0f} MB."
            )
    yield from _client_sentences(levels)
    if about.without_text:
        yield f"No text is beside {', '.join(about.without_text)}, so wrong words were not counted there."
    for complaint in complaints(levels):
        yield f"{complaint[0].upper()}{complaint[1:]}."
    if end is End.SERVICE_DIED:
        yield f"The service died during the measurement: {as_sentence(why)}"
    elif end is End.CLIENT_DIED:
        yield "A client process died during the measurement."
    elif end is End.INTERRUPTED:
        yield "The measurement was interrupted; this is what was found until then."


def _knee_sentence(found: Knee) -> str:
    if found.limit is Limit.NOTHING:
        return f"The knee was not reached: all bounds hold with {counted(round(found.sessions), 'session')}."
    if not found.sessions:
        return f"No level holds: {_FIRST_LIMITS[found.limit]}"
    return f"The knee is at about {counted(round(found.sessions), 'session')}. {_LIMITS[found.limit]}"


def _client_sentences(levels: Sequence[Level]) -> Iterator[str]:
    busiest = max(levels, key=lambda level: level.client_cpu, default=None)
    late = quantiles(value for level in levels for value in level.late_s)
    if busiest is None or late is None:
        return
    yield (
        f"The busiest client process used {100 * busiest.client_cpu:.0f} % of a processor "
        f"(with {counted(busiest.sessions, 'session')}); 95 % of what clients did was at most {1000 * late.p95:.0f} ms "
        "late."
    )
    strained = [level for level in levels if level.pressure is not Pressure.NONE]
    if strained:
        numbers = ", ".join(str(level.sessions) for level in strained)
        kinds = " and ".join(dict.fromkeys(level.pressure.value for level in strained))
        yield (
            f"The clients {kinds} with {numbers} sessions, so they were the bottleneck there, and the delays are "
            "partly their own: use more of them (--clients), or run this command on another machine than the service."
        )


def _processor_name() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()
