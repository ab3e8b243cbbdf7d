"""The arrows between the parts: who may import whom, and what the light parts must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

# A part, and what of ours it may import besides itself. The outer parts (cli, evaluate and their pieces) are free.
ARROWS = {
    "streamer/engine": (),
    "streamer/wire": (),
    "streamer/distribution.py": (),
    "streamer/shipped.py": (),
    "streamer/audio": (),
    "streamer/triton": ("streamer.triton.repository",),
    "streamer/triton/repository.py": ("streamer.triton",),
    "streamer/address.py": ("streamer.wire",),
    "streamer/client": ("streamer.address", "streamer.audio", "streamer.transcript", "streamer.wire"),
    "streamer/cues.py": (),
    "streamer/transcript.py": ("streamer.cues",),
    "streamer/bridge": ("streamer.audio", "streamer.triton", "streamer.wire"),
    "asr_repo": ("streamer.engine",),
}

# Where our files lie and what our package is called: these import nothing of ours, and every part may ask them.
ANYWHERE = ("streamer.distribution", "streamer.shipped")

# What a fresh interpreter must not have loaded after importing a part.
HEAVY = {
    "streamer.cli": ("numpy", "soundfile", "websockets", "grpc", "torch"),
    "streamer.commands.mic": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.commands.doctor": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.triton.server": ("numpy", "websockets", "grpc", "torch"),
    "streamer.wire.native": ("numpy", "asyncio", "websockets", "torch"),
    "streamer.transcript": ("numpy", "torch"),
    "streamer.wire.options": ("numpy", "asyncio"),
    "streamer.audio.codecs": ("soundfile", "torch", "grpc"),
    "streamer.audio.files": ("torch", "torchaudio", "grpc"),
    "streamer.client": ("torch", "torchaudio", "grpc", "tritonclient", "prometheus_client", "streamer.bridge"),
    "streamer.triton.link": ("torch", "torchaudio"),
    "streamer.bridge.service": ("torch", "torchaudio", "streamer.engine"),
    "streamer.evaluate.evaluation": ("torch", "streamer.engine"),
    "streamer.engine.recogniser": ("grpc", "tritonclient", "websockets", "torchaudio"),
}


def modules(part: str) -> list[Path]:
    """The Python files of a part."""
    path = ROOT / part
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """The modules of ours that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports have full names"
            # `from streamer import engine` names a part, `from streamer import __version__` does not.
            whole = node.module == "streamer"
            found.update(
                f"streamer.{alias.name}" if whole and alias.name != "__version__" else str(node.module)
                for alias in node.names
            )
    return {name for name in found if name.startswith("streamer.")}


@pytest.mark.parametrize("part", ARROWS)
def test_a_part_imports_only_what_it_may(part: str) -> None:
    """The arrows of docs/architecture.md point one way."""
    own = part.removesuffix(".py").replace("/", ".")
    allowed = (own, *ANYWHERE, *ARROWS[part])
    files = modules(part)
    assert files
    for path in files:
        for name in imports(path):
            assert any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed), f"{path} imports {name}"


@pytest.mark.parametrize("part", HEAVY)
def test_a_light_part_loads_nothing_heavy(part: str) -> None:
    """Seen in a fresh interpreter: what is loaded, not what is written."""
    code = f"import {part}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert part in loaded
    assert loaded.isdisjoint(HEAVY[part])


@pytest.mark.parametrize("part", ["streamer.client", "streamer.bridge.service", "streamer.cli"])
def test_a_light_part_works_without_torch(part: str) -> None:
    """Where torch is not installed these can be imported all the same."""
    code = f"import sys; sys.modules.update(torch=None, torchaudio=None); import {part}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
