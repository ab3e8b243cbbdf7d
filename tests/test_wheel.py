"""The wheel: built, unpacked somewhere else, and used there without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from streamer import __version__
from streamer.base.package import NAME
from streamer.bridge.service import Service
from tests.project import ROOT

SHORT = ROOT / "audio_samples" / "airplane.mp3"
LIMIT_S = 110
PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command successfully. Returns its standard output."""
    # No PYTHONPATH and no settings of the test run: the installed package must work by itself.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel. It uses the dependencies of the test run, because they have 5 GB."""
    folder = tmp_path_factory.mktemp("venv") / "with space"
    # Without a pip of its own, whose installation takes longer than everything else here.
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    run(sys.executable, "-m", "pip", "--python", folder, "install", "--no-deps", "--no-index", wheel, cwd=folder.parent)
    packages = Path(run(folder / "bin" / "python", "-c", PACKAGES, cwd=folder.parent).strip())
    # Appended to the path, so after the wheel. A .pth file there, such as that of the checkout, is not used.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_it_holds_what_running_needs(wheel: Path) -> None:
    """The wheel has the package, the model repository with its weights, and the page, and only files for users."""
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "streamer/commands/cli.py",
        "streamer/py.typed",
        "streamer/models/catalogue.json",
        "streamer/web/index.html",
        "streamer/web/streamer.js",
        "streamer/audio_samples/quilter.ogg",
        "streamer/audio_samples/talk.flac",
        "streamer/audio_samples/talk.txt",
        "streamer/asr_repo/streaming_asr/config.pbtxt",
        "streamer/asr_repo/streaming_asr/1/model.py",
        "streamer/asr_repo/streaming_asr/1/model.json",
        "streamer/asr_repo/streaming_asr/1/weights.safetensors",
        "streamer/asr_repo/asr_heads/config.pbtxt",
        "streamer/asr_repo/asr_heads/1/README.md",
        "streamer/asr_repo/speech_encoder/1/model.py",
    ):
        assert needed in names
    metadata = f"{NAME.replace('-', '_')}-{__version__}.dist-info/"
    assert {name.split("/")[0] + "/" for name in names} == {"streamer/", metadata}
    strangers = ("streamer/tests/", "streamer/training/", "streamer/workshop/", "workshop/")
    assert not [name for name in names if "__pycache__" in name or name.startswith(strangers)]


def test_the_installed_package_is_the_one_that_runs(installed: Path, tmp_path: Path) -> None:
    """Neither the checkout nor the current folder matters."""
    code = "import streamer; from streamer.bridge.triton.repository import asr_repository"
    code += "; print(streamer.__file__, asr_repository())"
    shown = run(installed / "python", "-c", code, cwd=tmp_path)
    assert shown.count(str(installed.parent)) == 2
    assert str(ROOT) not in shown
    assert run(installed / "streamer", "--version", cwd=tmp_path) == f"streamer {__version__}\n"


def test_the_command_transcribes_outside_the_checkout(installed: Path, service: Service, tmp_path: Path) -> None:
    """`streamer FILE` with its own Triton gives the same as the checkout."""
    # The service of the tests has no reader.
    command: list[str | Path] = [installed / "streamer", SHORT, "--second-pass", "on", "--format", "json", "--server"]
    own = json.loads(run(*command, "embedded", cwd=tmp_path))
    assert own["file"] == str(SHORT)
    assert own["duration_ms"] > 3000
    assert own == json.loads(run(*command, service.url, cwd=tmp_path))
