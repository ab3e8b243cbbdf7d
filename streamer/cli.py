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
from streamer.wire.options import ENCODINGS
from streamer.wishes import add_recognition_arguments, option

CHANNELS: Final = ("mix", "separate")
PRECISIONS: Final = ("float32", "bfloat16")
HALVES: Final = ("first", "second")
USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_EXAMPLES: Final = """\
commands:
  streamer FILE…          transcribe recordings (what this page is about)
  streamer serve          run the service for other programs; see streamer serve --help
  streamer key NAME       make an API key for it
  streamer evaluate       error rates, speed and delays on recordings with references; see streamer evaluate --help

examples:
  streamer talk.wav                        the words as they come
  streamer --format srt -o subs/ *.mp3     subtitles for each recording, into an existing folder
  streamer --format json a.flac b.ogg      one JSON object a recording
  streamer --server example.org:8080 a.wav a service that runs elsewhere does the work
  STREAMER_KEY=… streamer --server wss://example.org a.wav   … which asks for a key
  arecord -t raw -f S16_LE -r 16000 -c 1 | streamer -
                                           sound from another program: raw PCM, int16, mono, 16 kHz
  … | streamer --encoding mulaw --sample-rate 8000 -
                                           the sound of a telephone
  streamer --channels separate call.wav    a speaker a side: each line tells its channel, counted from 1
  streamer --hotword kubernetes --written talk.wav
  streamer ./serve                         a recording that is named like a command

Transcripts go to standard output, everything else to standard error. The exit status is 0 only if every
recording was transcribed."""

_EVALUATE_EXAMPLES: Final = """\
A manifest is a table with tabs and a header: `file` and `text`, and perhaps `corpus` and `speaker`; or `shard`,
`member` and `text` for audio inside tar files. Paths are relative to it. docs/evaluation.md says the rest: what counts
as the same word, and what the figures mean.

examples:
  streamer evaluate audio_samples/samples.tsv
  streamer evaluate dev.tsv --limit 100 --worst 10        a part of it, evenly spread
  streamer evaluate dev.tsv --engine --step-ms 640        without Triton: the same words, sooner
  streamer evaluate dev.tsv --json a.json --hypotheses a.jsonl
  streamer evaluate dev.tsv --paced --sessions 32 --alignment dev.phones.jsonl
  streamer evaluate dev.tsv --engine --half second --alignment dev.phones.jsonl --compare step-ms=160,320,640

The exit status is 0 only if every utterance was heard to its end."""


_KEY_EXAMPLES: Final = """\
The line for the file of `serve --keys` goes to standard output, the key itself to standard error, once: the file has
only its hash.

example:
  streamer key alice >> keys          shows the key of alice, and lets her in, without a restart
  streamer serve --keys keys
  STREAMER_KEY=streamer_… streamer --server wss://example.org talk.wav

Who takes a line out of the file ends that key."""


@dataclass(frozen=True)
class Command:
    """A command with a name of its own: what it accepts, and what runs it."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    summary: str
    epilog: str | None = None


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
            parser = Parser(
                prog=f"streamer {arguments[0]}",
                description=command.summary,
                epilog=command.epilog,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
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
    add("--timing", action="store_true", help="say on standard error where the time goes")
    add("--version", action="version", version=f"streamer {__version__}")
    add(
        "--channels",
        choices=CHANNELS,
        default=CHANNELS[0],
        help="mix them, or recognise each on its own and say which one it was (mix)",
    )
    add_recognition_arguments(parser.add_argument_group("what is recognised, and how it is told"))
    add = parser.add_argument_group("the raw PCM on standard input").add_argument
    add("--encoding", choices=ENCODINGS, help=f"of its samples ({ENCODINGS[0]})")
    add("--sample-rate", type=option("sample_rate", int), metavar="HZ", help="samples a second (16000)")
    add("--input-channels", type=option("channels", int), metavar="N", help="how many are interleaved (1)")
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
    if STDIN not in options.files and (options.encoding or options.sample_rate or options.input_channels):
        parser.error("--encoding, --sample-rate and --input-channels are about raw PCM: name - for standard input")
    return transcribe_files(options)


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default=DEFAULT_HOST, help=f"address to listen on ({DEFAULT_HOST})")
    add("--port", type=_port, default=DEFAULT_PORT, help=f"port to listen on, 0 for any free one ({DEFAULT_PORT})")
    add(
        "--triton",
        type=_tritons,
        metavar="HOST:PORT[,…]",
        help="gRPC addresses of Tritons that run already, instead of an embedded one; a name may stand for several",
    )
    add("--instances", type=_count, help="processes that recognise (as in the model's config.pbtxt)")
    add("--slots", type=_count, help="streams for each of them (as in the model's config.pbtxt)")
    from streamer.bridge.logs import FORMATS as LOG_FORMATS
    from streamer.bridge.logs import LEVELS
    from streamer.doorkeeper import add_entrance_arguments

    add("--log-format", choices=LOG_FORMATS, default="text", help="of the log on standard error (text)")
    add("--log-level", choices=LEVELS, default="info", help="the least that is logged (info)")
    add("--traces", metavar="URL", help="send OpenTelemetry traces to this collector (OTLP over gRPC)")
    add_entrance_arguments(parser)


def _serve(options: argparse.Namespace) -> int:
    from streamer.serve import serve

    return serve(options)


def _add_key_arguments(parser: argparse.ArgumentParser) -> None:
    from streamer.doorkeeper import add_key_arguments

    add_key_arguments(parser)


def _key(options: argparse.Namespace) -> int:
    from streamer.doorkeeper import print_key

    return print_key(options)


def add_hearing_arguments(parser: argparse.ArgumentParser) -> None:
    """What is heard of a manifest, and through what: `evaluate` takes these, and so do scripts that do more with it."""
    add = parser.add_argument
    add("manifest", metavar="MANIFEST", help="which recordings there are, and what is said in them")
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--server",
        metavar="URL",
        type=_server,
        help=f"the service to evaluate, as ws://host:port or host:port; '{EMBEDDED}' starts one for this command. "
        f"Without it a service on port {DEFAULT_PORT} of this machine is used if there is one.",
    )
    way.add_argument("--engine", action="store_true", help="the bare engine in this process instead of a service")
    add("--bundle", type=Path, metavar="FOLDER", help="with --engine: another model than the one that is shipped")
    add("--precision", choices=PRECISIONS, help="with --engine: what the model computes in (what suits the machine)")
    add("--sessions", type=_count, metavar="N", default=8, help="recordings at once (8)")
    add_recognition_arguments(parser)
    parser.set_defaults(step_ms=320)
    add("--corpus", action="append", default=[], metavar="NAME", help="only this corpus; may be given several times")
    add("--half", choices=HALVES, help="what is fitted is fitted on the first half and judged on the second")
    add("--limit", type=_count, metavar="N", help="only so many recordings, evenly spread and always the same")


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    add_hearing_arguments(parser)
    add = parser.add_argument
    add("--paced", action="store_true", help="as fast as it was spoken, live: real delays, not only real words")
    add("--alignment", metavar="FILE", help="where words lie, as JSON lines or CTM: judges times, tells delays")
    add(
        "--compare",
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE…",
        help="a table with a line for each value of another option, such as step-ms=160,320,640; of several: "
        "for each combination",
    )
    add("--worst", type=_number, metavar="N", default=5, help="show so many recordings with the most errors (5)")
    add("--json", metavar="PATH", help="write the report for a program")
    add("--hypotheses", metavar="PATH", help="write what was understood of every recording, a JSON object a line")


def _evaluate(options: argparse.Namespace) -> int:
    try:
        from streamer.evaluate.command import evaluate
    except ImportError as error:
        print(f"streamer: evaluate needs {error.name}: pip install 'streamer[evaluate]'.", file=sys.stderr)
        return 1
    return evaluate(options)


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


def _tritons(text: str) -> list[str]:
    addresses = [address.strip() for address in text.split(",")]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
            raise argparse.ArgumentTypeError(f"'{address}' is no address of a Triton: that is HOST:PORT.")
    return addresses


def _number(text: str) -> int:
    return 0 if text.isdecimal() and int(text) == 0 else _count(text)


COMMANDS: Final = {
    "serve": Command(_add_serve_arguments, _serve, "Runs the service until it is told to stop."),
    "key": Command(_add_key_arguments, _key, "Makes an API key for the service.", _KEY_EXAMPLES),
    "evaluate": Command(
        _add_evaluate_arguments,
        _evaluate,
        "Lets a service hear recordings with references, and reports how well and how soon it understood.",
        _EVALUATE_EXAMPLES,
    ),
}
