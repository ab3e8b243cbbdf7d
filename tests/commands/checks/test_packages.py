"""Checks of the packages, torch and Triton, also if some are missing."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from streamer.base.package import NAME
from streamer.bridge.triton import installation
from streamer.commands.checks import packages
from streamer.commands.checks.finding import FINE, WARNING, WRONG
from tests.project import ROOT


def test_the_parts_are_those_of_the_package() -> None:
    """Each part has exactly the packages that pyproject.toml lists."""
    text = (ROOT / "pyproject.toml").read_text()
    for part, names in packages.PARTS.items():
        field = "dependencies" if part == "client" else part
        listed = re.search(rf"^{field} = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
        assert listed is not None
        lines = [Requirement(line) for line in re.findall(r'^    "([^"]+)"', listed[1], re.MULTILINE)]
        required = [line.name for line in lines if line.marker is None or line.marker.evaluate()]
        assert [name for name in required if name != NAME] == list(names)


def test_all_parts_are_here() -> None:
    """All parts are installed for the tests; each has a line with its versions."""
    found = list(packages.packages())
    assert [each.subject for each in found] == ["streamer", *packages.PARTS]
    assert {each.state for each in found} == {FINE}
    assert not packages.is_light()


@pytest.mark.parametrize(("clone", "remedy"), [(True, "make install"), (False, "pip install 'streamer-asr[mic]'")])
def test_a_part_that_is_missing(monkeypatch: pytest.MonkeyPatch, clone: bool, remedy: str) -> None:
    """A missing part is installed like the rest; without a microphone, recordings still work."""
    monkeypatch.setattr(packages, "PARTS", {**packages.PARTS, "mic": ("no-such-package", "sounddevice")})
    monkeypatch.setattr(packages, "CLONE", clone)
    (found,) = [each for each in packages.packages() if each.state != FINE]
    assert (found.subject, found.state, found.remedy) == ("mic", WARNING, remedy)
    assert found.said.startswith("no-such-package missing; sounddevice ")


@pytest.mark.parametrize(
    ("names", "said"),
    [(("no-such-package",), "no-such-package missing: "), ((), "no package for this machine: ")],
)
def test_without_the_package_of_a_reader(names: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault: the command that fetches models fetches readers too, also for other machines."""
    monkeypatch.setattr(packages, "PARTS", {"reader": names})
    _, found = packages.packages()
    assert (found.subject, found.state) == ("reader", FINE)
    assert found.said == f"{said}`streamer models get` fetches readers too"


def fake(folder: Path, name: str, number: str) -> None:
    """Install the metadata of a package with this version there."""
    metadata = folder / f"{name}-{number}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")


def test_a_pair_that_is_none_and_a_gpu_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both versions and a fitting pair are named, and the GPU that nvidia-smi finds, with what to do."""
    fake(tmp_path, "torchaudio", "2.5.1")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA T4, 470.57.02, 15360 MiB'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pair, imported, gpu = packages.torch()
    assert (pair.state, pair.remedy) == (WARNING, "pip install 'torch==2.11.*' 'torchaudio==2.11.*'")
    assert "torchaudio 2.5.1 do not fit together" in pair.said
    assert (imported.subject, imported.state) == ("torch", FINE)
    assert (gpu.subject, gpu.state) == ("GPU", WARNING)
    assert gpu.said.startswith("NVIDIA T4, 470.57.02, 15360 MiB was found, but torch cannot use it")
    assert "docker run --gpus all" in gpu.remedy


def test_another_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An untested torch is a warning; one that cannot be imported is a problem only where there is a GPU."""
    for name in ("torch", "torchaudio"):
        fake(tmp_path, name, "2.5.1")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    tried, imported = packages.torch()
    assert (tried.state, tried.said) == (WARNING, "torch 2.5.1: Streamer is tested with 2.11")
    assert imported.state == WARNING
    assert "libcudart.so.12: cannot open shared object file" in imported.said
    monkeypatch.setattr(packages, "gpu_is_there", lambda: True)
    assert list(packages.torch())[-1].state == WRONG


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a machine where the engine is installed without torch."""
    monkeypatch.setattr(packages, "PARTS", {**packages.PARTS, "gpu": ("no-torch",)})
    real = packages.installed_version
    monkeypatch.setattr(packages, "installed_version", lambda name: None if name == "torch" else real(name))


def test_a_cpu_needs_no_torch(without_torch: None) -> None:
    """Where there is no GPU, nothing is said to be wrong without torch."""
    assert [each for each in (*packages.packages(), *packages.torch()) if each.state != FINE] == []


def test_a_gpu_needs_torch(without_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a GPU, it is said that the CPU computes, and what to install."""
    monkeypatch.setattr(packages, "gpu_is_there", lambda: True)
    monkeypatch.setattr(packages, "CLONE", False)
    part, gpu = (each for each in (*packages.packages(), *packages.torch()) if each.state != FINE)
    assert (part.subject, part.state, part.remedy) == ("gpu", WARNING, "pip install 'streamer-asr[gpu]'")
    assert (gpu.subject, gpu.state, gpu.remedy) == ("GPU", WARNING, "pip install 'streamer-asr[gpu]'")
    assert gpu.said == "a GPU was found, but torch is missing: the recogniser computes on the CPU"


def test_the_engine_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package that is installed and cannot be imported is a problem, with its reason."""
    assert [each.state for each in packages.engine()] == [FINE]
    (tmp_path / "numba.py").write_text("raise ImportError('llvmlite is too old')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (broken,) = packages.engine()
    assert (broken.subject, broken.state) == ("networks", WRONG)
    assert broken.said.endswith("ImportError: llvmlite is too old")


def test_the_package_for_a_gpu_in_place_of_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """onnxruntime-gpu has the modules of onnxruntime, so onnxruntime is not missing."""
    fake(tmp_path, "other_package", "1.2.3")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(packages, "_IN_PLACE_OF", {"no-such-package": "other-package"})
    assert packages.installed_version("no-such-package") == "1.2.3"
    assert packages.installed_version("nothing-at-all") is None


def test_triton_really_starts() -> None:
    """Triton's program is run, with the library of this Python."""
    assert [(each.subject, each.state) for each in packages.triton()] == [("libpython", FINE), ("Triton", FINE)]


def test_a_triton_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is split into the problem and the remedy."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (found,) = packages.triton()
    assert (found.state, found.remedy) == (WRONG, "pip install 'streamer-asr[embedded]'")


def test_a_python_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the system's package."""
    real = installation.find_tritonserver()
    monkeypatch.setattr(installation, "find_tritonserver", lambda: real)
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    (found,) = packages.triton()
    assert (found.subject, found.state, found.remedy) == ("libpython", WRONG, "apt install libpython3.99")
