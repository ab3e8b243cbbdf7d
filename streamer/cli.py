"""The command line: `streamer FILE…` transcribes, other commands have names of their own.

Only the standard library is imported here, so that --help is quick and a server can start before the rest.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from streamer import __version__
from streamer.address import DEFAULT_HOST, DEFAULT_PORT, websocket_url
from streamer.recordings import EMBEDDED, STDIN, transcribe_files
from streamer.transcript import FORMATS
from streamer.wire.native import STEPS_MS

USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_EXAMPLES: Final = """\
commands:
  streamer FILE…          transcribe recordings (what this page is about)
  streamer serve          run the service for other programs; see streamer serve --help

examples:
  streamer talk.wav                        the words as they come
  streamer --format srt -o subs/ *.mp3     subtitles for each recording, into an existing folder
  streamer --format json a.flac b.ogg      one JSON object a recording
  streamer --server example.org:8080 a.wav a service that runs elsewhere does the work
  arecord -t raw -f S16_LE -r 16000 -c 1 | streamer -
                                           sound from another program: raw PCM, int16, mono, 16 kHz
  streamer ./serve                         a recording that is named like a command

Transcripts go to standard output, everything else to standard error. The exit status is 0 only if every
recording was transcribed."""


@dataclass(frozen=True)
class Command:
    """A command with a name of its own: what it accepts, and what runs it."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    summary: str


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(USAGE, f"streamer: {message.rstrip('.')}; see {self.prog} --help.\n")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        if arguments and arguments[0] in COMMANDS:
            command = COMMANDS[arguments[0]]
            parser = Parser(prog=f"streamer {arguments[0]}", description=command.summary, allow_abbrev=False)
            command.add_arguments(parser)
            return command.run(parser.parse_args(arguments[1:]))
        return _transcribe(_file_parser(), arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more when it flushes at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _prepare_streams() -> None:
    """Nothing that is written may fail because of a closed stream or a name that is not UTF-8."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _file_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="streamer",
        usage="streamer [options] FILE…\n       streamer COMMAND [options]",
        description="Writes down what is said in recordings, while it is still being read.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="WAV, FLAC, OGG/Opus or MP3; - is raw PCM on standard input")
    add("--format", choices=FORMATS, default="text", help="of the transcript (text)")
    add("-o", "--output", metavar="PATH", help="a file, or an existing folder for a file each")
    add("--paced", action="store_true", help="as fast as it was spoken, instead of as fast as possible")
    add(
        "--server",
        metavar="URL",
        type=_server,
        help=f"the service to use, as ws://host:port or host:port; '{EMBEDDED}' starts one for this command. "
        f"Without it a service on port {DEFAULT_PORT} of this machine is used if there is one.",
    )
    add("--step-ms", type=int, choices=STEPS_MS, help="how much sound is recognised at once (320)")
    add("--timing", action="store_true", help="say on standard error where the time goes")
    add("--version", action="version", version=f"streamer {__version__}")
    return parser


def _transcribe(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    # What follows `--` is a file whatever it looks like; argparse mistakes it when options may stand anywhere.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_intermixed_args(arguments[:end])
    options.files += arguments[end + 1 :]
    if not options.files:
        parser.error("name a recording")
    if options.files.count(STDIN) > 1:
        parser.error("- stands for standard input, which can be read only once")
    return transcribe_files(options)


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default=DEFAULT_HOST, help=f"address to listen on ({DEFAULT_HOST})")
    add("--port", type=_port, default=DEFAULT_PORT, help=f"port to listen on, 0 for any free one ({DEFAULT_PORT})")
    add("--instances", type=_count, help="processes that recognise (as in the model's config.pbtxt)")
    add("--slots", type=_count, help="streams for each of them (as in the model's config.pbtxt)")


def _serve(options: argparse.Namespace) -> int:
    from streamer.serve import serve

    return serve(options)


def _server(text: str) -> str:
    if text == EMBEDDED:
        return text
    try:
        return websocket_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: it is a number from 0 to 65535.")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of them: it is 1 or more.")
    return int(text)


COMMANDS: Final = {
    "serve": Command(_add_serve_arguments, _serve, "Runs the service until it is told to stop."),
}
