"""Desktops without a screen: X11 in Xvfb, and Wayland in sway. Their windows are terminals that keep what is typed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60.0
NOBODY = "65534"  # sway does not run for root
X11_PROGRAMS = ("Xvfb", "xdotool", "xterm", "xclip")
WAYLAND_PROGRAMS = ("sway", "swaymsg", "wtype", "foot", "wl-paste")


def until(happened: Callable[[], object], what: object = "") -> None:
    """Wait until it has happened."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Window:
    """A terminal. Its program writes all that is typed into a file."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name  # what the desktop calls it

    @property
    def keys(self) -> str:
        """All keys so far: Return is `\\r`, and Backspace `\\x7f`."""
        return self.path.read_bytes().decode(errors="backslashreplace") if self.path.exists() else ""

    @property
    def text(self) -> str:
        """What an editor would show after these keys."""
        text = ""
        for key in self.keys:
            text = text[:-1] if key == "\x7f" else text + key.replace("\r", "\n")
        return text

    def awaits(self, text: str) -> None:
        """Wait until this is the text."""
        deadline = time.monotonic() + PATIENCE_S
        while self.text != text:
            assert time.monotonic() < deadline, f"{self.text!r} instead of {text!r}"
            time.sleep(0.02)


class Desktop(ABC):
    """A running desktop. Programs with its `environment` use it."""

    def __init__(self, environment: Mapping[str, str], folder: Path, stack: ExitStack) -> None:
        self.environment = dict(environment)
        self.folder = folder
        self._stack = stack
        self._count = 0

    def ask(self, *command: str) -> str:
        """Run a program on this desktop, and return its answer."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @abstractmethod
    def paste(self) -> str:
        """What is in the clipboard."""

    @abstractmethod
    def open_window(self) -> Window:
        """Open a terminal that has the focus."""

    @abstractmethod
    def focus(self, window: Window) -> None:
        """Give it the focus."""

    def _terminal(self, *command: str) -> Path:
        self._count += 1
        path = self.folder / f"keys{self._count}"
        script = f"stty raw -echo; : > {shlex.quote(str(path))}; cat >> {shlex.quote(str(path))}"
        self._stack.enter_context(_process([*command, "sh", "-c", script], self.environment))
        until(path.exists)
        return path


class X11Desktop(Desktop):
    """X11 without a window manager. `server` is the number of its process."""

    def __init__(self, environment: Mapping[str, str], folder: Path, stack: ExitStack, server: int) -> None:
        super().__init__(environment, folder, stack)
        self.server = server

    def paste(self) -> str:
        return self.ask("xclip", "-selection", "clipboard", "-out")

    def open_window(self) -> Window:
        before = set(self._windows())
        path = self._terminal("xterm", "-u8", "-e")
        until(lambda: set(self._windows()) - before)
        [name] = set(self._windows()) - before
        window = Window(path, name)
        self.focus(window)
        # With the first key of all, a server takes another keyboard: what comes at once may be misunderstood.
        self.ask("xdotool", "key", "a")
        until(lambda: window.keys)
        os.truncate(path, 0)
        return window

    def focus(self, window: Window) -> None:
        def focused() -> bool:
            subprocess.run(["xdotool", "windowfocus", window.name], env=self.environment, capture_output=True)
            asked = subprocess.run(["xdotool", "getwindowfocus"], env=self.environment, capture_output=True, text=True)
            return asked.stdout.strip() == window.name

        until(focused)

    def _windows(self) -> Sequence[str]:
        command = ["xdotool", "search", "--onlyvisible", "--class", "xterm"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout.split()


class WaylandDesktop(Desktop):
    """Wayland, with sway as its compositor."""

    def paste(self) -> str:
        return self.ask("wl-paste", "--no-newline")

    def open_window(self) -> Window:
        before = {window["id"] for window in _windows(self._tree())}
        path = self._terminal("foot")
        until(lambda: self._focused() not in {None, *before})
        return Window(path, str(self._focused()))

    def focus(self, window: Window) -> None:
        self.ask("swaymsg", f"[con_id={window.name}] focus")
        until(lambda: str(self._focused()) == window.name)

    def _focused(self) -> object:
        return next((window["id"] for window in _windows(self._tree()) if window["focused"]), None)

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(self.ask("swaymsg", "--raw", "--type", "get_tree"))
        return tree


@contextmanager
def x11_desktop(folder: Path) -> Iterator[X11Desktop]:
    """Run an X server that nobody else uses."""
    _check(X11_PROGRAMS)
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    with ExitStack() as stack:
        server = stack.enter_context(_process(command, os.environ, pass_fds=(writing,)))
        os.close(writing)
        with os.fdopen(reading) as answer:
            display = answer.readline().strip()
        assert display, "Xvfb does not start"
        environment = {**os.environ, "DISPLAY": f":{display}"}
        environment.pop("WAYLAND_DISPLAY", None)
        yield X11Desktop(environment, folder, stack, server.pid)


@contextmanager
def wayland_desktop(folder: Path) -> Iterator[WaylandDesktop]:
    """Run sway without a screen."""
    _check(WAYLAND_PROGRAMS)
    runtime, config = folder / "runtime", folder / "config"
    runtime.mkdir(mode=0o700)
    config.write_text("xwayland disable\n")
    environment = {
        **os.environ,
        "HOME": str(runtime),
        "XDG_RUNTIME_DIR": str(runtime),
        "WLR_BACKENDS": "headless",
        "WLR_LIBINPUT_NO_DEVICES": "1",
        "WLR_RENDERER": "pixman",
    }
    environment.pop("DISPLAY", None)
    command = ["sway", "--config", str(config)]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *command]
        os.chown(runtime, int(NOBODY), int(NOBODY))
        for parent in (folder, *folder.parents):  # those of pytest are for their user alone
            if parent == Path(tempfile.gettempdir()):
                break
            parent.chmod(parent.stat().st_mode | 0o011)
    with ExitStack() as stack:
        stack.enter_context(_process(command, environment))

        def sockets() -> tuple[list[Path], list[Path]]:
            displays = [path for path in runtime.glob("wayland-*") if path.suffix != ".lock"]
            return displays, list(runtime.glob("sway-ipc*"))

        until(lambda: all(sockets()))
        [display], [control] = sockets()
        # By their paths, so that a program may have another runtime folder.
        own = {"WAYLAND_DISPLAY": str(display), "SWAYSOCK": str(control)}
        yield WaylandDesktop({**environment, **own}, folder, stack)


@contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=pass_fds
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _windows(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("pid"):
        yield node
    for inner in (*node["nodes"], *node["floating_nodes"]):
        yield from _windows(inner)


def _check(programs: Sequence[str]) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and "CI" not in os.environ:
        pytest.skip(f"a desktop without a screen needs {', '.join(missing)}: scripts/system_packages")
