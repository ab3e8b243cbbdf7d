"""Writes transcripts to standard output, to one file or to many, each under its final name only when it is complete."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path, PurePath
from typing import Final

from streamer.audio.recordings import STDIN, ListedRecording, must_be_fetched
from streamer.base.transcript import FORMATS, ONE_RECORDING
from streamer.commands.terminal.journal import Journal
from streamer.commands.terminal.status_lines import is_terminal

ENDINGS: Final = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt", "html": ".html"}
_FORMATS: Final = {ending: format for format, ending in ENDINGS.items()}
# The choices for a file that exists already.
REFUSE, APPEND, OVERWRITE, SKIP = "refuse", "append", "overwrite", "skip"


def formats_for(formats: str | None, output: str | None) -> str:
    """Return the formats that the user chose, or else the one that the ending of the output says.

    OutputError if the ending says none, because the file would not be what its name promises.
    """
    if formats is not None:
        return formats
    if output is None or output.endswith(("/", os.sep)) or Path(output).is_dir() or _is_special(Path(output)):
        return FORMATS[0]
    ending = Path(output).suffix.lower()
    if ending not in _FORMATS:
        known = f"the endings are {', '.join(_FORMATS)}; --format chooses one, and a folder ends with /"
        raise OutputError(f"--output {output}: its ending does not say which format it should have: {known}.")
    return _FORMATS[ending]


class TranscriptFiles:
    """The files of all recordings. Nothing is created or overwritten before there is some text."""

    def __init__(
        self,
        formats: Sequence[str],
        output: str | None,
        recordings: Sequence[ListedRecording],
        *,
        existing: str = REFUSE,
        growing: bool = False,
        several: bool = False,
    ) -> None:
        """`growing`: files may grow while they are read. `several`: there are also recordings that cannot be read."""
        self.shared = True  # whether all recordings go to one output
        self.on_terminal = output is None and is_terminal(sys.stdout)
        self.skipped: frozenset[ListedRecording] = frozenset()  # their transcripts exist already
        self._existing = existing
        self._growing = growing
        self._paths: dict[tuple[ListedRecording, str], Path] = {}
        self._unchanged: set[Path] = set()  # existing files that are not changed
        self._open: dict[Path, OutputFile] = {}
        self._journals: dict[Path, Journal] = {}
        several = several or len(recordings) > 1
        if output is None:
            _check_stream(formats, several=several, existing=existing)
            return
        if existing == APPEND and (format := next((name for name in formats if name in ONE_RECORDING), None)):
            raise OutputError(f"--append does not work with {format}: its times would start again from zero.")
        target = Path(output)
        if _is_folder(output, formats, several=several):
            self.shared = False
            for format in formats:
                paths = _in_folder(target, recordings, ENDINGS[format])
                self._paths |= {(recording, format): path for recording, path in paths.items()}
            _check_place(output, target)
        else:
            if not target.parent.is_dir():
                reason = f"{target.parent} is not a folder"
                if not target.parent.exists():
                    reason = f"the folder {target.parent} does not exist"
                raise OutputError(f"--output {output}: {reason}.")
            if not target.exists():
                _check_place(output, target.parent)
            self._paths = {(recording, formats[0]): target for recording in recordings}
        self._check_partial_names()
        sources = {_identity(Path(recording.name)) for recording in recordings} - {None}
        for path in self._paths.values():
            if _identity(path) in sources:
                raise OutputError(f"--output {output}: that would overwrite {path}, which is read.")
        self._check_existing(recordings)

    def write(self, recording: ListedRecording, format: str, text: str) -> None:
        """Write a part of this recording's transcript at once."""
        path = self._paths.get((recording, format))
        if path is None:
            _write_to_stdout(text)
        elif path not in self._unchanged:
            if path not in self._open:
                append = self._existing == APPEND
                self._open[path] = OutputFile(path, append=append, growing=self._growing)
            self._open[path].write(text)

    def finish(self, recording: ListedRecording) -> None:
        """Close the files of a complete recording, so that thousands of recordings do not keep thousands open."""
        for file in self._take_files(recording):
            file.finish()
        if not self._shares_files and (path := self._journal_path(recording)) in self._journals:
            self._journals.pop(path).remove()

    def break_off(self, recording: ListedRecording) -> list[Path]:
        """Close the files of an incomplete recording. Return those with the text so far."""
        if not self._shares_files and (path := self._journal_path(recording)) in self._journals:
            self._journals.pop(path).close()
        return [path for file in self._take_files(recording) if (path := file.break_off())]

    def journal(self, recording: ListedRecording) -> Journal | None:
        """Return the journal of this recording's transcript. None if its transcript cannot be continued."""
        path = self._journal_path(recording)
        if path is None or self._growing:
            return None
        if path not in self._journals:
            self._journals[path] = Journal(path)
        return self._journals[path]

    def continues(self, recording: ListedRecording) -> bool:
        """Return whether another command can go on where this transcript was broken off."""
        path = self._journal_path(recording)
        return path is not None and not self._growing and path.exists()

    def may_replace_partial(self, recording: ListedRecording, why: str) -> None:
        """Raise OutputError if there is an unfinished text that would be lost. `why`: why it cannot be continued."""
        if self._existing == OVERWRITE:
            return
        paths = [path for (owner, _), path in self._paths.items() if owner == recording and path not in self._open]
        for path in (_partial_name(path) for path in paths):
            if has_content(path):
                raise OutputError(
                    f"{path} is an unfinished transcript that cannot be continued: {why}. --overwrite replaces it."
                )

    def discard(self, recording: ListedRecording) -> None:
        """Discard the text of this recording. Existing files stay as they are."""
        for file in self._take_files(recording):
            file.discard()

    def close(self, *, whole: bool) -> list[Path]:
        """Close the files that all recordings share. Returns their paths if they are not complete."""
        # If some recordings may be missing, an old file is not replaced, and the new one stays beside it.
        files, self._open = list(self._open.values()), {}
        journals, self._journals = list(self._journals.values()), {}
        if not whole:
            for journal in journals:
                journal.close()
            return [path for file in files if (path := file.break_off())]
        for file in files:
            file.finish()
        for journal in journals:
            journal.remove()
        return []

    @property
    def replaces(self) -> bool:
        """Whether a file that all recordings share, or that of a dictation, replaces an existing one."""
        own = self.shared or self._growing
        return own and self._existing == OVERWRITE and any(map(has_content, set(self._paths.values())))

    @property
    def _shares_files(self) -> bool:
        """Whether other recordings may write to the files of a recording."""
        return self.shared and not self._growing

    def _journal_path(self, recording: ListedRecording) -> Path | None:
        """Return the file for the journal of this recording. None if it goes to a stream or a device."""
        own = [path for (owner, _), path in self._paths.items() if owner == recording]
        if not own or any(map(_is_special, own)) or recording.name == STDIN or must_be_fetched(recording.name):
            return None
        return own[0].with_name(f"{own[0].stem}.partial.journal")

    def _take_files(self, recording: ListedRecording) -> list[OutputFile]:
        """Return the files that only this recording uses, and remove them from the open ones."""
        if self._shares_files:
            return []
        paths = [path for (owner, _), path in self._paths.items() if owner == recording]
        return [file for path in paths if (file := self._open.pop(path, None))]

    def _check_existing(self, recordings: Sequence[ListedRecording]) -> None:
        """Refuse to lose existing files, or find out which recordings can be skipped."""
        paths = dict.fromkeys(self._paths.values())
        if self._existing == SKIP:
            # Empty files count as well: an incomplete transcript would have another name.
            self._unchanged = {path for path in paths if path.is_file()}
            incomplete = {recording for (recording, _), path in self._paths.items() if path not in self._unchanged}
            self.skipped = frozenset(recordings) - incomplete
        there = [path for path in paths if has_content(path)]
        if self._existing == REFUSE and there:
            more = f", and {len(there) - 1} more" if len(there) > 1 else ""
            ways = ["--overwrite replaces it when the new one is complete"]
            if not any(path.suffix in (ENDINGS[format] for format in ONE_RECORDING) for path in there):
                ways.insert(0, "--append adds to its end")
            if not self._growing:
                ways.insert(0, "--skip-existing skips it")
            raise OutputError(f"{there[0]} exists already{more}: {', '.join(ways)}.")

    def _check_partial_names(self) -> None:
        finals = set(self._paths.values())
        for path in finals:
            partial = _partial_name(path)
            if partial in finals:
                other = "but another transcript has this name: use two folders"
                raise OutputError(f"{path} is called {partial} until it is complete, {other}.")


def _check_stream(formats: Sequence[str], *, several: bool, existing: str) -> None:
    """Raise OutputError if standard output cannot take these formats."""
    if len(formats) > 1:
        raise OutputError("standard output takes only one format: give a folder with --output for several.")
    if several and formats[0] in ONE_RECORDING:
        raise OutputError(f"{formats[0]} contains only one recording: give a folder with --output for several.")
    if existing != REFUSE:
        option = {APPEND: "--append", OVERWRITE: "--overwrite", SKIP: "--skip-existing"}[existing]
        raise OutputError(f"{option} needs --output.")


def _is_folder(output: str, formats: Sequence[str], *, several: bool) -> bool:
    """Return whether the output is a folder: it exists, ends with /, or nothing else can hold the transcripts."""
    path = Path(output)
    if path.is_dir() or output.endswith(("/", os.sep)):
        return True
    if len(formats) > 1:
        reason = "several formats need a folder"
    elif several and formats[0] in ONE_RECORDING:
        reason = f"{formats[0]} contains only one recording: give a folder with --output for several"
    else:
        return False
    if path.suffix in ENDINGS.values() or path.exists():
        raise OutputError(f"--output {output}: {reason}.")
    return True


def _check_place(output: str, folder: Path) -> None:
    """Raise OutputError if nothing can be written in this folder, or it cannot be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise OutputError(f"--output {output}: {folder} is not a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"--output {output}: the folder {folder} is not writable.")


def _write_to_stdout(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Otherwise the text that Python still holds would fail once more when the program ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"standard output cannot be written: {error.strerror}.") from error


def _in_folder(folder: Path, recordings: Sequence[ListedRecording], ending: str) -> dict[ListedRecording, Path]:
    """Return a file for each recording. The folders have the same structure as those of the recordings."""
    targets = {recording: recording.path.with_name(f"{_stem(recording)}{ending}") for recording in recordings}
    # talk.wav and talk.mp3 in one folder must not share talk.txt.
    twice = {path for path, count in Counter(targets.values()).items() if count > 1}
    for recording, path in targets.items():
        if path in twice:
            targets[recording] = recording.path.with_name(f"{recording.path.name}{ending}")
    counts = Counter(targets[recording] for recording in recordings)
    if clashing := next((path for path, count in counts.items() if count > 1), None):
        names = " and ".join(recording.name for recording in recordings if targets[recording] == clashing)
        raise OutputError(
            f"two recordings would both be written to {folder / clashing}: {names}. Transcribe them one at a time."
        )
    return {recording: folder / path for recording, path in targets.items()}


def _stem(recording: ListedRecording) -> str:
    return PurePath(recording.path.name).stem


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at this path, if there is one."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


# A file for a transcript. Until it is complete, it has `partial` in its name, so it never replaces a longer text.

_MOST_PARTIAL: Final = 100


class OutputError(Exception):
    """Transcripts cannot be written there. The message is a sentence for the user."""


class OutputFile:
    """The file of one transcript. It is not created before there is some text."""

    def __init__(self, target: Path, *, append: bool = False, growing: bool = False) -> None:
        """`append`: add to an existing file. `growing`: the file may grow while somebody reads it."""
        self._target = Path(os.path.realpath(target))  # if this is a link, its target is replaced, not the link
        self._named_path = target
        self._append = append
        direct = _is_special(self._target) or (growing and (append or not has_content(self._target)))
        # Each dictation is another one, so an unfinished one stays. An unfinished recording is continued.
        self._keeps_earlier = growing
        self._path = self._target if direct else None  # the file that is written
        self._direct = direct
        self._stream: FileIO | None = None
        self._error: OutputError | None = None

    def write(self, text: str) -> None:
        """Write all of the text or nothing."""
        before = 0
        if self._error is not None:
            raise self._error
        try:
            self._stream = self._stream or self._open()
            before = self._stream.tell() if self._stream.seekable() else 0
            _write_all(self._stream, text.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            self._undo_write(before)
            self._error = self._error_of(error)
            raise self._error from error

    def finish(self) -> None:
        """Close the complete text: replace the old file, and remove the partial files of earlier attempts."""
        if self._stream is None:
            return
        try:
            if not self._direct:
                assert self._path is not None
                if self._append:
                    self._close()
                    self._append_to_old()
                    self._path.unlink()
                else:
                    if self._target.exists():
                        shutil.copymode(self._target, self._path)
                        os.fsync(self._stream.fileno())  # until then, the old file is the only one on the disk
                    self._close()
                    self._path.replace(self._target)
                    _remove_partial(self._target)
            self._close()
        except OSError as error:
            raise self._error_of(error) from error

    def break_off(self) -> Path | None:
        """Close an incomplete text. Return the file with the text so far, which has `partial` in its name."""
        if self._stream is None:
            return None
        with suppress(OSError):
            self._close()
        if self._direct or self._path is None:
            return None
        with suppress(OSError):
            if self._path.stat().st_size:
                beside = self._named_path.with_name(self._path.name)
                return beside if beside.exists() else self._path
            self._path.unlink()
        return None

    def discard(self) -> None:
        """Remove the written text. An existing file stays as it is."""
        with suppress(OSError):
            self._close()
            if not self._direct and self._path is not None:
                self._path.unlink()

    def _open(self) -> FileIO:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        if self._direct:
            stream = FileIO(self._target, "a" if self._append else "w")
            if self._append and _lacks_newline(self._target):
                _write_all(stream, b"\n")
            return stream
        if not self._keeps_earlier:
            self._path = _partial_name(self._target)
            return FileIO(self._path, "w")
        for path in partial_names(self._target):
            with suppress(FileExistsError):
                stream = FileIO(path, "x")
                self._path = path
                return stream
        raise FileExistsError(errno.EEXIST, f"there are {_MOST_PARTIAL} unfinished ones beside it")

    def _append_to_old(self) -> None:
        """Append the partial file to the old one, which keeps its length if that fails."""
        assert self._path is not None
        with FileIO(self._target, "a") as old, FileIO(self._path) as new:
            size = old.seek(0, os.SEEK_END)
            try:
                if _lacks_newline(self._target):
                    _write_all(old, b"\n")
                while data := new.read(1 << 20):
                    _write_all(old, data)
            except OSError:
                os.ftruncate(old.fileno(), size)
                raise

    def _undo_write(self, size: int) -> None:
        """Remove text that could not be written completely."""
        if self._stream is None:
            return
        with suppress(OSError):
            self._stream.truncate(size)
        with suppress(OSError):
            self._close()
        if size == 0 and self._path is not None and not _is_special(self._path):
            with suppress(OSError):
                self._path.unlink()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _error_of(self, error: OSError) -> OutputError:
        return OutputError(f"{self._named_path} cannot be written: {error.strerror}.")


def has_content(path: Path) -> bool:
    """Return whether this is a file with content that could be lost."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def partial_names(target: Path) -> Iterator[Path]:
    """Yield the names for incomplete files: talk.partial.srt, talk.partial-2.srt and so on."""
    for number in count(1):
        if number > _MOST_PARTIAL:
            return
        yield target.with_name(f"{target.stem}.partial{f'-{number}' if number > 1 else ''}{target.suffix}")


def _partial_name(target: Path) -> Path:
    """Return the name for an unfinished file: talk.partial.srt."""
    return next(partial_names(target))


def _remove_partial(target: Path) -> None:
    """Remove earlier attempts at a file that is complete now."""
    for path in partial_names(target):
        try:
            path.unlink()
        except OSError:
            return


def _is_special(path: Path) -> bool:
    """Return whether this is a device or a pipe, such as /dev/stdout."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _lacks_newline(path: Path) -> bool:
    """Return whether the last line of a file has no end."""
    try:
        with FileIO(path) as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                return False
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:
        return False


def _write_all(stream: FileIO, data: bytes) -> None:
    """Write all bytes. A full disk may take a part of them before it reports an error."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) or 0 :]
