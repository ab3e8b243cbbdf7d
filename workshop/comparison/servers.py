"""The server of sherpa-onnx beside ours: the same model folder, recordings, clients and machine, in turn."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from streamer.commands.traffic.processes import listener
from streamer.commands.traffic.ramp import FASTEST_S, RAMP_S, SETTLE_S, WARM_UP_S
from streamer.models.layout import ContextTransducer
from streamer.models.model_folder import read_model_folder
from workshop.figures.measured import crossing, service

PROGRAM: Final = "sherpa-onnx-online-websocket-server"
START_LIMIT_S: Final = 120.0
POLL_S: Final = 0.1
BATCH: Final = 32
OURS, THEIRS = "Streamer", "sherpa-onnx"
# Both are compared by the sessions of which 95 of 100 have their last words within this time.
SOON_S: Final = 0.35
# What a measurement takes besides its levels, and a level besides its ramp and its seconds: about.
START_S: Final = 10.0
END_S: Final = 3.0


class NotMeasured(Exception):
    """One of the servers could not be measured. The message says why."""


@dataclass(frozen=True)
class Comparison:
    """What is measured: the levels, and with which recordings, for how long and how often."""

    model: Path
    sessions: str  # as `streamer load` takes them
    seconds: float
    rounds: int
    recordings: Sequence[str]
    serve: str  # settings of our service

    @property
    def round_s(self) -> float:
        """About how long a round takes in which both keep up. Sessions that are late make it longer."""
        levels = [int(each) for each in self.sessions.split(",")]
        ramps = sum(min(RAMP_S, FASTEST_S * each) + SETTLE_S + self.seconds + END_S for each in levels)
        return 2 * (START_S + WARM_UP_S + ramps)


Report = Mapping[str, Any]
"""What `streamer load --json` writes."""


def compare(
    comparison: Comparison, program: Path, threads: int, tell: Callable[[str], None]
) -> dict[str, list[Report]]:
    """Measure both servers in turn, and return the reports of all rounds of each."""
    reports: dict[str, list[Report]] = {THEIRS: [], OURS: []}
    for number in range(1, comparison.rounds + 1):
        tell(f"round {number} of {comparison.rounds}, about {comparison.round_s / 60:.1f} minutes: {THEIRS}")
        with sherpa(program, comparison.model, threads) as address:
            reports[THEIRS].append(load(comparison, "--server", address, "--format", "sherpa-onnx"))
        tell(f"round {number} of {comparison.rounds}: {OURS}")
        serve = ("--serve", comparison.serve) if comparison.serve else ()
        # The second pass is ours alone, so live sessions have none here.
        reports[OURS].append(load(comparison, "--server", "embedded", "--model", str(comparison.model), *serve))
    return reports


@contextmanager
def sherpa(program: Path, model: Path, threads: int) -> Iterator[str]:
    """Run the server of sherpa-onnx with this model, and yield its address.

    It cannot be told at which address to listen, so it listens at all of them, on a port that was free.
    """
    port = _free_port()
    command = [
        str(program),
        f"--port={port}",
        f"--num-work-threads={threads}",
        f"--max-batch-size={BATCH}",
        *_files(model),
    ]
    with TemporaryDirectory(prefix="sherpa-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen([*command, f"--log-file={folder}/server"], stdout=stream, stderr=stream)
        try:
            until = time.monotonic() + START_LIMIT_S
            while listener(port) != process.pid:
                if process.poll() is not None or time.monotonic() > until:
                    last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
                    raise NotMeasured(f"{PROGRAM} did not start:\n{last}")
                time.sleep(POLL_S)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def load(comparison: Comparison, *arguments: str) -> Report:
    """Run `streamer load`, and return its report. NotMeasured if there is none."""
    with TemporaryDirectory(prefix="beside-") as folder:
        report = Path(folder) / "load.json"
        command = [sys.executable, "-m", "streamer", "load", "--sessions", comparison.sessions]
        command += ["--seconds", str(comparison.seconds), *arguments, "--json", str(report), *comparison.recordings]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise NotMeasured(done.stderr.strip() or done.stdout.strip())
        found: Report = json.loads(report.read_text())
        return found


def table(reports: Mapping[str, Sequence[Report]]) -> str:
    """Return a row for each level and server: medians of all rounds, with the least and the most in brackets."""
    lines = [
        f"| {' | '.join(_HEADS)} |",
        f"| ---: | --- |{' ---: |' * (len(_HEADS) - 2)}",
    ]
    for number in range(max(len(report["levels"]) for rounds in reports.values() for report in rounds)):
        for name, rounds in reports.items():
            levels = [report["levels"][number] for report in rounds if number < len(report["levels"])]
            if levels:
                lines.append(_row(name, levels))
    return "\n".join(lines)


def knees(reports: Mapping[str, Sequence[Report]]) -> Iterator[str]:
    """Yield a sentence about the knee of each server."""
    for name, rounds in reports.items():
        found = [report["knee"] for report in rounds if report["knee"] is not None]
        if not found:
            continue
        sessions = spread([each["sessions"] for each in found], ".0f")
        if any(each["limit"] == "not reached" for each in found):
            yield f"{name}: the knee was not reached in each round; it is beyond {sessions} sessions."
        elif any(each["sessions"] == 0 for each in found):
            yield f"{name}: in some rounds not even the first number of sessions holds."
        else:
            yield f"{name}: the knee is at {sessions} sessions."


def ratio(reports: Mapping[str, Sequence[Report]]) -> Iterator[str]:
    """Yield how many sessions each server carries in time, interpolated, and what part of theirs ours are."""
    carried = {
        name: [crossing(report["levels"], {"last": SOON_S}) for report in rounds] for name, rounds in reports.items()
    }
    for name, sessions in carried.items():
        yield f"{name}: {spread(sessions, '.0f')} sessions with 95 of 100 last words within {SOON_S} s."
    parts = [ours / theirs for ours, theirs in zip(carried[OURS], carried[THEIRS], strict=True) if theirs]
    if parts:
        yield f"{OURS} carries {spread(parts, '.2f')} times as many as {THEIRS}."


def section(page: str, text: str) -> str:
    """Return the page with this text between the marks of the comparison."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise NotMeasured(f"the page has no marks for the comparison: {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


BEGIN: Final = "<!-- Written by `python scripts/measure/beside_sherpa.py --page`. -->\n"
END: Final = "<!-- The end of the comparison. -->\n"


def spread(values: Sequence[float], form: str) -> str:
    """Return the median of some values, with the least and the most if they differ as they are written."""
    middle, least, most = (format(value, form) for value in (median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least}-{most})"


_HEADS: Final = (
    "sessions",
    "server",
    "last words p50 s",
    "p95 s",
    "words p50 s",
    "wrong words %",
    "ms for a second of audio",
    "memory MB",
    "refused",
)


def _row(name: str, levels: Sequence[Mapping[str, Any]]) -> str:
    cells = [str(levels[0]["sessions"]), name]
    for kind, part in (("last", "p50"), ("last", "p95"), ("word", "p50")):
        values = [delays[part] for level in levels if (delays := level["delays_s"][kind]) is not None]
        cells.append(spread(values, ".2f") if values else "-")
    rates = [100 * level["words"]["rate"] for level in levels if level["words"]["rate"] is not None]
    cells.append(spread(rates, ".1f") if rates else "-")
    used = [_used(level) for level in levels]
    for position, form in ((0, ".1f"), (1, ".0f")):
        cells.append(spread([each[position] for each in used], form))
    cells.append(spread([sum(level["refused"].values()) for level in levels], ".0f"))
    return f"| {' | '.join(cells)} |"


def _used(level: Report) -> tuple[float, float]:
    """Return the processor time for a second of audio, and the memory, of all processes but those that measure."""
    parts = service(level)
    return sum(work["cpu_ms_per_audio_s"] or 0.0 for work in parts), sum(work["memory_mb"] for work in parts)


def _files(model: Path) -> Iterator[str]:
    public = read_model_folder(model)
    transducer = public.transducer
    if not isinstance(transducer, ContextTransducer):
        raise NotMeasured(f"{model} is no transducer of icefall, as {THEIRS} loads it")
    yield f"--encoder={public.encoder.path}"
    yield f"--decoder={transducer.predictor.path}"
    yield f"--joiner={transducer.joiner.path}"
    yield f"--tokens={model / 'tokens.txt'}"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
