"""Measures every figure about speed and capacity that the pages have, with the commands of a user, and keeps them.

Each run starts a service without options, as a user would, or with those that its figure is about.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from streamer.base.machine import ROOT, processor_time
from streamer.commands.traffic.report import machine
from streamer.commands.traffic.service import own_service
from streamer.models.readers import readers_here

FILE: Final = Path(__file__).parents[2] / "docs/figures.json"
COMMAND: Final = "python scripts/measure/figures.py"
# A service of others is compared at this delay too: 95 of 100 sessions have their last words within it.
SOON_S: Final = 0.3
# Recognisers are added when so much of what they carry is in use.
SCALED: Final = 0.7
OVER: Final = 1.3
REST: Final = 0.1  # the part of a processor that other programs may use during a measurement
_LIMIT_S: Final = 600.0

Report = Mapping[str, Any]
"""What a command writes as JSON."""


class NotMeasured(Exception):
    """A figure could not be measured. The message says why."""


@dataclass(frozen=True)
class Figure:
    """A measured value, what it is, and the command that measured it."""

    value: float
    meaning: str
    command: str


@dataclass(frozen=True)
class Figures:
    """All figures of one run on one machine."""

    machine: str
    processors: int
    commit: str
    date: str
    command: str
    others: float  # processors that other programs used meanwhile: the machine should have been at rest
    figures: Mapping[str, Figure]

    def write(self, file: Path = FILE) -> None:
        """Keep them."""
        file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(file: Path = FILE) -> Figures:
    """Return the figures that were kept."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return Figures(**{**content, "figures": {name: Figure(**each) for name, each in content["figures"].items()}})


@dataclass(frozen=True)
class Effort:
    """How many sessions are tried, and for how long each number."""

    seconds: float = 20.0
    plain: Sequence[int] = (8, 32, 64, 96, 112, 124)
    passes: Sequence[int] = (8, 24, 32, 40, 48, 56)


class Measuring:
    """One run of all measurements."""

    def __init__(self, effort: Effort, tell: Callable[[str], None]) -> None:
        self._effort = effort
        self._tell = tell
        self._found: dict[str, Figure] = {}

    def run(self) -> Figures:
        """Measure everything. NotMeasured if something could not be measured."""
        began, busy, own = time.monotonic(), _busy_s(), _own_s()
        self._plain()
        self._passes("second_pass", "on", "a second pass")
        if readers_here():
            self._passes("reader", "reader", f"the reader {next(iter(readers_here()))}")
        self._auto("reader" if readers_here() else "on")
        self._memory()
        self._derive()
        others = max(0.0, (_busy_s() - busy) - (_own_s() - own)) / (time.monotonic() - began)
        processors = max(1, int(processor_time()))
        if others > REST:
            self._tell(f"other programs used {others:.1f} processors meanwhile: measure again when there are none")
        date = time.strftime("%Y-%m-%d", time.gmtime())
        return Figures(machine(), processors, commit(), date, COMMAND, round(others, 2), self._found)

    def _plain(self) -> None:
        report, command = self._load(self._effort.plain)
        levels = report["levels"]
        self._note(
            "sessions", crossing(levels, {"last": SOON_S}), f"live sessions, last words within {SOON_S} s", command
        )
        self._note("cost", cost(levels[1]) / 10, "% of a processor for a session, without second passes", command)
        self._note("cost_one", cost(levels[0]) / 10, "the same with few sessions", command)
        partial = levels[1]["delays_s"]["partial"]
        self._note("partial", partial["p50"], f"s until a partial, median, {levels[1]['sessions']} sessions", command)
        self._note(
            "memory", memory(levels[-1]) / 1000, f"GB of the service, {levels[-1]['sessions']} sessions", command
        )

    def _passes(self, name: str, value: str, words: str) -> None:
        report, command = self._load(self._effort.passes, "--second-pass", value)
        levels = report["levels"]
        self._note(
            f"sessions_{name}", crossing(levels, report["bounds_s"]), f"live sessions, all with {words}", command
        )
        self._note(f"cost_{name}", cost(levels[1]) / 10, f"% of a processor for a session with {words}", command)

    def _auto(self, value: str) -> None:
        with TemporaryDirectory(prefix="figures-") as cache:
            kept = os.environ.get("XDG_CACHE_HOME")
            os.environ["XDG_CACHE_HOME"] = cache  # so that it measures
            try:
                with own_service(["--sessions", "auto"]) as service:
                    url = service.wait_ready().replace("ws", "http", 1).rpartition("/v1/")[0]
                    with urllib.request.urlopen(f"{url}/readyz", timeout=60) as answer:
                        sessions = int(json.loads(answer.read())["sessions_limit"])
            finally:
                os.environ.pop("XDG_CACHE_HOME")
                if kept is not None:
                    os.environ["XDG_CACHE_HOME"] = kept
        self._note("auto", sessions, "live sessions that `--sessions auto` admits", "streamer serve --sessions auto")
        more = max(sessions + 1, round(OVER * sessions))
        report, command = self._load((sessions, more), "--second-pass", value)
        for level, name, words in zip(
            report["levels"], ("auto", "over"), ("so many", f"{OVER} times as many"), strict=True
        ):
            for kind, what in (("partial", "partials"), ("last", "last words")):
                if level["delays_s"][kind] is not None:  # else nobody came to the end of the recording
                    delay = level["delays_s"][kind]["p95"]
                    self._note(f"{name}_{kind}", delay, f"s, 95 % of {what}, {words}", command)

    def _memory(self) -> None:
        for gigabytes, instances in ((2, 1), (4, 2), (8, 2)):
            words = ["plan", "--no-measure", "--json", "--instances", str(instances), "--memory", str(gigabytes)]
            plan = json.loads(self._command(words))
            meaning = f"slots in each of {instances} instances for which {gigabytes} GB have room"
            self._note(f"slots_{gigabytes}gb", plan["fits"]["slots"], meaning, f"streamer {' '.join(words)}")

    def _derive(self) -> None:
        """Note what follows from the figures: what deployments use."""
        names = [name for name in ("sessions_second_pass", "sessions_reader") if name in self._found]
        carried = min(self._found[name].value for name in names)
        self._note("carried", carried, "live sessions, whatever they ask for", f"the smaller of {' and '.join(names)}")
        self._note("scaled", int(SCALED * carried), "slots in use for another recogniser", f"{SCALED} of carried")

    def _load(self, sessions: Sequence[int], *arguments: str) -> tuple[Report, str]:
        words = ["load", "--server", "embedded", "--sessions", ",".join(map(str, sessions))]
        words += ["--seconds", f"{self._effort.seconds:g}", *arguments]
        with TemporaryDirectory(prefix="figures-") as folder:
            file = Path(folder) / "load.json"
            self._command([*words, "--json", str(file)], file)
            report: Report = json.loads(file.read_text(encoding="utf-8"))
        if len(report["levels"]) < len(sessions) or not all(level["whole"] for level in report["levels"]):
            raise NotMeasured(f"streamer {' '.join(words)} was not measured to its end: {report['why']}")
        return report, f"streamer {' '.join(words)}"

    def _command(self, words: Sequence[str], file: Path | None = None) -> str:
        self._tell(f"streamer {' '.join(words)}")
        command = [sys.executable, "-m", "streamer", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        if done.returncode and not (file and file.exists()):
            raise NotMeasured(f"streamer {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def _note(self, name: str, value: float, meaning: str, command: str) -> None:
        self._found[name] = Figure(round(value, 3), meaning, command)
        self._tell(f"  {name} = {value:.3g}: {meaning}")


def crossing(levels: Sequence[Report], bounds_s: Mapping[str, float]) -> int:
    """Return with how many sessions 95 of 100 delays come within the bounds: interpolated, or the most measured."""
    below: Report | None = None
    for level in levels:
        if any(level["delays_s"][kind] is None for kind in bounds_s) and not level["failed"]:
            continue  # so few sessions that nobody came to the end of the recording
        late = {kind: bound for kind, bound in bounds_s.items() if _p95(level, kind) > bound}
        refused = bool(level["refused"] or level["failed"])
        if refused or late:
            if below is None:
                return 0
            if refused:
                return int(below["sessions"])
            return int(min(_between(below, level, kind, bound) for kind, bound in late.items()))
        below = level
    return 0 if below is None else int(below["sessions"])


def _between(below: Report, above: Report, kind: str, bound: float) -> float:
    low, high = _p95(below, kind), _p95(above, kind)
    part = (bound - low) / (high - low)
    return float(below["sessions"] + part * (above["sessions"] - below["sessions"]))


def _p95(level: Report, kind: str) -> float:
    delays = level["delays_s"][kind]
    return float("inf") if delays is None else float(delays["p95"])


def cost(level: Report) -> float:
    """Return the processor time of the service, in ms for a second of audio."""
    return sum(work["cpu_ms_per_audio_s"] or 0.0 for work in service(level))


def memory(level: Report) -> float:
    """Return the memory of the service in MB, without mapped files."""
    return float(sum(work["memory_mb"] for work in service(level)))


def service(level: Report) -> list[Report]:
    """Return what the processes of the service used, without those that measure."""
    return [work for name, work in level["processes"].items() if name not in ("clients", "this command")]


def commit() -> str:
    """Return which version of the code measures."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=FILE.parent
    )
    return done.stdout.strip()


def _busy_s() -> float:
    """Return the time for which all processors were busy."""
    fields = (ROOT / "proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    ticks = [int(each) for each in fields]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Return the processor time of this process and of all that it has waited for."""
    return sum(os.times()[:4])
