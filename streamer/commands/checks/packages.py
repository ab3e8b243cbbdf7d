"""Checks the Python packages: which parts of Streamer are installed, and whether the engine, torch and Triton work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import machine
from typing import Final, TypedDict

from streamer import __version__
from streamer.base.package import PACKAGE, install_command
from streamer.base.torch_import import gpu_is_there
from streamer.bridge.triton import TritonError
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding

_TOMLI: Final = () if sys.version_info >= (3, 11) else ("tomli",)
# The only one of its files that was tried.
_MOONSHINE: Final = ("moonshine-voice",) if (sys.platform, machine()) == ("linux", "x86_64") else ()
# The parts of pyproject.toml, and the packages that each adds.
PARTS: Final = {
    "client": ("argcomplete", "numpy", "soundfile", "soxr", "websockets"),
    "bridge": ("h11", "prometheus-client", *_TOMLI, "protobuf", "tritonclient"),
    "engine": ("safetensors", "onnxruntime", "numba", "kaldi-native-fbank"),
    "gpu": ("torch", "torchaudio"),
    "reader": _MOONSHINE,
    "whisper": ("ctranslate2",),
    "embedded": ("nvidia-pytriton",),
    "mic": ("sounddevice", *(("python-xlib",) if sys.platform == "linux" else ())),
}
# What may take the place of a package, with the same modules: docs/how-to/models.md.
_IN_PLACE_OF: Final = {"onnxruntime": "onnxruntime-gpu"}
# The parts for a service on this machine. A client of a service elsewhere needs none of them.
OWN_SERVICE: Final = ("bridge", "engine", "embedded")
TORCH: Final = "2.11"
CLONE: Final = (PACKAGE.parent / "Makefile").is_file()

_IMPORT_PATIENCE_S: Final = 90
_SMI_PATIENCE_S: Final = 15
_GIT_PATIENCE_S: Final = 10
_ON_CPU: Final = "the recogniser computes on the CPU"
_ENGINE: Final = "import kaldi_native_fbank, numba, onnxruntime, safetensors"
_TORCH: Final = """
import json, torch
there = torch.cuda.is_available()
name = torch.cuda.get_device_name(0) if there else None
print(json.dumps({"cuda": torch.version.cuda, "there": there, "name": name, "count": torch.cuda.device_count()}))
"""


class _TorchFacts(TypedDict):
    """What that program prints."""

    cuda: str | None  # the version that torch was built for
    there: bool
    name: str | None
    count: int


def installed_version(name: str) -> str | None:
    """Return the version of a package, or of the one that takes its place. None if neither is installed."""
    for each in (name, _IN_PLACE_OF.get(name, name)):
        with suppress(PackageNotFoundError):
            return version(each)
    return None


def missing_packages(part: str) -> list[str]:
    """Return the packages that this part needs and that are not installed."""
    return [name for name in PARTS[part] if installed_version(name) is None]


def is_light() -> bool:
    """Return whether only the light client is installed: neither what computes networks nor Triton is here."""
    return not any(installed_version(name) for name in ("onnxruntime", *PARTS["embedded"]))


def packages() -> Iterator[Finding]:
    """Check the packages of each part."""
    yield Finding("streamer", FINE, f"{__version__}, {PACKAGE}{_commit()}")
    for part, names in PARTS.items():
        versions = ", ".join(f"{name} {number}" for name in names if (number := installed_version(name)))
        lacking = missing_packages(part)
        if not lacking and part == "client" and (broken := _first_broken(names)):
            name, reason = broken
            yield Finding(part, WRONG, f"{name} cannot be imported: {reason}", f"pip install --force-reinstall {name}")
        elif part == "reader" and (lacking or not names):
            absent = f"{', '.join(lacking)} missing" if lacking else "no package for this machine"
            yield Finding(part, FINE, f"{absent}: `streamer models get` fetches readers too")
        elif part == "whisper" and lacking:
            yield Finding(part, FINE, "ctranslate2 missing: only Whisper as a reader needs it")
        elif not lacking:
            yield Finding(part, FINE, versions)
        elif part == "gpu" and not gpu_is_there():
            yield Finding(part, FINE, f"{', '.join(lacking)} missing: there is no GPU, and a CPU needs neither")
        else:
            lacks = f"{', '.join(lacking)} missing"
            yield Finding(part, _severity(part), f"{lacks}; {versions}" if versions else lacks, _remedy(part))


def engine() -> Iterator[Finding]:
    """Check whether the packages that compute on a CPU can be imported. One may be damaged, or lack a library."""
    if missing_packages("engine"):
        return
    try:
        command = [sys.executable, "-c", _ENGINE]
        process = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_PATIENCE_S, check=False)
        reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        works = process.returncode == 0
    except (OSError, subprocess.SubprocessError) as error:
        works, reason = False, str(error)
    if works:
        yield Finding("networks", FINE, "onnxruntime, numba and kaldi-native-fbank can be imported")
    else:
        remedy = f"pip install --force-reinstall {' '.join(PARTS['engine'])}"
        yield Finding("networks", WRONG, f"the packages of the engine cannot be imported: {reason}", remedy)


def torch() -> Iterator[Finding]:
    """Check whether there is a GPU, whether torch can be imported for it, and whether torchaudio fits to torch."""
    torch, torchaudio = installed_version("torch"), installed_version("torchaudio")
    if torch is None:
        yield from [] if is_light() else _gpu_without_torch()
        return
    remedy = f"pip install 'torch=={TORCH}.*' 'torchaudio=={TORCH}.*'"
    if torchaudio and _major_minor(torch) != _major_minor(torchaudio):
        message = f"torch {torch} and torchaudio {torchaudio} do not fit together: training cannot load both"
        yield Finding("torch", WARNING, message, remedy)
    elif _major_minor(torch) != TORCH:
        yield Finding("torch", WARNING, f"torch {torch}: Streamer is tested with {TORCH}", remedy)
    try:
        command = [sys.executable, "-c", _TORCH]
        process = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_PATIENCE_S, check=False)
        info: _TorchFacts | None = json.loads(process.stdout) if process.returncode == 0 else None
        reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        info, reason = None, str(error)
    if info is None:
        # A CPU needs no torch, so only a recogniser on a GPU fails.
        state = WRONG if gpu_is_there() else WARNING
        yield Finding("torch", state, f"torch {torch} cannot be imported: {reason}", remedy)
        return
    cuda = f"built for CUDA {info['cuda']}" if info["cuda"] else "built for CPUs only"
    yield Finding("torch", FINE, f"{torch} can be imported, {cuda}")
    yield from _gpu(info)


def triton() -> Iterator[Finding]:
    """Check the program of the server, and the library with which it runs Python, by loading both."""
    from streamer.bridge.triton.installation import REINSTALL, find_tritonserver

    if is_light():
        return
    try:
        program = find_tritonserver()
    except TritonError as error:
        reason, _, remedy = str(error).rpartition(": ")
        yield Finding("Triton", WRONG, *((reason, remedy) if remedy.startswith("pip") else (str(error),)))
        return
    with tempfile.TemporaryDirectory(prefix="streamer-doctor-") as folder:
        try:
            environment = program.environment(Path(folder))
        except TritonError as error:
            reason, _, remedy = str(error).partition(". On Debian and Ubuntu: ")
            yield Finding("libpython", WRONG, reason, remedy)
            return
        yield Finding("libpython", FINE, f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0 was found")
        try:
            command = [str(program.binary), "--help"]
            process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            yield Finding("Triton", WRONG, f"{program.binary} does not start: {error}", REINSTALL)
            return
    if "Usage: tritonserver" in process.stdout + process.stderr:
        yield Finding("Triton", FINE, f"tritonserver of nvidia-pytriton {installed_version('nvidia-pytriton')} starts")
    else:
        reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[0]
        yield Finding("Triton", WRONG, f"{program.binary} does not start: {reason}", REINSTALL)


def _commit() -> str:
    """Return the commit of a clone, as words for a list; empty for an installed package."""
    git = shutil.which("git")
    if git is None or not (PACKAGE.parent / ".git").exists():
        return ""
    command = [git, "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--tags"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f", commit {process.stdout.strip()}" if process.returncode == 0 else ""


def _severity(part: str) -> str:
    """Return the state of a part of which a package is missing."""
    return WRONG if part == "client" or (part in OWN_SERVICE and not is_light()) else WARNING


def _remedy(part: str) -> str:
    if CLONE:
        return "make install"
    return install_command({"client": "", "gpu": "gpu", "mic": "mic"}.get(part, "embedded"))


def _first_broken(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of these packages that cannot be imported, and why. A system library may be missing."""
    for name in names:
        try:
            import_module(name)
        except (ImportError, OSError) as error:
            return name, str(error)
    return None


def _gpu_without_torch() -> Iterator[Finding]:
    if gpu_is_there() or _driver():
        name = _driver() or "a GPU"
        yield Finding("GPU", WARNING, f"{name} was found, but torch is missing: {_ON_CPU}", install_command("gpu"))
    else:
        yield Finding("GPU", FINE, f"none: {_ON_CPU}")


def _gpu(info: _TorchFacts) -> Iterator[Finding]:
    if info["there"]:
        others = f", and {info['count'] - 1} more" if info["count"] > 1 else ""
        yield Finding("GPU", FINE, f"{info['name']}{others}; driver: {_driver() or 'unknown'}")
        return
    driver = _driver()
    if driver is None:
        yield Finding("GPU", FINE, f"none: {_ON_CPU}")
    elif info["cuda"]:
        remedy = f"install a driver for CUDA {info['cuda']}; in a container: docker run --gpus all"
        yield Finding("GPU", WARNING, f"{driver} was found, but torch cannot use it: {_ON_CPU}", remedy)
    else:
        remedy = f"pip install --force-reinstall --index-url https://pypi.org/simple 'torch=={TORCH}.*'"
        yield Finding("GPU", WARNING, f"{driver} was found, but this torch is built for CPUs only: {_ON_CPU}", remedy)


def _driver() -> str | None:
    """Return what nvidia-smi says about the first GPU. None if there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(process.stdout.splitlines()), None)


def _major_minor(number: str) -> str:
    return ".".join(number.split(".")[:2])
