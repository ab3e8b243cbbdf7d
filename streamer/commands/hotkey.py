"""A key that works in every window of X11: tapped it begins and ends listening, held it listens as long.

Only this key is asked for (a passive grab of the package python-xlib), and no other program gets it meanwhile. The
package pynput reads every key that is pressed on the machine instead, leaves the key to the focused window, too, and
compiles a package for devices of the kernel when it is installed.

Wayland gives no keys to programs. There, the compositor runs `streamer mic --control toggle`.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from streamer.commands.keyboard import NO_DISPLAY, DesktopError, open_display

HOLD_S: Final = 0.4  # a key that is pressed for longer is held, not tapped
_REPEAT_S: Final = 0.03  # X11 tells of a held key as if it was released and pressed again and again
_END_S: Final = 5.0
# The bits of X11 for the keys that are held, and of those that are locked.
_MODIFIERS: Final = {"shift": 1, "ctrl": 4, "alt": 8, "super": 64}
_LOCKS: Final = (0, 2, 16, 2 | 16)  # none, Caps Lock, Num Lock, both


class HotkeyError(Exception):
    """The key cannot be had. The message is a part of a sentence."""


@dataclass(frozen=True)
class Chord:
    """A key, and those that are held with it."""

    text: str
    key: str
    modifiers: int

    @classmethod
    def parse(cls, text: str) -> Chord:
        """Read a name such as `F9` or `ctrl+alt+d`. HotkeyError if it is none."""
        *held, key = text.split("+")
        wrong = [name for name in held if name.lower() not in _MODIFIERS]
        if not key or wrong:
            raise HotkeyError(f"must be a key such as F9 or ctrl+alt+d ({', '.join(_MODIFIERS)}), not '{text}'")
        if not held and len(key) == 1:
            raise HotkeyError(f"'{text}' alone could not be typed any more: take ctrl+alt+{key}, or F9")
        return cls(text, key, sum(_MODIFIERS[name.lower()] for name in set(held)))


class TapOrHold:
    """Decides whether to listen when the key is pressed and released. Pure."""

    def __init__(self) -> None:
        self._began: float | None = None  # when this press has begun listening

    def press(self, now: float, *, listening: bool) -> bool:
        """Return whether to listen from now on."""
        self._began = None if listening else now
        return not listening

    def release(self, now: float, *, listening: bool) -> bool:
        """Return whether to listen further."""
        began, self._began = self._began, None
        return listening and (began is None or now - began < HOLD_S)


class Hotkey:
    """Calls `change` in a thread when the key is pressed (True) and released (False), between entry and exit."""

    def __init__(
        self, chord: Chord, change: Callable[[bool], None], environment: Mapping[str, str] = os.environ
    ) -> None:
        """DesktopError if the desktop does not give the key."""
        if environment.get("WAYLAND_DISPLAY"):
            raise DesktopError(
                "--hotkey works with X11 alone: with Wayland, let the compositor run `streamer mic --control toggle` "
                "when a key is pressed"
            )
        if not environment.get("DISPLAY"):
            raise DesktopError(NO_DISPLAY)
        self._chord = chord
        self._change = change
        self._display = open_display(environment["DISPLAY"], "--hotkey")
        self._code = self._grab()
        self._wake_out, self._wake_in = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="hotkey", daemon=True)

    def __enter__(self) -> Hotkey:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._wake_in)
        self._thread.join(_END_S)
        os.close(self._wake_out)
        with suppress(Exception):  # the display may be gone
            self._display.close()

    def _grab(self) -> int:
        from Xlib import XK, X, error

        XK.load_keysym_group("xf86")  # the keys of media
        key = self._chord.key
        symbol = next(filter(None, map(XK.string_to_keysym, (key, key.capitalize(), key.lower()))), 0)
        code: int = self._display.keysym_to_keycode(symbol) if symbol else 0
        if not code:
            self._display.close()
            raise DesktopError(f"the keyboard of this desktop has no key {key}: choose another one")
        taken = error.CatchError(error.BadAccess)
        root = self._display.screen().root
        for locks in _LOCKS:
            root.grab_key(code, self._chord.modifiers | locks, True, X.GrabModeAsync, X.GrabModeAsync, onerror=taken)
        self._display.sync()
        if taken.get_error():
            self._display.close()
            raise DesktopError(f"another program has the key {self._chord.text} already: choose another one")
        return code

    def _listen(self) -> None:
        from Xlib import X
        from Xlib.error import ConnectionClosedError

        with suppress(ConnectionClosedError, OSError):
            while self._awaits(None):
                event = self._display.next_event()
                if event.type == X.KeyPress:
                    self._change(True)
                elif event.type == X.KeyRelease and not self._repeats(event):
                    self._change(False)

    def _repeats(self, release: Any) -> bool:
        """Return whether the key is still held. Its next press is dropped then."""
        from Xlib import X

        while self._awaits(_REPEAT_S):
            event = self._display.next_event()
            if event.type == X.KeyPress:
                return True
        return False

    def _awaits(self, limit_s: float | None) -> bool:
        """Return whether there is an event, after waiting for it. False at the end, or after the limit."""
        if self._display.pending_events():
            return True
        while True:
            readable, _, _ = select.select([self._display.fileno(), self._wake_out], [], [], limit_s)
            if self._wake_out in readable or not readable:
                return False
            if self._display.pending_events():
                return True
