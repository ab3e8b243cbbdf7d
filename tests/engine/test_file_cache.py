"""The cache of files with what is computed when a bundle is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamer.engine import file_cache
from streamer.engine.array_memory import Arrays
from streamer.engine.file_cache import (
    LEAST,
    MOST_KEPT,
    cached_arrays,
    cached_folder,
    fingerprint,
    folders_for_files,
)
from streamer.engine.memory.footprint import footprint
from tests.project import ROOT

SQUARES = np.arange(LEAST, dtype=np.int64) ** 2


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Provide the folders of an empty cache."""
    folders = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(file_cache, "folders_for_files", lambda: folders)
    return folders


def squares(made: list[int]) -> Arrays:
    """Compute arrays, and count it."""
    made.append(1)
    return {"squares": SQUARES}


def refuse(folder: Path) -> None:
    """Write a part of what should be written, and fail."""
    (folder / "part").write_text("a part")
    raise OSError("the disk is full")


def test_arrays_are_computed_once(roots: list[Path]) -> None:
    """What one process has computed is mapped by all, and takes no memory of theirs."""
    made: list[int] = []
    for _ in range(2):
        found = cached_arrays("squares", "key", SQUARES.nbytes, lambda: squares(made))
        assert np.array_equal(found.arrays["squares"], SQUARES)
        assert footprint(found.arrays).own < 10_000
        assert found.places["squares"].path.is_relative_to(roots[0])
    assert len(made) == 1
    assert footprint(cached_arrays("squares", "other", SQUARES.nbytes, lambda: squares(made)).arrays).own < 10_000
    assert len(made) == 2


def test_small_arrays_need_no_file(roots: list[Path]) -> None:
    """Arrays of a few bytes are computed anew."""
    made: list[int] = []
    assert cached_arrays("squares", "key", 100, lambda: squares(made)).places == {}
    assert made
    assert not roots[0].exists()


def test_the_next_folder_is_used_if_the_first_cannot_be_written(roots: list[Path]) -> None:
    """If nothing can be written beside the modules, files lie in the user's cache, and else in no place."""
    roots[0].write_text("no folder")
    folder = cached_folder("text", "key", lambda path: path.joinpath("file").touch())
    assert folder == roots[1] / "text-key"
    roots[1].rename(roots[1].with_name("gone"))
    roots[1].write_text("no folder")
    assert cached_folder("text", "key", lambda path: path.joinpath("file").touch()) is None
    made: list[int] = []
    assert np.array_equal(
        cached_arrays("squares", "key", SQUARES.nbytes, lambda: squares(made)).arrays["squares"], SQUARES
    )


def test_what_others_wrote_is_used_where_nothing_can_be_written(
    roots: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that may not write into the folder of another user uses the files there."""
    cached_folder("text", "key", lambda path: path.joinpath("file").touch())

    def forbidden(path: str | Path) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", forbidden)
    assert cached_folder("text", "key", refuse) == roots[0] / "text-key"
    assert (roots[0] / "text-key").stat().st_mode & 0o777 == 0o755
    assert (roots[0] / "text-key" / "file").stat().st_mode & 0o777 == 0o644


def test_a_disk_is_not_filled(roots: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written where others may soon miss the room."""
    monkeypatch.setattr(file_cache, "free_bytes", lambda folder: 200 << 20 if folder == roots[1] else 100 << 20)
    assert cached_folder("text", "key", lambda path: path.joinpath("file").touch()) == roots[1] / "text-key"
    monkeypatch.setattr(file_cache, "free_bytes", lambda _: 0)
    assert cached_folder("text", "other", lambda path: path.joinpath("file").touch()) is None


def test_a_folder_appears_as_a_whole(roots: list[Path]) -> None:
    """If writing fails, nothing stays, and the next process tries again."""
    assert cached_folder("text", "key", refuse) is None
    assert [path for root in roots for path in root.iterdir()] == []
    assert cached_folder("text", "key", lambda path: path.joinpath("file").touch()) is not None


def test_a_process_that_is_slower_uses_the_files_of_the_faster(roots: list[Path]) -> None:
    """Two processes may write the same folder at once. Both use the one that is there first."""

    def fast(folder: Path) -> None:
        (folder / "file").write_text("fast")

    def slow(folder: Path) -> None:
        (folder / "file").write_text("slow")
        cached_folder("text", "key", fast)

    folder = cached_folder("text", "key", slow)
    assert folder is not None
    assert (folder / "file").read_text() == "fast"
    assert list(roots[0].iterdir()) == [folder]


def test_what_was_unused_for_longest_goes(roots: list[Path]) -> None:
    """Of each kind, the folders that were used last stay. So does what another process is writing."""

    def used(key: str) -> Path:
        folder = cached_folder("text", key, lambda path: path.joinpath("file").touch())
        assert folder is not None
        return folder

    other = cached_folder("other", "key", lambda path: path.joinpath("file").touch())
    kept = [used(str(number)) for number in range(MOST_KEPT)]
    for number, folder in enumerate(kept):
        os.utime(folder, (number, number))
    assert used("0") == kept[0]
    (roots[0] / "partial-now").mkdir()
    (roots[0] / "partial-before").mkdir()
    os.utime(roots[0] / "partial-before", (0, 0))
    last = used("last")
    assert set(roots[0].iterdir()) == {other, last, kept[0], *kept[2:], roots[0] / "partial-now"}


def test_a_file_without_its_array_is_computed_anew(roots: list[Path]) -> None:
    """A file that was cut off is not used."""
    made: list[int] = []
    [place] = cached_arrays("squares", "key", SQUARES.nbytes, lambda: squares(made)).places.values()
    place.path.write_bytes(place.path.read_bytes()[:1000])
    found = cached_arrays("squares", "key", SQUARES.nbytes, lambda: squares(made))
    assert np.array_equal(found.arrays["squares"], SQUARES)
    assert len(made) == 2


def test_a_fingerprint_depends_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values, the kind and the shape of arrays, the limits of texts, the code and the processor count."""
    one = np.arange(4, dtype=np.int32)
    parts: list[tuple[file_cache.Part, ...]] = [
        (one,),
        (one + 1,),
        (one.astype(np.float32),),
        (one.reshape(2, 2),),
        ("ab", "c"),
        ("a", "bc"),
        (b"",),
        (),
    ]
    found = {fingerprint(*part) for part in parts}
    assert len(found) == len(parts)
    assert fingerprint(one.copy(), "a") == fingerprint(one, b"a")
    file_cache._surroundings.cache_clear()
    monkeypatch.setattr(file_cache, "_processor", lambda: ["another one"])
    assert not found & {fingerprint(*part) for part in parts}
    file_cache._surroundings.cache_clear()


def test_the_user_chooses_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second folder is in the cache of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders_for_files()[1] == tmp_path / "streamer" / "files"


LOAD = """
import sys
from pathlib import Path
from streamer.engine import file_cache
root = Path(sys.argv.pop(1))
file_cache.folders_for_files = lambda: [root]
from streamer.engine.compile import main
main()
"""


def test_the_command_fills_the_cache(tmp_path: Path) -> None:
    """After `compile` with the shipped bundle, a start finds all files, and computes none."""
    arguments = [sys.executable, "-c", LOAD, str(tmp_path / "files"), str(ROOT / "asr_repo" / "streaming_asr" / "1")]
    for _ in range(2):
        subprocess.run(arguments, check=True, cwd=ROOT)
        kinds = sorted(path.name.partition("-")[0] for path in (tmp_path / "files").iterdir())
        assert kinds == ["encoder", "letters", "marks", "pronunciations", "reading", "trie", "words"]
        written = {path: path.stat().st_mtime_ns for path in (tmp_path / "files").rglob("*.*")}
    assert sum(path.stat().st_size for path in written) < 110e6
