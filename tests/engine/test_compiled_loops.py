"""The folders of compiled loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.engine.compiled_loops import MOST_KEPT, folder_for_loops
from tests.project import ROOT


def test_modules_with_loops_are_named_so() -> None:
    """Loops are only in modules whose names end with `_loops`, because only these count for the name of the folder."""
    uses = {path.name for path in (ROOT / "streamer").rglob("*.py") if "import compiled_loop" in path.read_text()}
    assert len(uses) > 1
    assert all(name.endswith("_loops.py") for name in uses)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder with a module with loops, and a cache of the user beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "engine"
    (folder / "search").mkdir(parents=True)
    (folder / "search" / "some_loops.py").write_text("LIMIT = 1\n")
    return folder


def changed(engine: Path, limit: int) -> Path:
    """Where the loops are kept after a change."""
    (engine / "search" / "some_loops.py").write_text(f"LIMIT = {limit}\n")
    folder = folder_for_loops(engine)
    assert folder is not None
    return folder


def test_a_change_of_any_loop_is_another_folder(engine: Path) -> None:
    """A change of a loop removes the code that was compiled before. A change of another module does not."""
    first = folder_for_loops(engine)
    assert first is not None
    assert first.parent == engine / "__pycache__"
    (engine / "search" / "other.py").write_text("LIMIT = 2\n")
    assert folder_for_loops(engine) == first
    assert changed(engine, 2) != first


def test_versions_that_are_used_in_turn_keep_theirs(engine: Path) -> None:
    """Two versions that share a folder both find again what they compiled. What was unused for longest goes."""
    kept = [changed(engine, limit) for limit in range(MOST_KEPT)]
    for folder in kept:
        (folder / "loop.nbc").write_bytes(b"compiled")
    for number, folder in enumerate(kept):
        os.utime(folder, (number, number))
    assert changed(engine, 0) == kept[0]
    another = changed(engine, MOST_KEPT)
    assert set(another.parent.iterdir()) == {another, kept[0], *kept[2:]}
    assert (kept[0] / "loop.nbc").read_bytes() == b"compiled"


def test_what_cannot_be_written_is_copied(engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled loops of an image are copied to the cache if the container cannot write beside the modules."""
    beside = folder_for_loops(engine)
    assert beside is not None
    (beside / "loop.nbc").write_bytes(b"compiled")
    # Permissions do not stop the superuser, who runs these tests in a container.
    monkeypatch.setattr(os, "access", lambda path, mode: beside not in (path, *Path(path).parents))
    kept = folder_for_loops(engine)
    assert kept == tmp_path / "cache" / "streamer" / beside.name
    assert (kept / "loop.nbc").read_bytes() == b"compiled"
    (kept / "loop.nbc").write_bytes(b"compiled here")
    assert folder_for_loops(engine) == kept
    assert (kept / "loop.nbc").read_bytes() == b"compiled here"


def test_nothing_is_kept_where_nothing_can_be_written(engine: Path, tmp_path: Path) -> None:
    """If no folder can be written, nothing is saved."""
    (engine / "__pycache__").write_text("no folder")
    (tmp_path / "cache").write_text("no folder")
    assert folder_for_loops(engine) is None


SESSION = """
from streamer.audio.audio_file import read_audio
from streamer.bridge.triton.repository import asr_repository
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_options import StreamOptions

recogniser = load_recogniser(asr_repository() / "streaming_asr" / "1", slots=2)
audio = read_audio("audio_samples/airplane.mp3")
for stream, options in enumerate(({}, {"hotwords": ["airplane", "zorblatt"], "second_pass": True}), 1):
    recogniser.open(stream, StreamOptions.from_dict(options, recogniser.model.step_ms, list(recogniser.searches)))
    for _, answer in recogniser.step([Chunk(stream, audio, end=True)]):
        assert answer, answer
"""


def test_the_first_session_compiles_nothing(tmp_path: Path) -> None:
    """After the command that compiles the loops, no session compiles any, with hotwords or without."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "streamer.engine.compile"], env=environment, check=True)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert len(kept) > 20
    subprocess.run([sys.executable, "-c", SESSION], env=environment, check=True, cwd=ROOT)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")} == kept
