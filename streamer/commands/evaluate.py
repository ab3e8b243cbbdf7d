"""The command `streamer evaluate`: what it accepts. What runs it is loaded only when it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from streamer.commands.arguments.parser import add_server_argument, count, number
from streamer.commands.arguments.recognition import add_recognition_arguments
from streamer.distribution import install_command

PRECISIONS: Final = ("float32", "bfloat16")
HALVES: Final = ("first", "second")

EXAMPLES: Final = """\
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


def add_hearing_arguments(parser: argparse.ArgumentParser) -> None:
    """What is heard of a manifest, and through what: `evaluate` takes these, and so do scripts that do more with it."""
    add = parser.add_argument
    add("manifest", metavar="MANIFEST", help="which recordings there are, and what is said in them")
    way = parser.add_mutually_exclusive_group()
    add_server_argument(way, "the service to evaluate")
    way.add_argument("--engine", action="store_true", help="the bare engine in this process instead of a service")
    add("--bundle", type=Path, metavar="FOLDER", help="with --engine: another model than the one that is shipped")
    add("--precision", choices=PRECISIONS, help="with --engine: what the model computes in (what suits the machine)")
    add("--sessions", type=count, metavar="N", default=8, help="recordings at once (8)")
    add_recognition_arguments(parser)
    parser.set_defaults(step_ms=320)
    add("--corpus", action="append", default=[], metavar="NAME", help="only this corpus; may be given several times")
    add("--half", choices=HALVES, help="what is fitted is fitted on the first half and judged on the second")
    add("--limit", type=count, metavar="N", help="only so many recordings, evenly spread and always the same")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `evaluate` accepts."""
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
    add("--worst", type=number, metavar="N", default=5, help="show so many recordings with the most errors (5)")
    add("--json", metavar="PATH", help="write the report for a program")
    add("--hypotheses", metavar="PATH", help="write what was understood of every recording, a JSON object a line")


def run(options: argparse.Namespace) -> int:
    """Evaluates; the exit status."""
    try:
        from streamer.evaluate.evaluation import evaluate
    except ImportError as error:
        print(f"streamer: evaluate needs {error.name}: {install_command('evaluate')}.", file=sys.stderr)
        return 1
    return evaluate(options)
