"""Witnesses that say the same in every piece, whatever they hear."""

from __future__ import annotations

from pathlib import Path

from tests.engine.reader.scripted_whisper import write_whisper

SAID = "good morning to all of you here on this cold and windy day"


def write_witness(folder: Path, text: str = SAID, language: str = "en") -> Path:
    """Write a Whisper model that reads these words, and hears this language."""
    write_whisper(folder, [f"Ġ{word}" for word in text.split()], language=language)
    return folder
