"""Sends a recording with the code of `vosk-transcriber --server`, from the package of Vosk, with another address.

That program loads a model even if a server recognises, so here it gets none. The program prints the results as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from vosk.transcriber import transcriber  # type: ignore[import-not-found,unused-ignore]

transcriber.Model = lambda **_: None


class Process:
    """The samples of a recording, as ffmpeg would write them, with a word at half of them."""

    def __init__(self, pcm: bytes) -> None:
        self.stdout = self
        self._pcm = pcm
        self._place = 0

    async def read(self, size: int) -> bytes:
        """Return the next samples."""
        piece = self._pcm[self._place : self._place + size]
        if self._place <= len(self._pcm) // 2 < self._place + len(piece):
            print("half", flush=True)
        self._place += len(piece)
        return piece


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    # The address is all that changes.
    asked = Namespace(server=f"ws://{host}/vosk", model=None, model_name=None, lang=None, output_type="txt")
    client = transcriber.Transcriber(asked)
    results: list[Any]
    results, _ = asyncio.run(client.recognize_stream_server(Process(recording.read_bytes()[44:])))
    text = client.format_result(results)
    asked.output_type = "srt"
    print(json.dumps({"results": results, "text": text, "srt": client.format_result(results)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
