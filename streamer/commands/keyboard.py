"""Types into the window that has the focus, and fills the clipboard, by programs of the desktop.

wtype is the program for Wayland, xdotool the one for X11. Both press keys as a keyboard does, so every window takes
them. What is typed goes to their standard input: other users of the machine can read the arguments of a process.
For macOS it is osascript, and on Windows a function of the system. Neither was tried.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from streamer.base.package import install_command

# A program of a desktop that hangs is ended after this time; typing takes about 15 ms for each key.
_LIMIT_S: Final = 10.0
_KEY_S: Final = 0.1
_MOST_KEYS: Final = 200  # in one command line
# Capitals of Latin-1, and the version of xdotool (a date) that can type them with every layout.
_CAPITALS: Final = re.compile("[À-ÖØ-Þ]")
_CAPITALS_SINCE: Final = 20210804
_VERSION: Final = re.compile(r"\.(\d{8})\.")
# What the layout of the keyboard lacks, xdotool puts on a key for the moment of the press. A busy window looks later.
_PARTS: Final = re.compile(r"[\x20-\x7e]+|[À-ÖØ-Þ]|[^\x20-\x7eÀ-ÖØ-Þ]+")
_USUAL_MS: Final = "12"
_RARE_MS: Final = "150"
# The first key of wtype is lost if the window has not taken its keyboard yet.
_SETTLE_MS: Final = "50"
_TOPIC: Final = "streamer-listening"  # of notifications: a later one takes the place of an earlier one
# Codes of keys.
_MAC_RETURN: Final = 36
_MAC_DELETE: Final = 51
_WINDOWS_BACK: Final = 8
_WINDOWS_RETURN: Final = 13
# Numbers of SendInput: the kind of an input, and the flags of a key.
_KEYBOARD: Final = 1
_RELEASED: Final = 2
_UNICODE: Final = 4


class DesktopError(Exception):
    """What the desktop was asked for is not possible. The message is a sentence for the user, without its full stop."""


class Keyboard(Protocol):
    """Presses keys. Each method may raise DesktopError, and blocks until the keys were pressed."""

    def check(self) -> None:
        """Find out whether keys can be pressed, without pressing any."""

    def write(self, text: str) -> None:
        """Type text without control characters."""

    def press_return(self, count: int) -> None:
        """Press Return so often."""

    def erase(self, count: int) -> None:
        """Press Backspace so often."""

    def window(self) -> str | None:
        """Return which window has the focus. None if the desktop does not tell."""


class Clipboard(Protocol):
    """Takes text for other programs to paste."""

    def copy(self, text: str) -> None:
        """Replace what is in the clipboard. May raise DesktopError."""


NO_DISPLAY: Final = (
    "there is no desktop: neither WAYLAND_DISPLAY nor DISPLAY is set (over SSH and in a container there is none)"
)


def find_keyboard(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> Keyboard:
    """Return the keyboard of this desktop. DesktopError if it has none."""
    keyboard: Keyboard
    if system == "darwin":
        keyboard = _MacKeyboard(_program("osascript", "typing into windows of macOS"))
    elif system == "win32":
        keyboard = _WindowsKeyboard()
    elif environment.get("WAYLAND_DISPLAY"):
        keyboard = _WaylandKeyboard(_program("wtype", "typing into windows of Wayland"))
    elif environment.get("DISPLAY"):
        keyboard = _X11Keyboard(_program("xdotool", "typing into windows of X11"))
    else:
        raise DesktopError(NO_DISPLAY)
    keyboard.check()
    return keyboard


def find_clipboard(environment: Mapping[str, str] = os.environ) -> Clipboard:
    """Return the clipboard of this desktop. DesktopError if it has none."""
    if sys.platform == "darwin":
        return _ClipboardProgram([_program("pbcopy", "the clipboard")])
    if sys.platform == "win32":
        return _ClipboardProgram([_program("clip", "the clipboard")], encoding="utf-16")
    if environment.get("WAYLAND_DISPLAY"):
        return _ClipboardProgram([_program("wl-copy", "the clipboard of Wayland", "wl-clipboard")])
    if environment.get("DISPLAY"):
        return _X11Clipboard(_program("xclip", "the clipboard of X11"), environment["DISPLAY"])
    raise DesktopError(NO_DISPLAY)


def open_display(name: str, option: str) -> Any:
    """Return a connection of python-xlib with the X server that this option needs. DesktopError if there is none."""
    try:
        from Xlib import display, error
    except ImportError as missing:
        raise DesktopError(f"{option} needs the Python package python-xlib: {install_command('mic')}") from missing
    try:
        return display.Display(name)
    except (error.DisplayError, OSError) as wrong:
        raise DesktopError(f"the display {name} cannot be used: {wrong}") from wrong


class _X11Keyboard:
    """xdotool. Keys such as Ctrl that somebody holds meanwhile are released first: no letter becomes a shortcut."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._old: bool | None = None

    def check(self) -> None:
        try:
            _run([self._program, "getdisplaygeometry"])
        except DesktopError as error:
            raise DesktopError(f"the display {os.environ.get('DISPLAY')} cannot be used: {error}") from error

    def write(self, text: str) -> None:
        for part in _PARTS.findall(text):
            if _CAPITALS.fullmatch(part) and self._is_old():
                self._press(f"shift+U{ord(part.lower()):04X}", 1, _RARE_MS)
            else:
                delay = () if part.isascii() else ("--delay", _RARE_MS)
                _run([self._program, "type", "--clearmodifiers", *delay, "--file", "-"], part)

    def press_return(self, count: int) -> None:
        self._press("Return", count)

    def erase(self, count: int) -> None:
        self._press("BackSpace", count)

    def window(self) -> str | None:
        try:
            return _run([self._program, "getwindowfocus"]).strip() or None
        except DesktopError:  # no window has the focus
            return None

    def _is_old(self) -> bool:
        """Return whether it types a small letter for a capital such as Ö that the layout of the keyboard lacks."""
        if self._old is None:
            found = _VERSION.search(_run([self._program, "version"]))
            self._old = found is not None and int(found[1]) < _CAPITALS_SINCE
        return self._old

    def _press(self, key: str, count: int, delay_ms: str = _USUAL_MS) -> None:
        while count > 0:
            _run([self._program, "key", "--clearmodifiers", "--delay", delay_ms, *[key] * min(count, _MOST_KEYS)])
            count -= _MOST_KEYS


class _WaylandKeyboard:
    """wtype, a keyboard of its own: keys that somebody holds on another one do not count."""

    def __init__(self, program: str) -> None:
        self._program = program

    def check(self) -> None:
        try:
            _run([self._program, ""])
        except DesktopError as error:  # that of GNOME and that of KDE refuse it
            raise DesktopError(f"no program can type here: {error}; --clipboard works with every compositor") from error

    def write(self, text: str) -> None:
        _run([self._program, "-s", _SETTLE_MS, "-"], text)

    def press_return(self, count: int) -> None:
        self.write("\n" * count)

    def erase(self, count: int) -> None:
        self.write("\b" * count)

    def window(self) -> str | None:
        """Sway and its relatives tell; Wayland itself does not."""
        if not os.environ.get("SWAYSOCK") or not (swaymsg := shutil.which("swaymsg")):
            return None
        try:
            return _focus(json.loads(_run([swaymsg, "--raw", "--type", "get_tree"])))
        except (DesktopError, ValueError, LookupError, TypeError):
            return None


class _MacKeyboard:
    """System Events, by osascript: it reads a program in JavaScript from its standard input."""

    def __init__(self, program: str) -> None:
        self._program = program

    def check(self) -> None:
        if self._tell(["uiElementsEnabled()"]).strip() != "true":
            raise DesktopError(
                "macOS does not let this terminal type: allow it in System Settings, Privacy & Security, Accessibility"
            )

    def write(self, text: str) -> None:
        # JSON is JavaScript, so nothing in the text ends the string.
        self._tell([f"keystroke({json.dumps(text)})"])

    def press_return(self, count: int) -> None:
        self._tell([f"keyCode({_MAC_RETURN})"] * count)

    def erase(self, count: int) -> None:
        self._tell([f"keyCode({_MAC_DELETE})"] * count)

    def window(self) -> str | None:
        """Nobody tells: the system names programs, and two windows of one are alike."""
        return None

    def _tell(self, requests: Sequence[str]) -> str:
        program = "".join(f'Application("System Events").{request};\n' for request in requests)
        return _run([self._program, "-l", "JavaScript", "-"], program)


class _KeyInput(ctypes.Structure):
    """KEYBDINPUT of Windows."""

    _fields_ = (
        ("key", ctypes.c_uint16),
        ("scan", ctypes.c_uint16),
        ("flags", ctypes.c_uint32),
        ("time_ms", ctypes.c_uint32),
        ("extra", ctypes.c_size_t),
    )


class KeyInput(ctypes.Structure):
    """INPUT of Windows. Its largest kind, that of a mouse, has 8 bytes more than that of a key."""

    _fields_ = (("kind", ctypes.c_uint32), ("input", _KeyInput), ("rest", ctypes.c_uint8 * 8))


def key_inputs(keys: Sequence[int] | str) -> list[KeyInput]:
    """Return what SendInput takes to press and release keys with these codes, or the characters of a text."""
    if isinstance(keys, str):
        units = keys.encode("utf-16-le")
        pressed = [(0, int.from_bytes(units[at : at + 2], "little"), _UNICODE) for at in range(0, len(units), 2)]
    else:
        pressed = [(key, 0, 0) for key in keys]
    return [
        KeyInput(_KEYBOARD, _KeyInput(key, scan, flags | up)) for key, scan, flags in pressed for up in (0, _RELEASED)
    ]


class _WindowsKeyboard:
    """SendInput, which types every character, whatever the layout of the keyboard has."""

    def check(self) -> None:
        self._system()

    def write(self, text: str) -> None:
        self._send(key_inputs(text))

    def press_return(self, count: int) -> None:
        self._send(key_inputs([_WINDOWS_RETURN] * count))

    def erase(self, count: int) -> None:
        self._send(key_inputs([_WINDOWS_BACK] * count))

    def window(self) -> str | None:
        handle = self._system().GetForegroundWindow()
        return str(handle) if handle else None

    def _send(self, inputs: Sequence[KeyInput]) -> None:
        content = (KeyInput * len(inputs))(*inputs)
        count = self._system().SendInput(len(inputs), content, ctypes.sizeof(KeyInput))
        if count != len(inputs):
            raise DesktopError(f"Windows took {count // 2} of {len(inputs) // 2} keys")

    def _system(self) -> ctypes.CDLL:
        load = getattr(ctypes, "WinDLL", None)
        if load is None:
            raise DesktopError("only Windows has this keyboard")
        library: ctypes.CDLL = load("user32")
        return library


class _ClipboardProgram:
    """A program that takes text from its standard input, and stays in the background if that has to be."""

    def __init__(self, command: Sequence[str], encoding: str = "utf-8") -> None:
        self._command = command
        self._encoding = encoding

    def copy(self, text: str) -> None:
        _run(self._command, text, encoding=self._encoding, answers=False)


class _X11Clipboard:
    """xclip, which stays in the background until somebody copies another text.

    It ends before the server knows of the text: only what goes on in the background tells it. The next text could come
    to the server first, and be replaced by the one before. So the server is asked to say when it knows.
    """

    def __init__(self, program: str, display: str) -> None:
        """DesktopError if the display cannot be used."""
        self._program = _ClipboardProgram([program, "-selection", "clipboard", "-in"])
        self._display = display
        open_display(display, "--clipboard").close()

    def copy(self, text: str) -> None:
        display = open_display(self._display, "--clipboard")
        from Xlib.error import ConnectionClosedError
        from Xlib.ext.xfixes import XFixesSetSelectionOwnerNotifyMask

        try:
            display.xfixes_query_version()  # a client has to ask before it may use what follows
            clipboard = display.get_atom("CLIPBOARD")
            display.xfixes_select_selection_input(display.screen().root, clipboard, XFixesSetSelectionOwnerNotifyMask)
            display.sync()
            self._program.copy(text)
            self._await_event(display)
        except (ConnectionClosedError, OSError) as wrong:
            raise DesktopError(f"the display {self._display} cannot be used: {wrong}") from wrong
        finally:
            with suppress(Exception):  # the display may be gone
                display.close()

    def _await_event(self, display: Any) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while not display.pending_events():
            if not select.select([display.fileno()], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise DesktopError(f"xclip has not taken the clipboard for {_LIMIT_S:g} s")


def _focus(tree: Mapping[str, object]) -> str | None:
    """Return the number of the focused window in the tree that sway prints. None if a workspace has the focus."""
    if tree.get("focused"):
        return str(tree["id"]) if tree.get("pid") else None
    for name in ("nodes", "floating_nodes"):
        inner = tree.get(name)
        for node in inner if isinstance(inner, list) else []:
            if found := _focus(node):
                return found
    return None


def notify(text: str) -> None:
    """Show a notification, in place of the one before. DesktopError if the desktop shows none."""
    program = _program("notify-send", "a notification", "libnotify-bin")
    _run([program, "--app-name=Streamer", f"--hint=string:x-canonical-private-synchronous:{_TOPIC}", text])


def _program(name: str, purpose: str, package: str = "") -> str:
    path = shutil.which(name)
    if path is None:
        raise DesktopError(f"{purpose} needs {name}, which is not installed: apt install {package or name}")
    return path


def _run(command: Sequence[str], text: str = "", *, encoding: str = "utf-8", answers: bool = True) -> str:
    """Run a program to its end, with this text on its standard input, and return what it answers."""
    name, limit_s = Path(command[0]).name, _LIMIT_S + _KEY_S * len(text)
    # What stays in the background keeps its output open. Nothing may wait for the end of that, as with a pipe.
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                command,
                input=text.encode(encoding, "replace"),
                stdout=subprocess.PIPE if answers else subprocess.DEVNULL,
                stderr=said,
                timeout=limit_s,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DesktopError(f"{name} has not ended for {limit_s:g} s") from None
        except OSError as error:
            raise DesktopError(f"{name} cannot run: {error.strerror}") from error
        if done.returncode:
            said.seek(0)
            lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
            raise DesktopError(f"{name} failed: {lines[-1].rstrip('.') if lines else f'status {done.returncode}'}")
    return (done.stdout or b"").decode(errors="replace")
