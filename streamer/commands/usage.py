"""The command `streamer usage`: shows what each key has used in a day and in its month."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Final

from streamer.base.text import json_text
from streamer.bridge.telemetry.usage import ByKey, Usage, UsageError, by_key, of_day_and_month, read_usage, sum_of
from streamer.commands.arguments import add_socket_arguments
from streamer.commands.service import OperatorError, ask_service, socket_of_service

EXAMPLES: Final = """\
The file is the one of `serve --usage-file`. A running service writes it every ten seconds; reading disturbs nothing.
Without a file, a service that runs on this machine is asked. With `serve --store` it knows what all its bridges have
counted, also those that have ended.
Days begin at midnight UTC. A session is one that became ready, and counts on the day when it did. Each channel that is
recognised separately counts as audio. A key that was replaced under the same name goes on in the same line.

examples:
  streamer usage usage.json                      today, and this month so far
  streamer usage usage.json --day 2026-10-31     that day, and all of October
  streamer usage bridge-1.json bridge-2.json     two services together
  streamer usage                                 of the service of this machine, and of its other bridges
  streamer usage usage.json --csv > usage.csv    for a spreadsheet
  streamer usage usage.json --json | jq .keys.alice.month

In a file, days are kept for two months and months for three years; in a store, days for two months. The exit status is
1 if a file or the service cannot be used, or if something may be missing."""

# How long a service may take to answer, which asks its store.
SILENCE_S: Final = 30.0
_HEADINGS: Final = ("sessions", "audio", "refusals")
_TOTAL: Final = "all keys"  # no key can have this name, because of its space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer usage`."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="the file of `serve --usage-file`")
    add_socket_arguments(parser, "the only service that runs")
    parser.add_argument("--day", type=_day, metavar="DAY", help="a day such as 2026-10-31 (today, in UTC)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object, with seconds of audio")
    form.add_argument("--csv", action="store_true", help="print a line for each key and period, with seconds of audio")


def run(options: argparse.Namespace) -> int:
    """Print the usage. Return the exit status."""
    day = f"{options.day or datetime.now(timezone.utc).date()}"
    month, problems = day[:7], list[str]()
    try:
        if options.files:
            records = [read_usage(path) for path in options.files]
            of_day = sum_of(record.days.get(day, {}) for record in records)
            of_month = sum_of(record.months.get(month, {}) for record in records)
        else:
            of_day, of_month, problems = _of_service(socket_of_service(options.port, options.control), day)
    except (UsageError, OperatorError) as error:
        print(f"streamer: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json_text(of_day_and_month(day, of_day, of_month), indent=1))
    elif options.csv:
        print(_csv({day: of_day, month: of_month}), end="")
    else:
        print(_table(day, of_day, month, of_month))
    for problem in problems:
        print(f"streamer: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _of_service(path: Path, day: str) -> tuple[ByKey, ByKey, list[str]]:
    """Return what a service says of a day and of its month, and what may be missing. OperatorError if it cannot."""
    answer = next(ask_service(path, {"admin": "usage", "day": day}, SILENCE_S))
    done = answer.get("done")
    if not isinstance(done, dict):
        raise OperatorError(str(answer.get("failed")))
    of_day, of_month = (
        by_key({key: each[period] for key, each in done["keys"].items()}) for period in ("day", "month")
    )
    return of_day, of_month, done["problems"]


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a day such as 2026-10-31, not '{text}'") from error


def _csv(periods: Mapping[str, ByKey]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["period", "key", "sessions", "audio_s", "refusals"])
    for period, keys in periods.items():
        for key, usage in keys.items():
            writer.writerow([period, key, usage.sessions, round(usage.audio_s, 3), usage.refusals])
    return text.getvalue()


def _table(day: str, of_day: ByKey, month: str, of_month: ByKey) -> str:
    keys = sorted({*of_day, *of_month})
    if not keys:
        return f"No key has used anything on {day} or in {month}."
    total_of_day, total_of_month = Usage(), Usage()
    for key in keys:
        total_of_day.add(of_day.get(key, Usage()))
        total_of_month.add(of_month.get(key, Usage()))
    rows = [(key, of_day.get(key, Usage()), of_month.get(key, Usage())) for key in keys]
    rows.append((_TOTAL, total_of_day, total_of_month))
    width = max(len(name) for name, _, _ in rows)
    headings = "".join(f"{heading:>11}" for heading in _HEADINGS)
    lines = [f"{'':{width}}{day:>{len(headings)}}{month:>{len(headings)}}", f"{'key':{width}}{headings}{headings}"]
    lines += [f"{name:{width}}{_cells(in_day)}{_cells(in_month)}" for name, in_day, in_month in rows]
    return "\n".join(line.rstrip() for line in lines)


def _cells(usage: Usage) -> str:
    return f"{usage.sessions:>11}{_clock(usage.audio_s):>11}{usage.refusals:>11}"


def _clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
