"""`make release`: the archives of a release, and their checksums."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

from streamer import __version__
from tests.project import ROOT

LIMIT_S = 240
STEM = f"streamer_asr-{__version__}"


def test_release(tmp_path: Path) -> None:
    """It makes the wheel, the source archive and the right checksums, checks recipes, and says what it cannot do."""
    folder = tmp_path / "dist"
    # The environment of the test run counts as installed. A nested make must not wait for the jobs of an outer one.
    command = ["make", "--assume-old=.venv/.installed", "release", f"DIST={folder}"]
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST_", "PYTHON"))
    }
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    archives = [f"{STEM}-py3-none-any.whl", f"{STEM}.tar.gz"]
    assert sorted(each.name for each in folder.iterdir()) == ["SHA256SUMS", *archives]
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1]: line.split()[0] for line in lines} == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in archives
    }
    with tarfile.open(folder / archives[1]) as source:
        names = set(source.getnames())
    assert {f"{STEM}/{name}" for name in ("pyproject.toml", "LICENSE", "streamer/__init__.py")} <= names
    assert " passed" in done.stdout
    assert "no image is built" in done.stdout
