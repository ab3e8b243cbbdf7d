"""The Python packages: which parts of Streamer are installed, and whether torch and Triton work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from streamer import __version__
from streamer.distribution import install_command
from streamer.doctor.finding import FINE, WARNING, WRONG, Finding
from streamer.shipped import PACKAGE
from streamer.triton import TritonError

_TOMLI: Final = () if sys.version_info >= (3, 11) else ("tomli",)
# The parts of pyproject.toml, and the packages that each adds.
PARTS: Final = {
    "client": ("argcomplete", "numpy", "soundfile", "soxr", "websockets"),
    "bridge": ("h11", "prometheus-client", *_TOMLI, "protobuf", "tritonclient"),
    "engine": ("safetensors", "onnxruntime", "numba", "kaldi-native-fbank", "torch", "torchaudio"),
    "embedded": ("nvidia-pytriton",),
    "mic": ("sounddevice",),
}
# The parts for a service on this machine. A client of a service elsewhere needs none of them.
OWN_SERVICE: Final = ("bridge", "engine", "embedded")
TORCH: Final = "2.11"
CLONE: Final = (PACKAGE.parent / "Makefile").is_file()

_TORCH_PATIENCE_S: Final = 90
_SMI_PATIENCE_S: Final = 15
_GIT_PATIENCE_S: Final = 10
_TORCH: Final = """
import json, torch
there = torch.cuda.is_available()
name = torch.cuda.get_device_name(0) if there else None
print(json.dumps({"cuda": torch.version.cuda, "there": there, "name": name, "count": torch.cuda.device_count()}))
"""


def installed(name: str) -> str | None:
    """Return the version of a package. None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def missing(part: str) -> list[str]:
    """Return the packages that this part needs and that are not installed."""
    return [name for name in PARTS[part] if installed(name) is None]


def is_light() -> bool:
    """Return whether only the client was meant to be installed: neither torch nor Triton is here."""
    return not any(installed(name) for name in ("torch", *PARTS["embedded"]))


def packages() -> Iterator[Finding]:
    """Yield a line for each part."""
    yield Finding("streamer", FINE, f"{__version__}, {PACKAGE}{_commit()}")
    for part, names in PARTS.items():
        said = ", ".join(f"{name} {number}" for name in names if (number := installed(name)))
        lacking = missing(part)
        if not lacking and part == "client" and (broken := _broken(names)):
            name, reason = broken
            yield Finding(part, WRONG, f"{name} cannot be imported: {reason}", f"pip install --force-reinstall {name}")
        elif not lacking:
            yield Finding(part, FINE, said)
        else:
            lacks = f"{', '.join(lacking)} missing"
            yield Finding(part, _weight(part), f"{lacks}; {said}" if said else lacks, _installing(part))


def torch() -> Iterator[Finding]:
    """Yield whether torch can be imported, whether torchaudio fits to it, and whether there is a GPU."""
    torch, torchaudio = installed("torch"), installed("torchaudio")
    if torch is None:
        return
    remedy = f"pip install 'torch=={TORCH}.*' 'torchaudio=={TORCH}.*'"
    if torchaudio and _pair(torch) != _pair(torchaudio):
        said = f"torch {torch} and torchaudio {torchaudio} do not fit together: training cannot load both"
        yield Finding("torch", WARNING, said, remedy)
    elif _pair(torch) != TORCH:
        yield Finding("torch", WARNING, f"torch {torch}: Streamer is tested with {TORCH}", remedy)
    try:
        command = [sys.executable, "-c", _TORCH]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TORCH_PATIENCE_S, check=False)
        told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        told, reason = {}, str(error)
    if not told:
        yield Finding("torch", WRONG, f"torch {torch} cannot be imported: {reason}", remedy)
        return
    cuda = f"built for CUDA {told['cuda']}" if told["cuda"] else "built for CPUs only"
    yield Finding("torch", FINE, f"{torch} can be imported, {cuda}")
    yield from _gpu(told)


def triton() -> Iterator[Finding]:
    """Yield the program of the server, and the library with which it runs Python. Both are loaded for the check."""
    from streamer.triton.installation import REINSTALL, find_tritonserver

    if is_light():
        return
    try:
        found = find_tritonserver()
    except TritonError as error:
        said, _, remedy = str(error).rpartition(": ")
        yield Finding("Triton", WRONG, *((said, remedy) if remedy.startswith("pip") else (str(error),)))
        return
    with tempfile.TemporaryDirectory(prefix="streamer-doctor-") as folder:
        try:
            environment = found.environment(Path(folder))
        except TritonError as error:
            said, _, remedy = str(error).partition(". On Debian and Ubuntu: ")
            yield Finding("libpython", WRONG, said, remedy)
            return
        yield Finding("libpython", FINE, f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0 was found")
        try:
            command = [str(found.binary), "--help"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            yield Finding("Triton", WRONG, f"{found.binary} does not start: {error}", REINSTALL)
            return
    if "Usage: tritonserver" in done.stdout + done.stderr:
        yield Finding("Triton", FINE, f"tritonserver of nvidia-pytriton {installed('nvidia-pytriton')} starts")
    else:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        yield Finding("Triton", WRONG, f"{found.binary} does not start: {reason}", REINSTALL)


def _commit() -> str:
    """Return the commit, in a clone."""
    git = shutil.which("git")
    if git is None or not (PACKAGE.parent / ".git").exists():
        return ""
    command = [git, "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--tags"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f", commit {done.stdout.strip()}" if done.returncode == 0 else ""


def _weight(part: str) -> str:
    """Return how serious it is that a package of this part is missing."""
    return WRONG if part == "client" or (part in OWN_SERVICE and not is_light()) else WARNING


def _installing(part: str) -> str:
    if CLONE:
        return "make install"
    return install_command({"client": "", "mic": "mic"}.get(part, "embedded"))


def _broken(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of these packages that cannot be imported, and why. A system library may be missing."""
    for name in names:
        try:
            import_module(name)
        except (ImportError, OSError) as error:
            return name, str(error)
    return None


def _gpu(told: dict[str, Any]) -> Iterator[Finding]:
    if told["there"]:
        others = f", and {told['count'] - 1} more" if told["count"] > 1 else ""
        yield Finding("GPU", FINE, f"{told['name']}{others}; driver: {_driver() or 'unknown'}")
        return
    on_cpu = "the recogniser computes on the CPU"
    driver = _driver()
    if driver is None:
        yield Finding("GPU", WARNING, f"none: {on_cpu}")
    elif told["cuda"]:
        remedy = f"install a driver for CUDA {told['cuda']}; in a container: docker run --gpus all"
        yield Finding("GPU", WARNING, f"{driver} was found, but torch cannot use it: {on_cpu}", remedy)
    else:
        remedy = f"pip install --force-reinstall --index-url https://pypi.org/simple 'torch=={TORCH}.*'"
        yield Finding("GPU", WARNING, f"{driver} was found, but this torch is built for CPUs only: {on_cpu}", remedy)


def _driver() -> str | None:
    """Return what nvidia-smi says about the first GPU. None if there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.splitlines()), None)


def _pair(number: str) -> str:
    return ".".join(number.split(".")[:2])
