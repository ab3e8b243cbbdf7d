"""Finds the Triton server in the wheel `nvidia-pytriton`, and prepares what it needs to run.

This module neither imports the wheel's own package nor writes into the wheel.
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

from streamer.base.package import PACKAGE, install_command
from streamer.bridge.triton import TritonError

# The command that repairs the package, with the only version that is tested.
REINSTALL = "pip install --force-reinstall nvidia-pytriton==0.7.0"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Installation:
    """The paths of the server's parts."""

    binary: Path
    backend: Path
    stub: Path
    libraries: Path

    def link_backend(self, backends: Path) -> None:
        """Make a folder of backends with links. The server looks for the stub only beside the backend's library."""
        python = backends / "python"
        python.mkdir(parents=True)
        library, utilities = self.backend / "libtriton_python.so", self.backend / "triton_python_backend_utils.py"
        for path in (library, utilities, self.stub):
            (python / path.name).symlink_to(path)

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment variables of the server, after making a Python environment for models in `folder`."""
        variables = dict(os.environ)
        for name in THREADS:
            variables.setdefault(name, "1")  # because the instances already run in parallel

        def prepend(name: str, *folders: Path) -> None:
            others = [path for path in variables.get(name, "").split(os.pathsep) if path]
            variables[name] = os.pathsep.join([*map(str, folders), *others])

        prepend("LD_LIBRARY_PATH", self.libraries, *_python_library())
        prepend("PATH", _make_python(folder / "python"))
        return variables


def find_tritonserver() -> Installation:
    """Find the server in this Python environment. Raise TritonError, which says what to install, if it is not there."""
    spec = importlib.util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise TritonError(f"there is no Triton server in this Python environment: {install_command('embedded')}")
    package = Path(spec.origin).parent
    server = package / "tritonserver"
    installation = Installation(
        binary=server / "bin" / "tritonserver",
        backend=server / "backends" / "python",
        stub=server / "python_backend_stubs" / PYTHON / "triton_python_backend_stub",
        libraries=package.parent / "nvidia_pytriton.libs",
    )
    for path in (installation.binary, installation.backend, installation.libraries):
        if not path.exists():
            raise TritonError(f"nvidia-pytriton is incomplete, because {path} is missing: {REINSTALL}")
    if not installation.stub.exists():
        names = [path.name for path in installation.stub.parent.parent.iterdir()]
        versions = ", ".join(sorted(names, key=lambda name: (len(name), name)))
        raise TritonError(f"nvidia-pytriton cannot run models in Python {PYTHON}, only in {versions}")
    return installation


def _python_library() -> list[Path]:
    """Return the folder of this Python's shared library. Return none if the system's loader finds it anyway."""
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
    """Make an environment in which models can import what this process can import. Return the folder of its `python3`.

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
