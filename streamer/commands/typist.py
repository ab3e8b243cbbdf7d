"""Brings the settled words of a session where the user wants them: into the focused window, and into the clipboard.

A thread presses the keys, so the session goes on meanwhile. Words wait for it in their order.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamer.base.cues import SessionEvent
from streamer.commands.keyboard import Clipboard, DesktopError, Keyboard
from streamer.commands.typed_text import LineBreaks, Scratch, Step, TypedText, Words

MOST_PARTS: Final = 100  # that "scratch that" can take back, one after the other
# Typing is faster than speech. If the desktop hangs, so many steps wait, and then the session.
MOST_WAITING: Final = 1000
END_S: Final = 20.0  # for the last words

OTHER_WINDOW: Final = "nothing was taken back: the words are in another window than the one that has the focus now"
NO_WINDOW: Final = "nothing was taken back: this desktop does not tell which window has the focus"
NOTHING: Final = "there is nothing to take back"


class Place(ABC):
    """Where words go. Its methods may raise DesktopError, and block."""

    @abstractmethod
    def begin(self) -> None:
        """Note that the user begins to speak after a pause."""

    @abstractmethod
    def write(self, text: str, *, begins: bool) -> None:
        """Write words. `begins`: they begin a part, which `scratch` takes back as a whole."""

    @abstractmethod
    def break_lines(self, count: int) -> None:
        """Write line breaks, which are a part."""

    @abstractmethod
    def scratch(self) -> None:
        """Take the last part back."""


@dataclass
class _Part:
    """What was typed between two pauses: how many keys, and the windows that had the focus before and after each."""

    keys: int = 0
    windows: set[str | None] = field(default_factory=set)


class FocusedWindow(Place):
    """The window that has the focus, whichever that is. It may be another one for each word."""

    def __init__(self, keyboard: Keyboard) -> None:
        self._keyboard = keyboard
        self._parts: deque[_Part] = deque(maxlen=MOST_PARTS)

    def begin(self) -> None:
        """Do nothing: words go on behind those that were typed before the pause."""

    def write(self, text: str, *, begins: bool) -> None:
        if begins or not self._parts:
            self._parts.append(_Part())
        self._press(self._parts[-1], len(text), lambda: self._keyboard.write(text))

    def break_lines(self, count: int) -> None:
        self._parts.append(_Part())
        self._press(self._parts[-1], count, lambda: self._keyboard.press_return(count))

    def scratch(self) -> None:
        """Press Backspace, if all of the part is in the window that has the focus now, as far as anybody can know."""
        if not self._parts:
            raise DesktopError(NOTHING)
        part, window = self._parts[-1], self._keyboard.window()
        if window is None or None in part.windows:
            raise DesktopError(NO_WINDOW)
        if part.windows != {window}:
            raise DesktopError(OTHER_WINDOW)
        self._parts.pop()
        self._keyboard.erase(part.keys)

    def _press(self, part: _Part, keys: int, press: Callable[[], None]) -> None:
        part.windows.add(self._keyboard.window())
        part.keys += keys
        try:
            press()
            part.windows.add(self._keyboard.window())
        except DesktopError:
            part.windows.add(None)  # nobody knows how much was typed
            raise


class ClipboardText(Place):
    """The clipboard. It has what was said since the user began to speak after the last pause of the microphone."""

    def __init__(self, clipboard: Clipboard) -> None:
        self._clipboard = clipboard
        self._parts: list[str] = []

    def begin(self) -> None:
        self._parts.clear()

    def write(self, text: str, *, begins: bool) -> None:
        if begins or not self._parts:
            self._parts.append("")
        self._parts[-1] += text
        self._copy()

    def break_lines(self, count: int) -> None:
        self._parts.append("\n" * count)
        self._copy()

    def scratch(self) -> None:
        if self._parts:
            self._parts.pop()
            self._copy()

    def _copy(self) -> None:
        self._clipboard.copy("".join(self._parts).rstrip(" "))


class Typist:
    """Writes the words of a session in these places, one step after the other. Used in an event loop."""

    def __init__(self, places: Sequence[Place], say: Callable[[str], None], *, dictated: bool = False) -> None:
        """`say`: tells the user why something was not done. `dictated`: see TypedText."""
        self._places = places
        self._say = say
        self._text = TypedText(dictated=dictated)
        self._waiting: asyncio.Queue[Step | None] = asyncio.Queue(MOST_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._free = asyncio.Event()
        self._free.set()

    async def take(self, event: SessionEvent) -> None:
        """Take an event of the session."""
        for step in self._text.take(event):
            await self._put(step)

    async def begin(self) -> None:
        """Note that the user begins to speak after a pause."""
        await self._put(None)

    def hold(self, held: bool) -> None:
        """Write nothing while the user holds a key: X11 gives all keys to whoever has asked for that one."""
        if held:
            self._free.clear()
        else:
            self._free.set()

    async def scratch(self) -> None:
        """Take the last part back, as if the user had said so."""
        await self._put(Scratch())

    async def finish(self) -> None:
        """Wait until all was written, for a while."""
        if self._writing is None:
            return
        try:
            await asyncio.wait_for(self._waiting.join(), END_S)
        except asyncio.TimeoutError:
            self._say("the last words were not written: the desktop does not answer")
        finally:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _put(self, step: Step | None) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await self._waiting.put(step)

    async def _write(self) -> None:
        while True:
            step = await self._waiting.get()
            await self._free.wait()
            for place in self._places:
                try:
                    await asyncio.to_thread(_perform, step, place)
                except DesktopError as error:
                    self._say(str(error))
            self._waiting.task_done()


def _perform(step: Step | None, place: Place) -> None:
    if step is None:
        place.begin()
    elif isinstance(step, Words):
        place.write(step.text, begins=step.begins)
    elif isinstance(step, LineBreaks):
        place.break_lines(step.count)
    else:
        place.scratch()
