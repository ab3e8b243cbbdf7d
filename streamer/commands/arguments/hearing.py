"""The arguments of commands that recognise a manifest: which recordings, and with which service or engine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.commands.arguments.key import add_key_argument
from streamer.commands.arguments.model import add_model_argument, model_folder
from streamer.commands.arguments.parser import add_server_argument, count
from streamer.commands.arguments.recognition import add_recognition_arguments, options_with_second_pass

if TYPE_CHECKING:
    from streamer.evaluate.evaluation import Setup

PRECISIONS: Final = ("float32", "bfloat16")
HALVES: Final = ("first", "second")


def add_hearing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments. `evaluate` has them, and so have scripts that do more with the results."""
    add = parser.add_argument
    add("manifest", metavar="MANIFEST", help="a table of recordings and what is said in them")
    way = parser.add_mutually_exclusive_group()
    add_server_argument(way, "the service to evaluate")
    add_key_argument(parser)
    add_model_argument(parser)
    way.add_argument("--engine", action="store_true", help="use the bare engine in this process, not a service")
    add("--bundle", type=Path, metavar="FOLDER", help="with --engine: the folder of another model")
    add("--precision", choices=PRECISIONS, help="with --engine: the number format (what suits the machine)")
    add("--sessions", type=count, metavar="N", default=8, help="how many recordings at the same time (8)")
    add_recognition_arguments(parser)
    parser.set_defaults(step_ms=320)
    add(
        "--written",
        action="store_const",
        const=True,
        help="recognise the written form, and judge its marks and capitals where the manifest has them",
    )
    add("--corpus", action="append", default=[], metavar="NAME", help="only this corpus; may be given several times")
    add("--half", choices=HALVES, help="only this half: fit values on the first and judge them on the second")
    add("--limit", type=count, metavar="N", help="only this many recordings, evenly spread and always the same")


def hearing_setup(options: argparse.Namespace, *, paced: bool = False) -> Setup:
    """Return the setup that the arguments describe."""
    from streamer.evaluate.evaluation import Setup

    folder = options.bundle or model_folder(options)
    return Setup(options_with_second_pass(options), options.sessions, options.engine, paced, folder, options.precision)
