"""Runs a live session from a microphone until a signal or a key ends it, and writes its words to a transcript."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from streamer.audio.decoder import Int16Samples
from streamer.audio.microphone import InputDevice, MicrophoneError, Recorder
from streamer.base.web_address import reason_of
from streamer.client import KEY_VARIABLE, Session, SessionError, connect
from streamer.client.sending import describe_audio, send_all
from streamer.commands.arguments import error_text
from streamer.commands.desk import Desk
from streamer.commands.interrupt import AGAIN, off_signal, on_signal
from streamer.commands.keyboard import DesktopError
from streamer.commands.mic_control import ControlError
from streamer.commands.service import ReadyService
from streamer.commands.terminal.live_transcript import NAME, LiveTranscript
from streamer.commands.terminal.transcript_files import OutputError

REDRAW_S: Final = 0.1
PAUSE_KEYS: Final = (" ", "p")
# A device that drops audio usually does so again and again. It is reported at most this often, and once at the end.
_COMPLAIN_S: Final = 10.0
# Even a quiet room has more noise than this (-80 dB of full scale).
_NOISE: Final = 1e-4
_MUTE_S: Final = 5.0


class Dictation:
    """Transcribes what is recorded from now on. Ctrl-C or SIGTERM ends it after the last words."""

    def __init__(
        self,
        make_microphone: Callable[[], Recorder],
        transcript: LiveTranscript,
        options: Mapping[str, object],
        *,
        captions: bool = False,
        desk: Desk | None = None,
    ) -> None:
        """`options`: those of the session. `captions`: print the address of a page that shows the words."""
        self._desk = desk
        self._captions = captions
        self._make_microphone = make_microphone
        self._transcript = transcript
        self._options = options
        self._state = "starting"
        self._reported_losses: list[tuple[int, float]] = []
        self._reported_at = -_COMPLAIN_S
        self._quiet_since: dict[str, float] = {}  # by the name of the device
        self._reported_silence: set[str] = set()

    async def run(self, ready_service: ReadyService) -> int:
        """Run the session. Return 0 if the service has recognised all audio, else 1."""
        status = await self._run(ready_service)
        if self._desk:
            await self._desk.finish()
        return status

    async def _run(self, ready_service: ReadyService) -> int:
        try:
            microphone = self._make_microphone()
            async with AsyncExitStack() as stack:
                if self._desk:
                    await stack.enter_async_context(self._desk.open(microphone, partial(self._finish, microphone)))
                # The microphone is opened before the service is ready: nothing is lost if somebody speaks at once.
                stack.enter_context(microphone)
                drawing = asyncio.create_task(self._draw(microphone))
                try:
                    async with ready_service() as url:
                        await self._listen(microphone, url)
                finally:
                    drawing.cancel()
                    await asyncio.gather(drawing, return_exceptions=True)
        except MicrophoneError as error:
            self._transcript.say(f"streamer: {error}")
            return 1
        except (DesktopError, ControlError) as error:
            self._transcript.say(f"streamer: {error}.")
            return 1
        except SessionError as error:
            self._transcript.say(f"streamer: {NAME}: {error_text(error.code, str(error))}")
            return 1
        except OutputError as error:
            self._transcript.say(f"streamer: {error}")
            return 1
        return 0

    def stop(self) -> None:
        """Tell the user what the program waits for, if Ctrl-C or SIGTERM comes before there is a session."""
        self._transcript.say(f"streamer: stopping: ending what this command started. {AGAIN}")

    async def _listen(self, microphone: Recorder, url: str) -> None:
        options = {"partials": self._wants_partials, **self._options}
        async with connect(url, options, on_starting=self._report_loading) as session:
            with ExitStack() as stack:
                can_pause = stack.enter_context(keys(lambda key: self._on_key(microphone, key)))
                on_signal(signal.SIGINT, partial(self._on_interrupt, microphone))
                on_signal(signal.SIGTERM, partial(self._finish, microphone))
                # After nohup, the end of the terminal is not the end of the command.
                if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                    on_signal(signal.SIGHUP, partial(self._on_hangup, microphone))
                    stack.callback(off_signal, signal.SIGHUP)
                self._transcript.begin()
                self._transcript.take(session.ready)
                keys_help = "space pauses, Ctrl-C ends" if can_pause else "Ctrl-C ends"
                if self._desk:
                    keys_help = self._desk.help + keys_help
                devices = [part.device for part in microphone.parts]
                names = " and ".join(f"{device.name} ({device.sample_rate} Hz)" for device in devices)
                self._transcript.say(f"streamer: listening to {names}; {keys_help}")
                if self._captions:
                    await self._share(session)
                sound = self._sound(microphone, session)
                sending = asyncio.create_task(send_all(session, sound, describe_audio(self._options), paced=False))
                self._state = "listening"
                try:
                    async for event in session:
                        self._transcript.take(event)
                        if self._desk:
                            await self._desk.take(event)
                    await sending
                finally:
                    sending.cancel()
                    await session.close()
                    await asyncio.gather(sending, return_exceptions=True)
                    self._report_losses(microphone, at_once=True)
                    # The words so far are saved, even if the connection was lost after an hour.
                    self._transcript.end()

    @property
    def _wants_partials(self) -> bool:
        return self._transcript.wants_partials or self._captions or (self._desk is not None and self._desk.types)

    async def _share(self, session: Session) -> None:
        key = os.environ.get(KEY_VARIABLE, "")
        try:
            token = session.ready["token"]
            address = await asyncio.to_thread(captions_address, session.url, token, key)
            self._transcript.say(f"streamer: captions for a second screen or OBS: {address}")
        except SharingError as error:
            self._transcript.say(f"streamer: {error}")

    def _report_loading(self, model: str) -> None:
        self._transcript.say(f"streamer: the model {model} is being loaded …")

    async def _sound(self, microphone: Recorder, session: Session) -> AsyncGenerator[Int16Samples, None]:
        resting = False
        async with aclosing(microphone.chunks()) as blocks:
            async for block in blocks:
                yield block
                if microphone.resting and not resting:
                    await session.flush()  # the words before the pause become final
                resting = microphone.resting

    async def _draw(self, microphone: Recorder) -> None:
        while True:
            state = "paused" if microphone.paused and self._state == "listening" else self._state
            peaks = {part.device: part.peak() for part in microphone.parts}
            self._transcript.draw(state, max(peaks.values()), sum(part.lost_s for part in microphone.parts))
            self._report_losses(microphone)
            for device, peak in peaks.items():
                self._notice_silence(device, peak, paused=microphone.paused)
            await asyncio.sleep(REDRAW_S)

    def _notice_silence(self, device: InputDevice, peak: float, *, paused: bool) -> None:
        """Report once if a device gives no noise at all, because then it is probably muted."""
        now = asyncio.get_running_loop().time()
        if peak >= _NOISE or paused or self._state != "listening":
            self._quiet_since.pop(device.name, None)
        elif (
            now - self._quiet_since.setdefault(device.name, now) >= _MUTE_S
            and device.name not in self._reported_silence
        ):
            self._reported_silence.add(device.name)
            question = "does anything play there?" if device.monitor else "is it muted?"
            self._transcript.say(f"streamer: {device.name} gives only silence: {question} --devices lists others.")

    def _report_losses(self, microphone: Recorder, *, at_once: bool = False) -> None:
        losses = [(part.overflows, part.lost_s) for part in microphone.parts]
        now = asyncio.get_running_loop().time()
        unchanged = losses == self._reported_losses or not any(any(each) for each in losses)
        if unchanged or (now - self._reported_at < _COMPLAIN_S and not at_once):
            return
        self._reported_losses, self._reported_at = losses, now
        reasons = []
        for part in microphone.parts:
            if part.overflows:
                times = "once" if part.overflows == 1 else f"{part.overflows} times"
                reasons.append(f"{part.device.name} dropped audio {times} because this machine was too busy")
        if lost_s := sum(part.lost_s for part in microphone.parts):
            reasons.append(f"{lost_s:.1f} s of audio were lost because the service was too slow")
        self._transcript.say(f"streamer: overflow: {'; '.join(reasons)}.")

    def _on_key(self, microphone: Recorder, key: str) -> None:
        if key not in PAUSE_KEYS:
            return
        if self._desk:
            self._desk.toggle()
        else:
            microphone.paused = not microphone.paused

    def _on_interrupt(self, microphone: Recorder) -> None:
        """End the recording at the first Ctrl-C. A second one does not wait for the last words."""
        off_signal(signal.SIGINT)
        self._finish(microphone)
        self._transcript.say(f"streamer: stopping: waiting for the last words. {AGAIN}")

    def _finish(self, microphone: Recorder) -> None:
        self._state = "ending"
        microphone.finish()

    def _on_hangup(self, microphone: Recorder) -> None:
        self._transcript.hide()
        self._finish(microphone)


# Reads single keys of a terminal, without Enter. At the end the terminal gets its former mode back.

if sys.platform != "win32":
    import termios
    import tty


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` in the running loop for each key. Yields whether there is a keyboard.

    Ctrl-C stays a signal. On Windows, which has no such terminals, there is no keyboard.
    """
    if sys.platform == "win32":
        yield False
        return
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        # A process in the background must not touch the terminal: the system would stop it.
        in_front = os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError, AttributeError, termios.error):
        in_front = False
    if not in_front:
        yield False
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 64)
        if not data:
            loop.remove_reader(descriptor)
        for key in data.decode(errors="replace"):
            pressed(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    # After Ctrl-Z and `fg` the shell may have given the terminal another mode.
    loop.add_signal_handler(signal.SIGCONT, tty.setcbreak, descriptor)
    try:
        yield True
    finally:
        loop.remove_signal_handler(signal.SIGCONT)
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # the terminal has been closed
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


# The link with which others read a session along.

_CAPTIONS: Final = "/v1/captions"
_ANSWER_S: Final = 10.0


class SharingError(Exception):
    """The session cannot be shared. The message is a sentence for the user."""


def captions_address(url: str, token: str, key: str) -> str:
    """Return the address of the page that shows the session with this token. `url`: that of the websocket."""
    parts = urlsplit(url)
    site = ("https" if parts.scheme == "wss" else "http", parts.netloc)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = Request(urlunsplit((*site, _CAPTIONS, "", "")), json.dumps({"token": token}).encode(), headers)
    try:
        with urlopen(request, timeout=_ANSWER_S) as answer:
            page = str(json.load(answer)["page"])
    except HTTPError as error:
        raise SharingError(f"there are no captions: {_message(error)}") from error
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        raise SharingError(f"there are no captions: {reason_of(error, _ANSWER_S)}.") from error
    return urlunsplit((*site, "", "", "")) + page


def _message(error: HTTPError) -> str:
    """Return the sentence of the service, or else what HTTP says."""
    try:
        with error:
            return str(json.load(error)["error"]["message"])
    except (OSError, ValueError, LookupError, TypeError):
        return f"{reason_of(error)}."
