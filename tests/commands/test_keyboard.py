"""Keys and the clipboard: real windows of X11 and of Wayland get them.

What macOS and Windows would be asked for is read here as text and bytes: no test has either system.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.commands.keyboard import NO_DISPLAY, DesktopError, find_clipboard, find_keyboard, key_inputs, notify
from tests.virtual_desktop import Desktop, wayland_desktop, x11_desktop

DESKTOPS = {"X11": x11_desktop, "Wayland": wayland_desktop}
CAT = shutil.which("cat")
TEXT = "Hello, “wörld” Ödön — 5 € & 中 --x \\n $(id) "


@pytest.fixture(params=DESKTOPS, scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """Run each of the desktops."""
    with DESKTOPS[request.param](tmp_path_factory.mktemp("desktop")) as desktop:
        yield desktop


@pytest.fixture
def desktop(running: Desktop, monkeypatch: pytest.MonkeyPatch) -> Desktop:
    """Be a program of it."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SWAYSOCK", "XDG_RUNTIME_DIR"):
        if name in running.environment:
            monkeypatch.setenv(name, running.environment[name])
        else:
            monkeypatch.delenv(name, raising=False)
    return running


def test_the_focused_window_gets_the_text(desktop: Desktop) -> None:
    """Every character arrives once and in order, whatever the layout of the keyboard has, and nothing is a command."""
    window = desktop.open_window()
    keyboard = find_keyboard()
    keyboard.write(TEXT)
    window.awaits(TEXT)
    keyboard.press_return(2)
    window.awaits(f"{TEXT}\n\n")
    keyboard.erase(3)
    window.awaits(TEXT[:-1])
    assert window.keys == f"{TEXT}\r\r\x7f\x7f\x7f"


def test_the_first_key_is_not_lost(desktop: Desktop) -> None:
    """The first letters arrive even if they are equal, each time anew; many Backspaces do, too."""
    window = desktop.open_window()
    keyboard = find_keyboard()
    for _ in range(10):
        keyboard.write("aab")
    window.awaits("aab" * 10)
    keyboard.write("c" * 260)
    keyboard.erase(260)
    window.awaits("aab" * 10)


def test_which_window_has_the_focus(desktop: Desktop) -> None:
    """Another window has another name, and the same one has the same."""
    keyboard = find_keyboard()
    first = desktop.open_window()
    before = keyboard.window()
    desktop.open_window()
    after = keyboard.window()
    desktop.focus(first)
    assert before == keyboard.window() == first.name
    assert after not in (before, None)


def test_the_clipboard(desktop: Desktop) -> None:
    """Another program gets what was copied; a later text replaces it."""
    desktop.open_window()
    clipboard = find_clipboard()
    clipboard.copy("first")
    clipboard.copy(TEXT)
    assert desktop.paste() == TEXT.strip()


def slow_xclip(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Put a program in the place of xclip whose copy in the background does this with the text, some time later."""
    path = folder / "xclip"
    path.write_text(f"#!/bin/sh\ntext=$({CAT})\n(sleep 0.3; {line}) > /dev/null 2>&1 &\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize("running", ["X11"], indirect=True)
def test_a_copy_that_the_server_learns_of_late(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if xclip ends first, a text is in the clipboard when `copy` has ended, so none comes behind a later one."""
    slow_xclip(tmp_path, monkeypatch, f'printf %s "$text" | {shutil.which("xclip")} "$@"')
    clipboard = find_clipboard()
    for text in ("first", "second", "second", "third"):
        clipboard.copy(text)
        assert desktop.paste() == text


@pytest.mark.parametrize("running", ["X11"], indirect=True)
def test_a_copy_that_the_server_never_learns_of(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is told, after a while."""
    slow_xclip(tmp_path, monkeypatch, ":")
    monkeypatch.setattr("streamer.commands.keyboard._LIMIT_S", 1.0)
    with pytest.raises(DesktopError, match="xclip has not taken the clipboard for 1 s"):
        find_clipboard().copy("text")


def test_a_display_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An X server that ends while a text is copied is named."""
    with x11_desktop(tmp_path) as running:
        monkeypatch.setenv("DISPLAY", running.environment["DISPLAY"])
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        slow_xclip(tmp_path, monkeypatch, f"kill {running.server}")
        with pytest.raises(DesktopError, match=f"the display {running.environment['DISPLAY']} cannot be used"):
            find_clipboard().copy("text")


def test_a_python_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install it."""
    monkeypatch.setitem(sys.modules, "Xlib", None)
    slow_xclip(tmp_path, monkeypatch, ":")
    with pytest.raises(
        DesktopError, match=r"--clipboard needs the Python package python-xlib: pip install '.*\[mic\]'"
    ):
        find_clipboard({"DISPLAY": ":987"})


@pytest.mark.parametrize(
    ("environment", "program"),
    [({"WAYLAND_DISPLAY": "wayland-1", "DISPLAY": ":1"}, "wtype"), ({"DISPLAY": ":1"}, "xdotool")],
)
def test_a_program_that_is_missing(
    environment: dict[str, str], program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the package. Where both desktops are, Wayland counts: its windows are most."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DesktopError, match=f"needs {program}, which is not installed: apt install {program}"):
        find_keyboard(environment)
    with pytest.raises(DesktopError, match=r"apt install (wl-clipboard|xclip)"):
        find_clipboard(environment)


def test_no_desktop() -> None:
    """Without a display, one sentence says so."""
    for find in (find_keyboard, find_clipboard):
        with pytest.raises(DesktopError) as caught:
            find({"PATH": os.environ["PATH"]})
        assert str(caught.value) == NO_DISPLAY


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # python-xlib leaves its sockets open
def test_a_display_that_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A display that is gone, or that this user may not use, is named."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":987")
    with pytest.raises(DesktopError, match="the display :987 cannot be used: "):
        find_keyboard()
    program(tmp_path, "xclip")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(DesktopError, match="the display :987 cannot be used: "):
        find_clipboard()
    monkeypatch.setenv("WAYLAND_DISPLAY", str(tmp_path / "gone"))
    with pytest.raises(DesktopError, match="no program can type here: wtype failed: Wayland connection failed"):
        find_keyboard()
    gc.collect()


def program(folder: Path, name: str, answer: str = "", status: int = 0) -> Path:
    """Put a program there that keeps its arguments and its standard input in the file that is returned."""
    path, kept = folder / name, folder / f"{name}.kept"
    path.write_text(f'#!/bin/sh\n{{ echo "$@"; {CAT}; }} >> {kept}\necho "{answer}"\nexit {status}\n')
    path.chmod(0o755)
    return kept


def test_the_program_for_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """System Events gets every character in a string that it cannot leave, and codes of keys; nothing in arguments."""
    kept = program(tmp_path, "osascript", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    keyboard = find_keyboard({}, "darwin")
    kept.unlink()
    keyboard.write('say "ö"; \\')
    keyboard.press_return(2)
    keyboard.erase(1)
    events = 'Application("System Events")'
    assert kept.read_text().splitlines() == [
        "-l JavaScript -",
        f'{events}.keystroke("say \\"\\u00f6\\"; \\\\");',
        "-l JavaScript -",
        f"{events}.keyCode(36);",
        f"{events}.keyCode(36);",
        "-l JavaScript -",
        f"{events}.keyCode(51);",
    ]
    assert keyboard.window() is None


def test_macos_that_lets_no_program_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says where it is allowed."""
    program(tmp_path, "osascript", "false")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DesktopError, match="allow it in System Settings, Privacy & Security, Accessibility"):
        find_keyboard({}, "darwin")


def test_the_keys_for_windows() -> None:
    """Each key is pressed and released, in the bytes that Windows reads; a rare character is two of them."""
    inputs = [*key_inputs("é😀"), *key_inputs([13])]
    size, pointer = (40, "Q") if ctypes.sizeof(ctypes.c_void_p) == 8 else (28, "I")
    assert {ctypes.sizeof(each) for each in inputs} == {size}
    layout = struct.Struct(f"@I{'4x' if pointer == 'Q' else ''}HHII{pointer}")
    pressed = [(0, 0xE9, 4), (0, 0xD83D, 4), (0, 0xDE00, 4), (13, 0, 0)]
    assert [layout.unpack_from(bytes(each)) for each in inputs] == [
        (1, key, scan, flags | up, 0, 0) for key, scan, flags in pressed for up in (0, 2)
    ]


def test_windows_elsewhere() -> None:
    """What only Windows has is refused by other systems."""
    with pytest.raises(DesktopError, match="only Windows has this keyboard"):
        find_keyboard({}, "win32")


def test_a_notification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the desktop gets it, with a topic by which a later one replaces it; or its package is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DesktopError, match="needs notify-send, which is not installed: apt install libnotify-bin"):
        notify("Listening")
    kept = program(tmp_path, "notify-send")
    notify("Listening")
    topic = "--hint=string:x-canonical-private-synchronous:streamer-listening"
    assert kept.read_text() == f"--app-name=Streamer {topic} Listening\n"
