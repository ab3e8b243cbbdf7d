"""Synthetic voices say the given text, each in its own way; missing engines are named."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.data.synthetic_voices import Voice, check_installed, draw_voice

ENGINES = ["espeak-ng", "flite", *(["rhvoice"] if shutil.which("RHVoice-test") else [])]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_voice_says_the_same_twice(engine: str) -> None:
    """A voice gives about a second of sound, and the same samples again."""
    check_installed([engine])
    voice = draw_voice(engine, random.Random(1))
    said = voice.say("a good morning to all of you")
    assert 0.8 < len(said) / 16000 < 4
    assert np.abs(said).max() > 2000
    assert np.array_equal(said, voice.say("a good morning to all of you"))
    assert voice.speaker.startswith(f"{engine} ")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_faster_voice_needs_less_time(engine: str) -> None:
    """A faster voice takes less time; another throat changes the sound, not the time."""
    name = draw_voice(engine, random.Random(2)).name
    slow, fast, small = (
        Voice(engine, name, rate, 1.0, throat).say("the quick brown fox jumps over the lazy dog")
        for rate, throat in ((0.8, 1.0), (1.25, 1.0), (1.25, 1.1))
    )
    assert len(fast) < 0.85 * len(slow)
    assert len(small) == pytest.approx(len(fast), rel=0.1)


def test_voices_are_drawn_by_the_seed() -> None:
    """Many voices are drawn, and the same ones for the same seed."""
    drawn = [[draw_voice("espeak-ng", random.Random(seed)) for seed in range(30)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({voice.speaker for voice in drawn[0]}) > 20


def test_missing_engines_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says what to install, and an unknown engine is refused."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="apt-get install flite"):
        check_installed(["flite"])
    with pytest.raises(CorpusError, match="no engine 'hal'; there are espeak-ng, flite, rhvoice"):
        check_installed(["hal"])
    with pytest.raises(CorpusError, match="cannot say 'hello'"):
        Voice("flite", "slt", 1.0, 1.0, 1.0).say("hello")
