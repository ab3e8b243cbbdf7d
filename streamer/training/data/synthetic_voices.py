"""Synthetic voices from programs in Debian packages, with one process for each utterance."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.training.data.corpus import SAMPLE_RATE, CorpusError, Samples

PACKAGES = {
    "espeak-ng": ("espeak-ng", "espeak-ng"),
    "flite": ("flite", "flite"),
    "rhvoice": ("RHVoice-test", "rhvoice rhvoice-english (of Debian's section non-free)"),
}
"""By engine: its program and the packages that bring it."""

PATIENCE_S = 60

_ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc", "en-029")
# Variants that are clear enough: scripts/data/align_speech.py finds the words in at least half of the cases.
_THROATS = (
    "+f1",
    "+f2",
    "+f3",
    "+f4",
    "+f5",
    "+m1",
    "+m2",
    "+m5",
    "+m6",
    "+m8",
    "+klatt",
    "+klatt2",
    "+klatt3",
    "+klatt4",
    "+john",
    "+steph",
)
# awb_time says only times of day. kal is kal16 at 8 kHz.
_FLITE = ("slt", "rms", "awb", "kal16")
# RHVoice's evgeniy-eng and lyubov are only for non-commercial use.
_RHVOICE = ("alan", "bdl", "clb", "slt")
_PITCHES = {"slt": 180, "rms": 110, "awb": 130, "kal16": 105}


@dataclass(frozen=True)
class Voice:
    """A voice with its way of speaking, as factors of the usual one. `throat` shifts the whole spectrum."""

    engine: str
    name: str
    rate: float
    pitch: float
    throat: float

    @property
    def speaker(self) -> str:
        """The name of the voice in a corpus."""
        return f"{self.engine} {self.name}"

    def say(self, text: str) -> Samples:
        """Say the text with this voice. The result is always the same."""
        command, standard_input = _command(self, text)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "said.wav"
            try:
                subprocess.run(
                    [*command, str(path)],
                    input=standard_input,
                    text=True,
                    capture_output=True,
                    check=True,
                    timeout=PATIENCE_S,
                )
                audio, rate = soundfile.read(io.BytesIO(path.read_bytes()), dtype="float32", always_2d=True)
            except (OSError, subprocess.SubprocessError, soundfile.SoundFileError) as error:
                raise CorpusError(f"{self.speaker} cannot say {text!r}: {error}") from error
        # Faster or slower playback sounds like a shorter or longer throat. The requested rate compensates for the pace.
        sound = soxr.resample(audio[:, 0], rate * self.throat, SAMPLE_RATE)
        levels: Samples = np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)
        return levels


def check_installed(engines: Sequence[str]) -> None:
    """Raise an error for engines that are unknown or not installed."""
    for engine in engines:
        if engine not in PACKAGES:
            raise CorpusError(f"there is no engine {engine!r}; there are {', '.join(PACKAGES)}")
        program, packages = PACKAGES[engine]
        if shutil.which(program) is None:
            raise CorpusError(f"the voices of {engine} are missing: apt-get install {packages}")


def draw_voice(engine: str, rng: random.Random) -> Voice:
    """Draw one of the voices of an engine, and its way of speaking."""
    names = {
        "espeak-ng": lambda: rng.choice(_ACCENTS) + rng.choice(_THROATS),
        "flite": lambda: rng.choice(_FLITE),
        "rhvoice": lambda: rng.choice(_RHVOICE),
    }
    name = names[engine]()
    return Voice(engine, name, rng.uniform(0.8, 1.25), rng.uniform(0.8, 1.25), rng.uniform(0.9, 1.12))


def _command(voice: Voice, text: str) -> tuple[list[str], str]:
    """Return the command without the name of the output file, and the text for its standard input."""
    rate, pitch = voice.rate / voice.throat, voice.pitch / voice.throat
    if voice.engine == "espeak-ng":
        words_a_minute, scale = str(round(160 * rate)), str(min(max(round(50 * pitch), 0), 99))
        return ["espeak-ng", "-v", voice.name, "-s", words_a_minute, "-p", scale, "--stdin", "-w"], text
    if voice.engine == "flite":
        settings = [f"duration_stretch={1 / rate:.3f}", f"int_f0_target_mean={_PITCHES[voice.name] * pitch:.0f}"]
        return ["flite", "-voice", voice.name, "--setf", settings[0], "--setf", settings[1], "-t", text, "-o"], ""
    return ["RHVoice-test", "-p", voice.name, "-r", f"{100 * rate:.0f}", "-t", f"{100 * pitch:.0f}", "-o"], text
