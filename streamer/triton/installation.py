"""The Triton server in the wheel `nvidia-pytriton`: where its parts are, and what they need to run.

The server is found without importing the wheel's own package, and nothing is written into the wheel.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from streamer.distribution import install_command
from streamer.shipped import PACKAGE
from streamer.triton import TritonError

# The command that repairs the package, with the only version that is tested.
REINSTALL = "pip install --force-reinstall nvidia-pytriton==0.7.0"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Installation:
    """The parts of the server."""

    binary: Path
    backend: Path
    stub: Path
    libraries: Path

    def link_backend(self, backends: Path) -> None:
        """Make a backend directory. The server looks for the stub only beside the backend's library."""
        python = backends / "python"
        python.mkdir(parents=True)
        for path in (
            self.backend / "libtriton_python.so",
            self.backend / "triton_python_backend_utils.py",
            self.stub,
        ):
            (python / path.name).symlink_to(path)

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the variables for the server and its Python processes. Makes a Python environment in `folder`."""
        variables = dict(os.environ)
        for name in THREADS:
            variables.setdefault(name, "1")  # the instances run in parallel instead

        def prepend(name: str, *folders: Path) -> None:
            kept = [path for path in variables.get(name, "").split(os.pathsep) if path]
            variables[name] = os.pathsep.join([*map(str, folders), *kept])

        prepend("LD_LIBRARY_PATH", self.libraries, *_python_library())
        prepend("PATH", _make_python(folder / "python"))
        return variables


def find_tritonserver() -> Installation:
    """Find the server in this Python environment. TritonError says what to install."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise TritonError(f"there is no Triton server in this Python environment: {install_command('embedded')}")
    package = Path(spec.origin).parent
    server = package / "tritonserver"
    found = Installation(
        binary=server / "bin" / "tritonserver",
        backend=server / "backends" / "python",
        stub=server / "python_backend_stubs" / PYTHON / "triton_python_backend_stub",
        libraries=package.parent / "nvidia_pytriton.libs",
    )
    for path in (found.binary, found.backend, found.libraries):
        if not path.exists():
            raise TritonError(f"nvidia-pytriton is incomplete, because {path} is missing: {REINSTALL}")
    if not found.stub.exists():
        known = sorted((path.name for path in found.stub.parent.parent.iterdir()), key=lambda name: (len(name), name))
        raise TritonError(f"nvidia-pytriton cannot run models in Python {PYTHON}, only in {', '.join(known)}")
    return found


def _python_library() -> list[Path]:
    """Return the folder of the running Python's shared library; nothing if the system's loader finds it on its own."""
    name = f"libpython{PYTHON}.so.1.0"
    beside = Path(sys.base_prefix) / "lib"
    for folder in (beside, Path(sysconfig.get_config_var("LIBDIR") or beside)):
        if (folder / name).exists():
            return [folder]
    loader = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if loader and name in subprocess.run([loader, "-p"], capture_output=True, text=True, check=False).stdout:
        return []
    raise TritonError(
        f"Triton's Python backend needs {name}, and this Python ({sys.executable}) comes without it. "
        f"On Debian and Ubuntu: apt install libpython{PYTHON}"
    )


def _make_python(folder: Path) -> Path:
    """Make an environment in which models import what this process can import. Returns the folder of its `python3`.

    The backend runs the first `python3` of PATH in isolated mode, which ignores PYTHONPATH and the user's own packages.
    A checkout, `pip install --user` and a virtual environment must all work, so the backend gets an environment that
    contains only the search paths of this process.
    """
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    programs, packages = folder / "bin", folder / "lib" / f"python{PYTHON}" / "site-packages"
    programs.mkdir(parents=True)
    packages.mkdir(parents=True)
    (programs / "python3").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n", encoding="utf-8")
    with_hooks = {*site.getsitepackages(), site.getusersitepackages()}  # their .pth files must be read too
    lines = []
    for path in dict.fromkeys(str(Path(path).absolute()) for path in [str(PACKAGE.parent), *sys.path]):
        add = "site.addsitedir" if path in with_hooks else "sys.path.append"
        lines.append(f"import site, sys; {path!a} in sys.path or {add}({path!a})")
    (packages / "streamer.pth").write_text("\n".join(lines) + "\n", encoding="ascii")
    return programs
