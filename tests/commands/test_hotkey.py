"""A key of the whole desktop, pressed in a real X server."""

from __future__ import annotations

import gc
import queue
import sys
from collections.abc import Iterator

import pytest

from streamer.commands.hotkey import HOLD_S, Chord, Hotkey, HotkeyError, TapOrHold
from streamer.commands.keyboard import NO_DISPLAY, DesktopError
from tests.virtual_desktop import PATIENCE_S, X11Desktop, until, x11_desktop


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[X11Desktop]:
    """Run a desktop."""
    with x11_desktop(tmp_path_factory.mktemp("desktop")) as running:
        yield running


@pytest.mark.parametrize("text", ["F9", "ctrl+alt+d", "super+space"])
def test_a_key_that_is_pressed_and_released(desktop: X11Desktop, text: str) -> None:
    """Both are told, also while Num Lock and Caps Lock are on; no window gets the key, but all the others."""
    window = desktop.open_window()
    changes: queue.Queue[bool] = queue.Queue()
    with Hotkey(Chord.parse(text), changes.put, desktop.environment):
        for lock in ("", "Num_Lock", "Caps_Lock"):
            if lock:
                desktop.ask("xdotool", "key", lock)
            desktop.ask("xdotool", "keydown", text)
            assert changes.get(timeout=PATIENCE_S) is True
            desktop.ask("xdotool", "keyup", text)
            assert changes.get(timeout=PATIENCE_S) is False
        desktop.ask("xdotool", "key", "Num_Lock", "key", "Caps_Lock")
        desktop.ask("xdotool", "key", "a")
        window.awaits("a")
    assert changes.empty()
    desktop.ask("xdotool", "key", "b")
    window.awaits("ab")


def test_a_key_that_is_held(desktop: X11Desktop) -> None:
    """The desktop repeats a held key; it is told as one press and one release."""
    window = desktop.open_window()
    desktop.ask("xdotool", "keydown", "a", "sleep", "1.2", "keyup", "a")
    until(lambda: window.text.startswith("aaa"))
    changes: queue.Queue[bool] = queue.Queue()
    with Hotkey(Chord.parse("F9"), changes.put, desktop.environment):
        desktop.ask("xdotool", "keydown", "F9", "sleep", "1.2", "keyup", "F9")
        assert changes.get(timeout=PATIENCE_S) is True
        assert changes.get(timeout=PATIENCE_S) is False
        desktop.ask("xdotool", "key", "F9")
        assert changes.get(timeout=PATIENCE_S) is True
        assert changes.get(timeout=PATIENCE_S) is False
    assert changes.empty()


def test_a_key_that_cannot_be_had(desktop: X11Desktop) -> None:
    """One sentence each: another program has it, there is no such key, no desktop, Wayland."""
    key = Chord.parse("F8")
    with (
        Hotkey(key, print, desktop.environment),
        pytest.raises(DesktopError, match="another program has the key F8 already"),
    ):
        Hotkey(key, print, desktop.environment)
    with Hotkey(key, print, desktop.environment):
        pass  # it was given back
    with pytest.raises(DesktopError, match="has no key F99"):
        Hotkey(Chord.parse("F99"), print, desktop.environment)
    with pytest.raises(DesktopError, match=NO_DISPLAY[:20]):
        Hotkey(key, print, {})
    with pytest.raises(DesktopError, match="let the compositor run `streamer mic --control toggle`"):
        Hotkey(key, print, {**desktop.environment, "WAYLAND_DISPLAY": "wayland-1"})


def test_a_python_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install it."""
    monkeypatch.setitem(sys.modules, "Xlib", None)
    with pytest.raises(DesktopError, match=r"--hotkey needs the Python package python-xlib: pip install '.*\[mic\]'"):
        Hotkey(Chord.parse("F8"), print, {"DISPLAY": ":987"})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # python-xlib leaves its sockets open
def test_a_display_that_is_gone() -> None:
    """The message names it."""
    with pytest.raises(DesktopError, match="the display :987 cannot be used"):
        Hotkey(Chord.parse("F8"), print, {"DISPLAY": ":987"})
    gc.collect()


@pytest.mark.parametrize("text", ["", "ctrl+", "hyper+a", "a"])
def test_a_key_that_is_none(text: str) -> None:
    """A wrong name is refused, and so is a letter that nobody could type any more."""
    with pytest.raises(HotkeyError):
        Chord.parse(text)


def test_a_tap_and_a_hold() -> None:
    """A tap begins and the next one ends listening; a hold listens until the key is released."""
    key, listening = TapOrHold(), False

    def use(pressed_s: float) -> tuple[bool, bool]:
        nonlocal listening
        listening = during = key.press(100.0, listening=listening)
        listening = key.release(100.0 + pressed_s, listening=listening)
        return during, listening

    assert use(HOLD_S / 2) == (True, True)
    assert use(HOLD_S / 2) == (False, False)
    assert use(HOLD_S * 2) == (True, False)
    assert use(HOLD_S / 2) == (True, True)
    assert use(HOLD_S * 2) == (False, False)
