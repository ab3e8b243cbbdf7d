"""The journal of a labelling run: a line of JSON for each piece that was heard, so that a killed run can go on.

The first line names the witnesses and the rule by which recordings were cut. A recording that is complete has a line
with the number of its pieces. Thresholds are not in it: they may change without anything being heard again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from workshop.labelling.agreement import Heard
from workshop.labelling.cutting import CuttingRule, Piece

JOURNAL: Final = "journal.jsonl"


class JournalError(Exception):
    """The journal cannot be continued. The message says what to do."""


@dataclass(frozen=True)
class HeardPiece:
    """A piece, and what each of the witnesses heard in it."""

    piece: Piece
    heard: tuple[Heard, ...]


@dataclass
class HeardRecording:
    """What is known of a recording. `complete`: all of its pieces were heard. `error`: why it cannot be read."""

    pieces: list[HeardPiece] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = False
    error: str = ""


class Journal:
    """The journal in a folder, opened to continue it; a context manager."""

    def __init__(self, folder: Path, witnesses: Mapping[str, str], rule: CuttingRule) -> None:
        """`witnesses`: their names, and the fingerprints of their files. JournalError if others wrote the journal."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / JOURNAL
        self._recordings: dict[str, HeardRecording] = {}
        self._file = self._path.open("a+b")
        try:
            self._own()
            self._read({"witnesses": dict(witnesses), "rule": asdict(rule)})
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def of(self, recording: str) -> HeardRecording:
        """Return what is known of a recording."""
        return self._recordings.setdefault(recording, HeardRecording())

    def add(self, recording: str, heard: HeardPiece) -> None:
        """Note the next piece of a recording."""
        self.of(recording).pieces.append(heard)
        self._write(
            {"recording": recording, **asdict(heard.piece), "heard": [asdict(each) for each in heard.heard]},
        )

    def finish(self, recording: str, seconds: float) -> None:
        """Note that all pieces of a recording were heard."""
        known = self.of(recording)
        known.seconds, known.complete = seconds, True
        self._write({"recording": recording, "pieces": len(known.pieces), "seconds": seconds})

    def fail(self, recording: str, error: str) -> None:
        """Note that a recording cannot be read. The next run tries it again."""
        self.of(recording).error = error
        self._write({"recording": recording, "error": error})

    def _own(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalError(f"{self._path} is being written by another process: wait for it, or stop it") from error

    def _read(self, head: Mapping[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        self._file.truncate(whole)  # a process that was killed may have left a part of a line
        lines = content[:whole].splitlines()
        if not lines:
            self._write(head)
            return
        for number, line in enumerate(lines, 1):
            try:
                self._take(number, json.loads(line), head)
            except (KeyError, TypeError, ValueError) as error:
                raise JournalError(f"{self._path}, line {number}: this is no line of a journal: remove it") from error

    def _take(self, number: int, line: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if number == 1:
            self._check(line, head)
            return
        known = self.of(line["recording"])
        if "error" in line:
            return
        if "heard" in line:
            heard = (Heard(**{**each, "words": tuple(each["words"])}) for each in line["heard"])
            piece = Piece(int(line["start"]), int(line["end"]), float(line["speech_s"]))
            known.pieces.append(HeardPiece(piece, tuple(heard)))
        else:
            known.seconds, known.complete = float(line["seconds"]), len(known.pieces) == int(line["pieces"])

    def _check(self, line: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if line["rule"] != head["rule"]:
            raise JournalError(
                f"{self._path} is of pieces that were cut otherwise ({line['rule']}): give another folder"
            )
        if line["witnesses"] != head["witnesses"] or list(line["witnesses"]) != list(head["witnesses"]):
            raise JournalError(
                f"{self._path} is of other witnesses ({_named(line['witnesses'])}, not {_named(head['witnesses'])}): "
                "give the same ones, or another folder"
            )

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()


def _named(witnesses: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {sign}" for name, sign in witnesses.items())


def all_pieces(recordings: Iterable[HeardRecording]) -> list[HeardPiece]:
    """Return the pieces of these recordings."""
    return [piece for recording in recordings for piece in recording.pieces]
