"""Sources of PulseAudio and PipeWire by name, also monitors: what an output of this machine plays, such as a meeting.

PortAudio knows only one device of a sound server, its default. So the server's own programs are used: `pactl` lists,
`parec` records. Both come with the package pulseaudio-utils, speak with PulseAudio and with PipeWire's service for its
clients, and need no package of Python: pulsectl, the best kept one, lists sources but does not record. The plugin of
ALSA takes its source from an environment variable, and goes on with another one unnoticed. `pw-record` knows only
PipeWire.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from streamer.audio.decoder import FloatSamples

PROGRAMS: Final = ("pactl", "parec")
LATENCY_MS: Final = 50

_LISTING_S: Final = 5.0
_END_S: Final = 5.0
_SAMPLE_BYTES: Final = 4
# What parec says when the server has moved the recording to another source.
_MOVE: Final = b"Stream moved to device "


class SoundServerError(Exception):
    """The sound server cannot be used. The message says why, as a part of a sentence."""


class NoSoundServerError(SoundServerError):
    """This machine has none."""

    def __init__(self) -> None:
        super().__init__("no PulseAudio and no PipeWire answers")


@dataclass(frozen=True)
class Source:
    """What a sound server records from."""

    name: str
    description: str
    channels: int
    sample_rate: int
    monitor: bool  # it has what an output plays


def sources() -> list[Source]:
    """Return the sources of the sound server. SoundServerError if there is none, or its programs are missing."""
    if shutil.which("pactl") is None and not _has_socket():
        raise NoSoundServerError
    _check_programs()
    try:
        done = subprocess.run(
            ["pactl", "list", "sources"],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LISTING_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SoundServerError(f"the sound server has not answered for {_LISTING_S:g} s") from None
    except OSError as error:
        raise SoundServerError(f"pactl cannot run ({error.strerror})") from error
    if done.returncode:
        raise NoSoundServerError
    return parse_sources(done.stdout.decode(errors="replace"))


def parse_sources(text: str) -> list[Source]:
    """Return the sources in the output of `pactl list sources`.

    Its JSON is no alternative: version 16 leaves out each description with an umlaut, and earlier ones have none.
    """
    parsed = []
    for block in text.split("\n\n"):
        # Fields of the source itself are behind one tab, those of its properties behind two.
        lines = [line[1:] for line in block.splitlines() if line[:1] == "\t" and line[1:2] not in ("\t", " ")]
        fields = {
            name: value.strip() for name, separator, value in (line.partition(":") for line in lines) if separator
        }
        with suppress(KeyError, ValueError):  # an entry in another form cannot be recorded from
            _, channels, rate = fields["Sample Specification"].split()
            parsed.append(
                Source(
                    fields["Name"],
                    fields["Description"],
                    int(channels.removesuffix("ch")),
                    int(rate.removesuffix("Hz")),
                    fields["Monitor of Sink"] != "n/a",
                )
            )
    return parsed


class SourceStream:
    """A recording of one source until `close`. `take` gets the samples [frames, channels], in a thread of its own.

    `end` is called there if the recording ends by itself: the source or the server is gone.
    """

    def __init__(
        self, name: str, channels: int, rate: int, take: Callable[[FloatSamples], None], end: Callable[[], None]
    ) -> None:
        """Start to record. SoundServerError if that is not possible."""
        _check_programs()
        command = ["parec", "--raw", "--verbose", f"--device={name}", "--format=float32le"]
        command += [f"--channels={channels}", f"--rate={rate}", f"--latency-msec={LATENCY_MS}"]
        command += ["--client-name=streamer", "--stream-name=streamer mic"]
        command += ["--property=node.dont-reconnect=true"]  # for PipeWire; see _was_moved
        try:
            # In a session of its own, because Ctrl-C must not reach it: the last words are still to be recorded.
            self._process = subprocess.Popen(
                command,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise SoundServerError(f"parec cannot run: {error.strerror}") from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._sound = self._process.stdout.fileno()
        self._messages = self._process.stderr.fileno()
        os.set_blocking(self._messages, False)
        self._frame_bytes = _SAMPLE_BYTES * channels
        self._channels = channels
        self._last_message = b""
        self._take = take
        self._end = end
        self._thread = threading.Thread(target=self._read, name="parec", daemon=True)
        self._thread.start()

    def abort(self) -> None:
        """End the recording at once."""
        self._process.kill()

    def close(self) -> None:
        """Wait until all of it has ended."""
        self._process.kill()
        self._thread.join(_END_S)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        data = b""
        while not self._was_moved():
            readable, _, _ = select.select([self._sound, self._messages], [], [])
            if self._sound not in readable:
                continue
            arrived = os.read(self._sound, 1 << 16)
            # parec tells of the move before it writes anything of the other source.
            if not arrived or self._was_moved():
                break
            data += arrived
            whole = len(data) - len(data) % self._frame_bytes
            if whole:
                self._take(np.frombuffer(data[:whole], "<f4").reshape(-1, self._channels))
            data = data[whole:]
        self._process.kill()
        self._end()

    def _was_moved(self) -> bool:
        """Return whether the server records from another source now.

        When a source is gone, the server goes on with another one, for example the microphone after the output of a
        headset. Nobody has asked for that one, so nothing of it may be heard.
        """
        with suppress(BlockingIOError):
            while message := os.read(self._messages, 1 << 16):
                self._last_message = self._last_message[-len(_MOVE) :] + message
                if _MOVE in self._last_message:
                    return True
        return False


def _check_programs() -> None:
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        verb = "is" if len(absent) == 1 else "are"
        raise SoundServerError(f"{' and '.join(absent)} {verb} not installed (apt install pulseaudio-utils)")


def _has_socket() -> bool:
    return "PULSE_SERVER" in os.environ or Path(os.environ.get("XDG_RUNTIME_DIR", ""), "pulse", "native").exists()


def _environment() -> dict[str, str]:
    # The output is parsed, so it must not be translated. To look for a server must not start one: no such program.
    return {**os.environ, "LC_ALL": "C", "PULSE_BINARY": os.devnull}
