"""The command `streamer load`: live sessions at the pace of speech, more and more of them, and what they wait for.

The library for this is imported only when the command runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from streamer.base.json_types import JsonObject
from streamer.base.package import install_command, shipped
from streamer.base.text import as_sentence
from streamer.bridge.triton import TritonError
from streamer.commands.arguments import (
    USAGE,
    add_key_argument,
    add_model_argument,
    add_server_argument,
    count,
    error_text,
    model_choice,
)
from streamer.commands.recognition import add_recognition_arguments, session_options
from streamer.commands.service import EMBEDDED, choose_service
from streamer.commands.terminal.status_lines import StatusLines, is_terminal

if TYPE_CHECKING:
    from streamer.commands.traffic.clients import Plan, Recording
    from streamer.commands.traffic.ramp import Measurement
    from streamer.commands.traffic.report import About
    from streamer.commands.traffic.results import Level

NATIVE: Final = "native"
SHERPA: Final = "sherpa-onnx"
FORMATS: Final = (NATIVE, "deepgram", SHERPA)
SPEECH: Final = "audio_samples/talk.flac"
SECONDS: Final = 30.0
LOCAL: Final = ("127.0.0.1", "localhost", "::1")

EXAMPLES: Final = """\
Each session speaks a recording as fast as a person does, then the next one. At each number of sessions, all of them
speak for some seconds (--seconds), and then stop. Without --sessions, the number is doubled until the service does not
keep up or refuses sessions. The clients are processes of their own on this machine. If the service is on this machine
too, both share its processors, and the report says what each of them used.

A recording needs its text beside it, if wrong words are to be counted: talk.flac and talk.txt. Without recordings, one
that Streamer brings along is spoken.

Without a service (see --server), one is started: `streamer serve`, with the settings in --serve.

examples:
  streamer load                                          until the service does not keep up
  streamer load --sessions 8,16,24 --seconds 20          these numbers of sessions
  streamer load --server 127.0.0.1:8080 --sessions 40 --second-pass on
  streamer load --serve '--instances 2 --slots 128' --json load.json --picture load.svg
  streamer load --server captions.example.org --format deepgram calls/*.flac

The exit status is 0 only if every session was admitted and ended in order. docs/how-to/load.md explains the figures."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer load`."""
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="recordings to speak, each with its text beside it (a talk of 25 s)")
    add(
        "--sessions",
        type=_numbers,
        metavar="N,N…",
        help="how many sessions at a time: one number after the other (1,2,4… until the service does not keep up)",
    )
    add("--seconds", type=_seconds, default=SECONDS, metavar="S", help=f"how long to measure each number ({SECONDS:g})")
    add_server_argument(parser, "the service to load", several=False)
    add_key_argument(parser)
    add_model_argument(parser)
    add(
        "--serve",
        type=_settings,
        metavar="SETTINGS",
        help="settings of `streamer serve` for the service that is started, such as '--instances 2 --slots 128'",
    )
    add("--format", choices=FORMATS, default=NATIVE, help=f"the format that the sessions speak ({NATIVE})")
    add(
        "--clients",
        type=count,
        metavar="N",
        help="how many client processes (about one for each processor, but few)",
    )
    add(
        "--triton-metrics",
        metavar="ADDRESS",
        help="where a Triton that runs elsewhere gives its metrics, as host:port, for the sizes of batches",
    )
    add("--json", metavar="FILE", help="write the report as JSON")
    add("--picture", metavar="FILE", help="write the curve as a picture (SVG)")
    add_recognition_arguments(parser.add_argument_group("each session, in the native format"))


def run(options: argparse.Namespace) -> int:
    """Measure, and print the report. Return the exit status."""
    try:
        import rapidfuzz  # noqa: F401  counts wrong words, at the end of the first session

        from streamer.audio.recordings import AudioError
        from streamer.commands.traffic.conversations import Refused
        from streamer.commands.traffic.ramp import Measurement
        from streamer.commands.traffic.service import NotStarted
    except ImportError as error:
        return _fail(f"load needs {error.name}: {install_command('evaluate')}")
    result = Measurement()
    try:
        asked = session_options(options)
        _check(options, asked)
        with tempfile.TemporaryDirectory(prefix="streamer-load-") as folder:
            recordings, texts = _recordings(options.files, Path(folder))
            return _measure(options, asked, recordings, texts, result)
    except ValueError as error:
        return _fail(str(error), USAGE)
    except Refused as error:
        return _fail(error_text(error.code, str(error)))
    except (AudioError, NotStarted, TritonError, OSError) as error:
        return _fail(str(error))


def _measure(
    options: argparse.Namespace,
    asked: JsonObject,
    recordings: Sequence[Recording],
    texts: Sequence[str | None],
    result: Measurement,
) -> int:
    from streamer.commands.interrupt import run_until_signal
    from streamer.commands.traffic.clients import Plan
    from streamer.commands.traffic.processes import BRIDGE
    from streamer.commands.traffic.ramp import FIRST_LEVELS, Setup, Source, measure, usual_clients
    from streamer.commands.traffic.report import About
    from streamer.commands.traffic.service import own_service

    choice = model_choice(options)
    where = choose_service(options.server, choice.folder)
    with ExitStack() as stack:
        if where == EMBEDDED:
            _need_linux()
            settings = [*(options.serve or ()), *(("--model", str(choice.folder)) if choice.folder else ())]
            own = stack.enter_context(own_service(settings))
            print("streamer: starting a service for the measurement", file=sys.stderr, flush=True)
            url, source = own.wait_ready(), Source(own.pid, own=own, triton_metrics=options.triton_metrics)
            name = shlex.join(["streamer", "serve", *settings])
        elif options.serve is not None:
            raise ValueError(f"--serve is for a service that is started, but {where} is used: add --server {EMBEDDED}")
        else:
            url = name = where
            process = "server" if options.format == SHERPA else BRIDGE
            source = Source(_listener_at(where), process, triton_metrics=options.triton_metrics)
        plan = Plan(url, options.format, asked, recordings)
        clients = options.clients or usual_clients()
        levels = options.sessions or FIRST_LEVELS
        setup = Setup(plan, texts, levels, options.seconds, clients, until_knee=options.sessions is None)
        names = [each.name for each in recordings]
        missing = [each.name for each, text in zip(recordings, texts, strict=True) if text is None]
        about = About(name, options.format, asked, names, missing, options.seconds, clients)
        display = _Display(about)

        async def work() -> int:
            await _try_session(plan)
            await measure(setup, source, result, display)
            return 0

        status = run_until_signal(work(), tell=display.stop)
        display.clear()
    return _report(options, result, about, status)


def _report(options: argparse.Namespace, result: Measurement, about: About, status: int) -> int:
    from streamer.commands.traffic.picture import draw
    from streamer.commands.traffic.report import content, machine, text
    from streamer.commands.traffic.results import End, complaints

    sys.stdout.write(text(result.levels, result.end, result.why, about))
    sys.stdout.flush()
    try:
        if options.json:
            report = json.dumps(content(result.levels, result.end, result.why, about), ensure_ascii=False, indent=1)
            Path(options.json).write_text(f"{report}\n", encoding="utf-8")
        if options.picture:
            picture = draw(result.levels, f"{about.service}; {machine()}")
            Path(options.picture).write_text(picture, encoding="utf-8")
    except OSError as error:
        return _fail(f"{error.filename} cannot be written: {error.strerror}")
    if status:
        return status
    if result.end is not End.WHOLE or any(complaints(result.levels)):
        return 1
    return 0


async def _try_session(plan: Plan) -> None:
    """Open a session and close it. Refused if there is no service, or if it refuses what is asked for."""
    from streamer.commands.traffic.conversations import CONVERSATIONS

    conversation = CONVERSATIONS[plan.format](plan.url, plan.options)
    try:
        await conversation.open()
    finally:
        await conversation.close()


def _recordings(names: Sequence[str], folder: Path) -> tuple[list[Recording], list[str | None]]:
    """Write the samples of each recording into this folder, and return them with the texts beside the recordings."""
    from streamer.audio.audio_file import read_audio
    from streamer.commands.traffic.clients import Recording

    recordings, texts = [], list[str | None]()
    for number, name in enumerate(names or [str(shipped(SPEECH))]):
        path = folder / f"{number}.pcm"
        path.write_bytes(read_audio(name).tobytes())
        recordings.append(Recording(Path(name).name, str(path)))
        beside = Path(name).with_suffix(".txt")
        texts.append(beside.read_text(encoding="utf-8") if beside.is_file() else None)
    return recordings, texts


def _listener_at(url: str) -> int | None:
    """Return the process of a service on this machine."""
    from streamer.commands.traffic.processes import listener

    parts = urlsplit(url)
    return listener(parts.port) if parts.hostname in LOCAL and parts.port is not None else None


def _check(options: argparse.Namespace, asked: JsonObject) -> None:
    """Raise ValueError if arguments contradict each other, before anything starts."""
    if asked and options.format != NATIVE:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise ValueError(f"sessions in the format {options.format} have no options: leave out {names}")
    for path in (options.json, options.picture):
        if path and not Path(path).parent.is_dir():
            raise ValueError(f"{path}: the folder {Path(path).parent} does not exist")


def _need_linux() -> None:
    if sys.platform != "linux":
        raise TritonError(
            "no service was named, no service on this machine is ready, and a service needs Triton, which runs only on "
            "Linux: name a service with --server."
        )


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"must be numbers above 0 with commas between them, not '{text}'")
    return [int(part) for part in parts]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 1 to 86400, not '{text}'")
    return value


def _settings(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"cannot be read ({error})") from None


class _Display:
    """Shows on a terminal what is measured at the moment. Elsewhere, it writes a line for each level."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._lines = StatusLines(sys.stderr) if is_terminal(sys.stderr) else None
        self._number = 1

    def show(self, level: Level, measured_s: float) -> None:
        """Show the present level."""
        from streamer.commands.traffic.report import live_lines

        if self._lines:
            self._lines.show(live_lines(level, measured_s, self._about, self._number))

    def finish(self, level: Level) -> None:
        """Keep the figures of a level that is over."""
        from streamer.commands.traffic.report import level_line

        self._number += 1
        if self._lines:
            self._lines.keep(level_line(level))
        else:
            print(f"streamer: {level_line(level)}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Tell the user what the program waits for after Ctrl-C or SIGTERM."""
        from streamer.commands.interrupt import AGAIN

        self.clear()
        self._lines = None
        print(f"streamer: stopping: ending the sessions and what this command started. {AGAIN}", file=sys.stderr)

    def clear(self) -> None:
        """Erase what changes."""
        if self._lines:
            self._lines.clear()


def _fail(reason: str, status: int = 1) -> int:
    print(f"streamer: {as_sentence(reason)}", file=sys.stderr, flush=True)
    return status
