"""What a Triton leaves in the temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from streamer.bridge.triton.server_folder import sweep_environments

LONG_AGO_S = 3600.0


def folder(parent: Path, name: str, age_s: float = LONG_AGO_S) -> Path:
    path = parent / name
    path.mkdir()
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_folders_of_ended_servers_are_removed(tmp_path: Path) -> None:
    """Only empty folders with the very name that Triton gives."""
    left, other, short = (folder(tmp_path, name) for name in ("python_env_aB3dEf", "python_env_aB3dEfg", "python_env_"))
    used = folder(tmp_path, "python_env_abcdef")
    (used / "environment").touch()
    os.utime(used, (1, 1))
    link = tmp_path / "python_env_ghijkl"
    link.symlink_to(other)
    sweep_environments(tmp_path)
    assert not left.exists()
    assert all(path.exists() for path in (other, short, used, link))


def test_a_running_server_keeps_its_folder(tmp_path: Path) -> None:
    """What was made since the oldest running server began may be its own."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    with subprocess.Popen(["tritonserver", "60"], executable=sleep) as server:
        try:
            new, old = folder(tmp_path, "python_env_newnew", age_s=0.0), folder(tmp_path, "python_env_oldold", 1e6)
            sweep_environments(tmp_path)
            assert new.exists()
            assert not old.exists()
        finally:
            server.kill()
