"""Runs the programs with the clients, in their own environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamer.testing.exact_service import ExactService

CLIENTS = os.environ.get("STREAMER_CLIENTS", "")
PATIENCE_S = 120
# The programs say this on a line of its own when they have sent half of their audio.
HALF = "half"


def run(
    program: str,
    service: ExactService,
    recording: Path,
    *arguments: str,
    when: Mapping[str, Callable[[], object]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Run a program of this folder, in the environment with the clients. Returns what it printed.

    `when`: what to do when the program prints one of these lines.
    """
    folder = Path(CLIENTS).resolve()
    interpreter = "node" if program.endswith(".cjs") else folder / "bin" / "python"
    # Certificates are for this name.
    host = f"localhost:{urlsplit(service.url).port}"
    command = (interpreter, Path(__file__).with_name(program), host, recording, *arguments)
    variables = {**os.environ, "NODE_PATH": str(folder / "node_modules"), **(environment or {})}
    lines: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, text=True, env=variables, cwd=folder
        ) as process,
    ):
        patience = threading.Timer(PATIENCE_S, process.kill)
        patience.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if when and lines[-1] in when:
                when[lines[-1]]()
        process.wait()
        patience.cancel()
        complaints.seek(0)
        assert process.returncode == 0, complaints.read()
    return json.loads(lines[-1])
