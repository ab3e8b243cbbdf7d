"""The command `streamer roll`: replaces the model of a running service without interrupting a session."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from streamer.base.address import DEFAULT_PORT
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL, RETIRE_BOUNDS_S, RETIRE_LIMIT_S
from streamer.base.names import check_name
from streamer.base.text import as_sentence
from streamer.commands.arguments import USAGE, add_socket_arguments, argument
from streamer.commands.service import OperatorError, ask_service, socket_of_service
from streamer.commands.settings.kinds import Number

# The longest silence of a service between two reports: a model that others use too is watched for ten minutes.
SILENCE_S: Final = 700.0

EXAMPLES: Final = """\
NAME is the folder of the new model in Triton's model repository, beside the folder of the present one. Each Triton that
can load models loads it, and the new model has to answer a short test there. Then new sessions use it, other sessions
change to it at their next cut, and the former model is unloaded. If anything fails, nothing changes.
docs/how-to/upgrades.md explains more.

examples:
  cp -r better/ models/streaming_asr_2 && streamer roll streaming_asr_2
  streamer roll streaming_asr                              back to the former model
  streamer roll streaming_asr_2 --port 9000                in the service on another port
  kubectl exec bridge-0 -- streamer roll streaming_asr_2

It must run on the machine (or in the container) of the service, as the same user. The exit status is 0 when the new
model is in use. Start the service with `--model NAME` from then on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer roll`."""
    add = parser.add_argument
    add("model", metavar="NAME", help="the new model")
    add_socket_arguments(parser, str(DEFAULT_PORT))
    add(
        "--name",
        default=DEFAULT_MODEL,
        metavar="PUBLIC",
        help=f"the public name that will stand for the new model ({DEFAULT_MODEL})",
    )
    add(
        "--limit",
        type=argument(Number(*RETIRE_BOUNDS_S)),
        metavar="SECONDS",
        help="how long sessions may take to reach a cut; then they are moved as if the former model had failed "
        f"({RETIRE_LIMIT_S:g})",
    )


def run(options: argparse.Namespace) -> int:
    """Ask the service to replace the model, and print its reports. Return the exit status."""
    try:
        request: JsonObject = {"roll": check_name(options.model), "name": options.name}
    except ValueError as error:
        print(f"streamer: {as_sentence(error)}", file=sys.stderr)
        return USAGE
    if options.limit is not None:
        request["limit_s"] = options.limit
    path = socket_of_service(options.port or DEFAULT_PORT, options.control)
    try:
        for answer in ask_service(path, request, SILENCE_S + (options.limit or 0)):
            kind, sentence = next(iter(answer.items()))
            print(f"streamer: {sentence}", file=sys.stderr, flush=True)
            if kind != "told":
                return 0 if kind == "done" else 1
    except OperatorError as error:
        print(f"streamer: {error}", file=sys.stderr)
    return 1
