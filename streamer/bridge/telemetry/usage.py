"""What each key has used, and the file in which a service keeps it by day and month. Standard library only.

The file is JSON. It is replaced as a whole, so a reader or a power cut finds the former content or the new one. Days
and months are those of UTC. The file also has the audio of the last hour, so that quotas go on after a restart.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from streamer.base.json_types import JsonObject

VERSION: Final = 1
# Months stay; days only make the file larger after they are on a bill.
KEPT_DAYS: Final = 62
KEPT_MONTHS: Final = 36
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH: Final = re.compile(r"\d{4}-\d\d")


class UsageError(Exception):
    """The file cannot be used. The message is a sentence for the operator."""


@dataclass
class Usage:
    """What one key has used in some time."""

    sessions: int = 0  # that became ready
    audio_s: float = 0.0  # each channel that is recognised separately counts
    refusals: int = 0  # connections and recordings that got no session

    def add(self, other: Usage) -> None:
        """Add what was used in another time."""
        self.sessions += other.sessions
        self.audio_s += other.audio_s
        self.refusals += other.refusals


# Usage by the name of the key.
ByKey = dict[str, Usage]
# The audio of the last hour by the name of the key: when each part began, as a Unix time, and its seconds.
HourOfAudio = dict[str, list[tuple[float, float]]]


@dataclass
class UsageRecord:
    """The content of the file."""

    days: dict[str, ByKey] = field(default_factory=dict)
    months: dict[str, ByKey] = field(default_factory=dict)
    hour: HourOfAudio = field(default_factory=dict)
    settled: ByKey = field(default_factory=dict)  # the totals that are in it; not in the file

    def settle(self, totals: Mapping[str, Usage], now: float) -> None:
        """Count what was used since the last call on the present day. `totals`: what was used since the start."""
        moment = datetime.fromtimestamp(now, timezone.utc)
        day, month = f"{moment:%Y-%m-%d}", f"{moment:%Y-%m}"
        for key, total in totals.items():
            before = self.settled.get(key, Usage())
            if not key or total == before:
                continue
            growth = Usage(
                total.sessions - before.sessions, total.audio_s - before.audio_s, total.refusals - before.refusals
            )
            for keys in (self.days.setdefault(day, {}), self.months.setdefault(month, {})):
                keys.setdefault(key, Usage()).add(growth)
            self.settled[key] = replace(total)
        for periods, most in ((self.days, KEPT_DAYS), (self.months, KEPT_MONTHS)):
            for old in sorted(periods)[:-most]:
                del periods[old]

    def text(self) -> str:
        """Return the content of the file."""
        periods = {
            name: {period: {key: as_json(usage) for key, usage in keys.items()} for period, keys in periods.items()}
            for name, periods in (("days", self.days), ("months", self.months))
        }
        return json.dumps({"version": VERSION, **periods, "hour": self.hour}, indent=1) + "\n"


def read_usage(path: Path) -> UsageRecord:
    """Read the file. UsageError if that is not possible."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _damaged(path) from error
    if isinstance(content, dict) and isinstance(content.get("version"), int) and content["version"] > VERSION:
        raise UsageError(f"{path} was written by a later version of Streamer: use that version, or another file.")
    try:
        return UsageRecord(
            _periods(content["days"], _DAY),
            _periods(content["months"], _MONTH),
            {
                key: [(_amount(start), _amount(seconds)) for start, seconds in parts]
                for key, parts in content["hour"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path) from error


class UsageFile:
    """The file of one service, which no other service may write."""

    def __init__(self, path: Path) -> None:
        """Read the file if there is one, and lock it. UsageError if it cannot be used."""
        self._path = path.resolve()
        self._written = ""  # the text that is in the file
        with ExitStack() as closing:
            try:
                # Not the file itself, because that is replaced. Such a lock ends with this process; no child has it.
                self._lock = closing.enter_context(self._path.with_name(f"{self._path.name}.lock").open("a"))
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(
                    f"{path} belongs to another service that runs now: give each service a file of its own; "
                    "`streamer usage` adds up several."
                ) from error
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
            self.record = read_usage(self._path) if self._path.exists() else UsageRecord()
            closing.pop_all()

    def settle(self, totals: Mapping[str, Usage], hour: HourOfAudio, now: float) -> None:
        """Count what was used since the last call on the present day. `totals`: what was used since the start."""
        self.record.settle(totals, now)
        self.record.hour = hour

    def write(self, text: str) -> None:
        """Replace the content of the file, unless it is this text already. After an OSError the former one is left."""
        if text == self._written:
            return
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        self._written = text

    def close(self) -> None:
        """Let another service use the file."""
        self._lock.close()


def sum_of(parts: Iterable[ByKey]) -> ByKey:
    """Return several usages together, in the order of the names."""
    together: ByKey = {}
    for part in parts:
        for key, usage in part.items():
            together.setdefault(key, Usage()).add(usage)
    return dict(sorted(together.items()))


def as_json(usage: Usage) -> JsonObject:
    """Return the usage of a key as programs get it."""
    return {"sessions": usage.sessions, "audio_s": round(usage.audio_s, 3), "refusals": usage.refusals}


def by_key(content: Mapping[str, Mapping[str, object]]) -> ByKey:
    """Read the usage of several keys. An exception of any kind if it is not valid."""
    return {
        key: Usage(_whole(usage["sessions"]), _amount(usage["audio_s"]), _whole(usage["refusals"]))
        for key, usage in content.items()
    }


def of_day_and_month(day: str, of_day: ByKey, of_month: ByKey) -> JsonObject:
    """Return the usage of a day and of its month as programs get it."""
    keys = {
        key: {"day": as_json(of_day.get(key, Usage())), "month": as_json(of_month.get(key, Usage()))}
        for key in sorted({*of_day, *of_month})
    }
    return {"day": day, "month": day[:7], "keys": keys}


def _damaged(path: Path) -> UsageError:
    return UsageError(
        f"{path} is damaged: put a backup in its place, or move it away, and usage and quotas begin at zero."
    )


def _periods(content: dict[str, dict[str, dict[str, object]]], form: re.Pattern[str]) -> dict[str, ByKey]:
    """Read days or months. An exception of any kind if they are damaged."""
    if not all(form.fullmatch(period) for period in content):
        raise ValueError("a period has another form")
    return {period: by_key(keys) for period, keys in content.items()}


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def _amount(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)
