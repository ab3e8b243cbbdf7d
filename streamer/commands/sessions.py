"""The command `streamer sessions`: lists the live sessions of a running service, and ends one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.base.text import counted, json_text
from streamer.commands.arguments import USAGE, add_socket_arguments
from streamer.commands.service import OperatorError, ask_service, socket_of_service

# How long a service may take to answer, which asks all its workers, and other bridges.
SILENCE_S: Final = 30.0

EXAMPLES: Final = """\
Of each session it lists its key, format, state, age, the audio that was recognised, and how far the recogniser lags
behind: of all workers of the service, and of all bridges that share its store. It never shows words or audio. A session
that is ended gets its finals first; then its client is told that an operator has ended it.

examples:
  streamer sessions                                the sessions of the only service of this machine
  streamer sessions --json | jq '.sessions[] | select(.lag_s > 2) | .id'
  streamer sessions end 4f1c09ab77d2e610           ends one
  streamer sessions --port 9000                    of the service on another port
  kubectl exec bridge-0 -- streamer sessions

It must run on the machine (or in the container) of the service, as the same user. Over HTTP it needs an admin key:
docs/how-to/sessions.md. The exit status is 1 if there is no such service or session, or if sessions may be missing."""

_ACTIONS: Final = ("list", "end")
_HEADINGS: Final = ("id", "key", "format", "model", "state", "age", "audio", "lag", "worker", "bridge")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer sessions`."""
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", help="what to do (list)")
    parser.add_argument("id", nargs="?", metavar="ID", help="the session to end")
    add_socket_arguments(parser, "the only service that runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """List or end sessions. Return the exit status."""
    if (options.action == "end") is not (options.id is not None):
        problem = "end needs the ID of a session" if options.id is None else f"list takes no ID, unlike '{options.id}'"
        print(f"streamer: {problem}; see streamer sessions --help.", file=sys.stderr)
        return USAGE
    request: JsonObject = {"admin": "sessions"} if options.id is None else {"admin": "end", "id": options.id}
    try:
        answer = next(ask_service(socket_of_service(options.port, options.control), request, SILENCE_S))
    except OperatorError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return 1
    if "failed" in answer:
        print(f"streamer: {answer['failed']}", file=sys.stderr)
        return 1
    done = answer["done"]
    assert isinstance(done, dict)
    if options.json:
        print(json_text(done, indent=1))
    elif options.id is not None:
        print(f"session {options.id} is being ended: its client gets its finals first.")
    else:
        print(_table(done["sessions"]))
    for problem in done.get("problems", []):
        print(f"streamer: {problem} Some sessions may be missing here.", file=sys.stderr)
    return 1 if done.get("problems") else 0


def _table(sessions: Sequence[JsonObject]) -> str:
    if not sessions:
        return "No session is live."
    rows = [_HEADINGS, *(_cells(session) for session in sessions)]
    # Without workers and keys, their columns are empty.
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([*lines, f"{counted(len(sessions), 'session')}."])


def _cells(session: JsonObject) -> tuple[str, ...]:
    names = (str(session[name]) for name in ("id", "key", "format", "model", "state"))
    times = (_clock(float(str(session[name]))) for name in ("age_s", "audio_s"))
    return (*names, *times, f"{session['lag_s']} s", str(session["worker"] or ""), str(session["bridge"]))


def _clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
