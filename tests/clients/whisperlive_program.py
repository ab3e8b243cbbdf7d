"""A program with the client of WhisperLive, as its users write one. The only change is the host and the port.

Its package needs a program for microphones even for a recording. There is none here: a stand-in has no microphone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any


class NoMicrophone:
    """Takes the place of PyAudio."""

    def open(self, **_: Any) -> None:
        """Say that there is no device, as PyAudio does."""
        raise OSError("there is no microphone")


stand_in: Any = types.ModuleType("pyaudio")
stand_in.PyAudio, stand_in.paInt16 = NoMicrophone, 8
sys.modules["pyaudio"] = stand_in

from whisper_live.client import TranscriptionClient  # type: ignore[import-not-found,unused-ignore]  # noqa: E402


def main(host: str, recording: Path, *options: str) -> None:
    """Use the service at this host and port."""
    name, _, port = host.partition(":")
    got: list[Any] = []

    def take(text: str, segments: list[Any]) -> None:
        got.append([text, segments])
        if len(got) == 1:
            print("half", file=sys.__stdout__, flush=True)

    with contextlib.redirect_stdout(sys.stderr):
        client = TranscriptionClient(
            name,
            int(port),
            lang="en",
            translate="translate" in options,
            mute_audio_playback=True,
            transcription_callback=take,
            output_transcription_path="whisperlive.srt",
        )
        client(os.fspath(recording))
    [one] = client.clients
    # The library below the client also calls a normal close an error, if the service closes before the client does.
    failed = one.server_error and "closed normally (code 1000)" not in str(getattr(one, "error_message", ""))
    print(json.dumps({"heard": got, "kept": one.transcript, "error": failed}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
