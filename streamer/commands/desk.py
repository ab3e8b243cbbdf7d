"""What a dictation does on the desktop: where its words go, and what begins and ends listening from outside.

`streamer mic` alone stays as it is: each part is there only if the user has asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final, Protocol

import numpy as np

from streamer.audio.microphone import TAIL_S
from streamer.base.cues import SessionEvent
from streamer.commands.hotkey import Chord, Hotkey, TapOrHold
from streamer.commands.keyboard import DesktopError, notify
from streamer.commands.mic_control import Request, taking_requests
from streamer.commands.typist import Typist

LISTENING: Final = "listening"
PAUSED: Final = "paused"


class Switch(Protocol):
    """A microphone that can pause."""

    paused: bool


class Desk:
    """The parts of one dictation. Used in an event loop."""

    def __init__(
        self,
        *,
        typist: Typist | None = None,
        chord: Chord | None = None,
        signals: Sequence[Callable[[bool], None]] = (),
        paused: bool = False,
    ) -> None:
        """`chord`: the key that begins and ends listening. `paused`: listening begins only when somebody asks.

        `signals` tell the user whether the microphone listens; they may block.
        """
        self._typist = typist
        self._chord = chord
        self._signals = signals
        self._paused = paused
        self._press = TapOrHold()
        self._switch: Switch | None = None
        self._wanted = not paused  # listening; the microphone pauses a moment later
        self._pausing: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._end: Callable[[], None] = lambda: None

    @property
    def types(self) -> bool:
        """Whether words go anywhere, so that those that are settled should come early."""
        return self._typist is not None

    @property
    def help(self) -> str:
        """What the user can do, for the first line."""
        return f"{self._chord.text} begins and ends it, or is held while you speak; " if self._chord else ""

    @asynccontextmanager
    async def open(self, switch: Switch, end: Callable[[], None]) -> AsyncIterator[None]:
        """Take the key and the requests until exit. `end` ends the dictation. DesktopError or ControlError."""
        self._switch, self._end = switch, end
        switch.paused = self._paused
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(taking_requests(self._perform))
            if self._chord:

                def change(down: bool) -> None:
                    loop.call_soon_threadsafe(self._on_key, down)

                stack.enter_context(Hotkey(self._chord, change))
            yield

    async def take(self, event: SessionEvent) -> None:
        """Take an event of the session."""
        if self._typist:
            await self._typist.take(event)

    async def finish(self) -> None:
        """Wait for the last words."""
        if self._typist:
            await self._typist.finish()
        await asyncio.gather(*self._under_way)

    def toggle(self) -> None:
        """Begin or end listening."""
        self._listen(not self._wanted)

    def _on_key(self, down: bool) -> None:
        if self._typist:
            self._typist.hold(down)
        now = asyncio.get_running_loop().time()
        change = self._press.press if down else self._press.release
        self._listen(change(now, listening=self._wanted))

    async def _perform(self, request: Request) -> str:
        if request is Request.TOGGLE:
            self.toggle()
        elif request in (Request.LISTEN, Request.PAUSE):
            self._listen(request is Request.LISTEN)
        elif request is Request.SCRATCH and self._typist:
            await self._typist.scratch()
        elif request is Request.END:
            self._end()
            return "ending"
        return LISTENING if self._wanted else PAUSED

    def _listen(self, listening: bool) -> None:
        if listening == self._wanted or self._switch is None:
            return
        self._wanted = listening
        if self._pausing:
            self._pausing.cancel()
            self._pausing = None
        if listening:
            self._switch.paused = False
            if self._typist:
                self._spawn(self._typist.begin())
        else:  # what was said until now has to pass through the system
            self._pausing = asyncio.get_running_loop().call_later(TAIL_S, self._pause)
        for signal in self._signals:
            self._spawn(asyncio.to_thread(signal, listening))

    def _pause(self) -> None:
        if self._switch is not None:
            self._switch.paused = True

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


def show_listening(listening: bool) -> None:
    """Show a notification. Nothing happens if the desktop shows none."""
    with suppress(DesktopError):
        notify("Listening" if listening else "Paused")


# Short tones: one says that listening begins, a lower one that it has ended.

BEGIN_HZ: Final = 880.0
END_HZ: Final = 587.0

_RATE: Final = 48_000
_LENGTH_S: Final = 0.09
_FADE_S: Final = 0.01  # without it, a tone begins and ends with a click
_LOUDNESS: Final = 0.2


def sound_listening(listening: bool) -> None:
    """Play the tone for it."""
    play_tone(BEGIN_HZ if listening else END_HZ)


def play_tone(hertz: float) -> None:
    """Play a tone on the default output, to its end. Nothing happens if there is none."""
    time_s = np.arange(round(_RATE * _LENGTH_S)) / _RATE
    loudness = _LOUDNESS * np.clip(np.minimum(time_s, time_s[::-1]) / _FADE_S, 0, 1)
    sound = (np.sin(2 * np.pi * hertz * time_s) * loudness).astype(np.float32)
    with suppress(Exception):  # PortAudio has errors of its own, and a machine without an output can still listen
        import sounddevice  # type: ignore[import-untyped]

        with sounddevice.OutputStream(samplerate=_RATE, channels=1, dtype="float32") as output:
            output.write(sound.reshape(-1, 1))
