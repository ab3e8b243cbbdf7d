"""What a command line may say of hearing a manifest: which part of it, and through what."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.commands.arguments.key import add_key_argument
from streamer.commands.arguments.parser import add_server_argument, count
from streamer.commands.arguments.recognition import add_recognition_arguments, session_options

if TYPE_CHECKING:
    from streamer.evaluate.evaluation import Setup

PRECISIONS: Final = ("float32", "bfloat16")
HALVES: Final = ("first", "second")


def add_hearing_arguments(parser: argparse.ArgumentParser) -> None:
    """What is heard of a manifest, and through what: `evaluate` takes these, and so do scripts that do more with it."""
    add = parser.add_argument
    add("manifest", metavar="MANIFEST", help="which recordings there are, and what is said in them")
    way = parser.add_mutually_exclusive_group()
    add_server_argument(way, "the service to evaluate")
    add_key_argument(parser)
    way.add_argument("--engine", action="store_true", help="the bare engine in this process instead of a service")
    add("--bundle", type=Path, metavar="FOLDER", help="with --engine: another model than the one that is shipped")
    add("--precision", choices=PRECISIONS, help="with --engine: what the model computes in (what suits the machine)")
    add("--sessions", type=count, metavar="N", default=8, help="recordings at once (8)")
    add_recognition_arguments(parser)
    parser.set_defaults(step_ms=320)
    add("--corpus", action="append", default=[], metavar="NAME", help="only this corpus; may be given several times")
    add("--half", choices=HALVES, help="what is fitted is fitted on the first half and judged on the second")
    add("--limit", type=count, metavar="N", help="only so many recordings, evenly spread and always the same")


def hearing_setup(options: argparse.Namespace, *, paced: bool = False) -> Setup:
    """What these arguments ask for."""
    from streamer.evaluate.evaluation import Setup

    return Setup(session_options(options), options.sessions, options.engine, paced, options.bundle, options.precision)
