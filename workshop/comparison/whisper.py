"""Recognises recordings with Whisper, in a process of an environment of its own that has faster-whisper."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.commands.accuracy.manifest import Utterance
from workshop.data.corpus import replacing

_PROGRAM: Final = Path(__file__).with_name("whisper_process.py")
_WEIGHTS: Final = "model.bin"


class WhisperError(Exception):
    """Whisper cannot be used. The message says why."""


@dataclass(frozen=True)
class WhisperText:
    """What Whisper wrote for a recording, and the processor time."""

    text: str
    seconds: float
    cpu_s: float


def heard_by_whisper(
    utterances: Sequence[Utterance], folder: Path, python: Path, cache: Path | None = None
) -> Iterator[WhisperText]:
    """Yield the text of each recording. `folder` has a model of CTranslate2, and `python` the package faster-whisper.

    WhisperError if they do not work.
    """
    of_weights = hashlib.sha256(_PROGRAM.read_bytes() + (folder / _WEIGHTS).read_bytes()).digest()
    with subprocess.Popen([python, _PROGRAM, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for utterance in utterances:
            audio = utterance.samples().astype("<i2").tobytes()
            key = hashlib.sha256(of_weights + audio).hexdigest()[:32]
            file = cache / f"{key}.json" if cache else None
            if file and file.is_file():
                yield WhisperText(**json.loads(file.read_text(encoding="utf-8")))
                continue
            heard = _heard(process, audio)
            if file:
                with replacing(file, "w") as stream:
                    json.dump(asdict(heard), stream)
            yield heard


def _heard(process: subprocess.Popen[bytes], audio: bytes) -> WhisperText:
    assert process.stdin is not None
    assert process.stdout is not None
    samples = len(audio) // 2
    try:
        process.stdin.write(samples.to_bytes(4, "little") + audio)
        process.stdin.flush()
        answer = process.stdout.readline()
    except BrokenPipeError:
        answer = b""
    if not answer:
        raise WhisperError("the process of Whisper has ended: its Python needs faster-whisper, and its folder a model")
    content = json.loads(answer)
    return WhisperText(content["text"], samples / SAMPLE_RATE, content["cpu_s"])
