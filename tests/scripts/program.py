"""Runs scripts as programs, as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.project import SCRIPTS

PATIENCE_S = 380


def run(script: str, *arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script of this path below scripts/ to its end."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done
