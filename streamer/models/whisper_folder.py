"""The folder of a Whisper model in the format of CTranslate2: whether it is one, what it lacks, and its languages."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

MODEL_FILE: Final = "model.bin"
VOCABULARIES: Final = ("vocabulary.json", "vocabulary.txt")
END: Final = "<|endoftext|>"
ENGLISH: Final = "en"
# What CTranslate2 writes at the start of the file: its version, and the length of the name of the kind of the model.
_KIND: Final = b"WhisperSpec\0"
_HEADER: Final = 6
_VERSION: Final = 6  # of the files that CTranslate2 has written since 2.0; others are left to it
# Models for English alone have fewer tokens, but those of all languages too.
_FEWEST_MULTILINGUAL: Final = 51_865
_LANGUAGE: Final = re.compile(r"<\|([a-z]{2,3})\|>")


class UnknownWhisper(ValueError):
    """The folder cannot be used. The message says why."""


def holds_whisper(folder: Path) -> bool:
    """Return whether this is the folder of a Whisper model, complete or not."""
    try:
        with (folder / MODEL_FILE).open("rb") as file:
            return file.read(_HEADER + len(_KIND))[_HEADER:] == _KIND
    except OSError:
        return False


def whisper_lacks(folder: Path) -> str:
    """Say what is missing in the folder of a Whisper model. Empty if nothing is."""
    path = folder / MODEL_FILE
    try:
        whisper_vocabulary(folder)
        with path.open("rb") as file:
            if not _is_whole(file, path.stat().st_size):
                return f"{path} is not complete: copy or download it again"
    except UnknownWhisper as error:
        return str(error)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return ""


def _is_whole(file: BinaryIO, size: int) -> bool:
    """Return whether a file of CTranslate2 has all weights of which it speaks. They are not read."""

    def number(form: str) -> int:
        value: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
        return value

    try:
        if number("<I") != _VERSION:
            return True
        file.seek(number("<H") + 4, 1)  # the kind of the model, and its revision
        for _ in range(number("<I")):
            file.seek(number("<H"), 1)  # its name
            file.seek(4 * number("<B") + 1, 1)  # its shape and type
            file.seek(number("<I"), 1)
            if file.tell() > size:
                return False
        number("<I")  # other names for weights, at the end
    except struct.error:
        return False
    return True


def whisper_vocabulary(folder: Path) -> list[str]:
    """Return the tokens of the model in this folder, as they are written there, by their numbers."""
    path = next((folder / name for name in VOCABULARIES if (folder / name).is_file()), None)
    if path is None:
        raise UnknownWhisper(f"{folder} has no {' or '.join(VOCABULARIES)}: copy all files of the model")
    try:
        text = path.read_text(encoding="utf-8")
        tokens = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise UnknownWhisper(f"{path} cannot be read: {error}") from error
    if not isinstance(tokens, list) or END not in tokens or not all(isinstance(token, str) for token in tokens):
        raise UnknownWhisper(f"{path} is no vocabulary of Whisper: copy it again")
    return tokens


def whisper_languages(folder: Path) -> tuple[str, ...]:
    """Return the codes of the languages of the model in this folder. Raise UnknownWhisper if it cannot be used."""
    return languages_in(whisper_vocabulary(folder))


def languages_in(vocabulary: Sequence[str]) -> tuple[str, ...]:
    """Return the codes of the languages of a model with these tokens."""
    if len(vocabulary) < _FEWEST_MULTILINGUAL:
        return (ENGLISH,)
    return tuple(match[1] for token in vocabulary if (match := _LANGUAGE.fullmatch(token)))


def language_code(language: str, languages: Sequence[str]) -> str | None:
    """Return the code of a language such as `de-DE` in Whisper's spelling; None if it is not among these."""
    code = re.split("[-_]", language.lower())[0]
    code = {"jv": "jw", "nb": "no", "fil": "tl", "iw": "he", "in": "id"}.get(code, code)
    return code if code in languages else None
