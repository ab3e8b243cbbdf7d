"""Runs the programs with the clients, in their own environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamer.testing.exact_service import ExactService

CLIENTS = os.environ.get("STREAMER_CLIENTS", "")
PATIENCE_S = 120


def run(program: str, service: ExactService, recording: Path) -> Any:
    """Run a program of this folder, in the environment with the clients. Returns what it printed."""
    folder = Path(CLIENTS).resolve()
    interpreter = "node" if program.endswith(".cjs") else folder / "bin" / "python"
    command = (interpreter, Path(__file__).with_name(program), urlsplit(service.url).netloc, recording)
    environment = {**os.environ, "NODE_PATH": str(folder / "node_modules")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
