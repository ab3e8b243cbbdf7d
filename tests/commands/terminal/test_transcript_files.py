"""The file of a transcript, and what happens to an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.commands.terminal.transcript_files import OutputError, OutputFile
from tests.file_size_limit import most_bytes


def contents(folder: Path) -> dict[str, str]:
    """The names and texts of all files in a folder."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_whole_one_takes_the_place_of_the_old(tmp_path: Path) -> None:
    """The old file stays until the new one is complete; its permissions stay, and a link stays a link."""
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "a.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("a.txt")
    file = OutputFile(tmp_path / "link.txt")
    file.write("new\n")
    assert contents(tmp_path) == {"a.txt": "old", "link.txt": "old", "a.partial.txt": "new\n"}
    file.finish()
    assert contents(tmp_path) == {"a.txt": "new\n", "link.txt": "new\n"}
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_attempts_do_not_replace_each_other(tmp_path: Path) -> None:
    """Each incomplete dictation has its own name; a complete one removes them all."""
    (tmp_path / "a.txt").write_text("old")
    for number in range(3):
        file = OutputFile(tmp_path / "a.txt", growing=True)
        file.write(f"{number}")
        file.break_off()
    names = {"a.partial.txt": "0", "a.partial-2.txt": "1", "a.partial-3.txt": "2"}
    assert contents(tmp_path) == {"a.txt": "old", **names}
    file = OutputFile(tmp_path / "a.txt", growing=True)
    file.write("whole")
    file.finish()
    assert contents(tmp_path) == {"a.txt": "whole"}


def test_attempts_at_a_recording_do_not_pile_up(tmp_path: Path) -> None:
    """There is one incomplete text of a recording, the last one, because it continues the others."""
    for number in range(3):
        file = OutputFile(tmp_path / "a.txt")
        file.write(f"{number}")
        file.break_off()
    assert contents(tmp_path) == {"a.partial.txt": "2"}


def test_what_grows_is_seen_to_grow(tmp_path: Path) -> None:
    """A dictation is written at once to a new or empty file, or at the end of an old one."""
    (tmp_path / "empty.txt").touch()
    (tmp_path / "old.txt").write_text("old\n")
    for name in ("new.txt", "empty.txt", "old.txt"):
        file = OutputFile(tmp_path / name, append=name == "old.txt", growing=True)
        file.write("said\n")
        assert (tmp_path / name).read_text().endswith("said\n")
        file.finish()
    assert contents(tmp_path) == {"new.txt": "said\n", "empty.txt": "said\n", "old.txt": "old\nsaid\n"}


def test_what_was_there_survives_a_full_disk(tmp_path: Path) -> None:
    """If the disk is full, the old file is unchanged and nothing half-written is left."""
    (tmp_path / "a.txt").write_text("old\n")
    for append, growing in ((True, True), (False, False), (False, True)):
        file = OutputFile(tmp_path / "a.txt", append=append, growing=growing)
        with most_bytes(20), pytest.raises(OutputError, match=r"a\.txt cannot be written: File too large"):
            file.write("this is longer than twenty bytes\n")
        assert file.break_off() is None
        assert contents(tmp_path) == {"a.txt": "old\n"}
    file = OutputFile(tmp_path / "a.txt", append=True)
    file.write("twelve bytes\n")
    with most_bytes(15), pytest.raises(OutputError):
        file.finish()
    assert contents(tmp_path) == {"a.txt": "old\n", "a.partial.txt": "twelve bytes\n"}


def test_a_device_is_written_as_it_is() -> None:
    """A device is written directly, without another file beside it."""
    file = OutputFile(Path("/dev/null"))
    file.write("gone")
    file.finish()
    assert file.break_off() is None
