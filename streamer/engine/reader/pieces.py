"""The pieces of text that a reader writes, from its file `tokenizer.bin`: how they become text, and back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

PIECES_FILE: Final = "tokenizer.bin"
BEGIN: Final = 1  # the token before the first one
END: Final = 2  # the token after the last one
_SPACE: Final = "\u2581".encode()  # stands for a space inside pieces
_LONG: Final = 0x80  # a length from here on has a second byte


class PiecesError(ValueError):
    """The file with the pieces cannot be used. The message says why."""


class Pieces:
    """The pieces of a reader, by the numbers of their tokens."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        """`pieces`: the text of each; signs for the model have none."""
        self._pieces = pieces
        # A letter may also stand among the bytes at the beginning, which are for what has no piece.
        self._tokens = {piece: token for token, piece in enumerate(self._pieces) if piece}

    def __len__(self) -> int:
        return len(self._pieces)

    def texts(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token. Where several tokens make one character, the last of them has it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return [
            decoder.decode(self._pieces[token], final=place == len(tokens)) for place, token in enumerate(tokens, 1)
        ]

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text as the reader was taught them: earlier pieces are joined first.

        Words do not depend on each other. Raise PiecesError if there is no piece for a byte.
        """
        return [token for word in text.split() for token in self._of_word(f" {word}")]

    def _of_word(self, word: str) -> list[int]:
        parts = [character.encode() for character in word]
        while True:
            pairs = [(self._tokens.get(one + other), place) for place, (one, other) in enumerate(pairwise(parts))]
            known = [(token, place) for token, place in pairs if token is not None]
            if not known:
                break
            _, place = min(known)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        parts = [single for part in parts for single in ([part] if part in self._tokens else _single_bytes(part))]
        try:
            return [self._tokens[part] for part in parts]
        except KeyError as error:
            raise PiecesError(f"there is no piece for {word!r}") from error


def _single_bytes(part: bytes) -> list[bytes]:
    return [part[place : place + 1] for place in range(len(part))]


def load_pieces(path: Path) -> Pieces:
    """Read the pieces of a file. Raise PiecesError if it is cut off or missing."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PiecesError(f"{path} cannot be read: {error.strerror}") from error
    pieces: list[bytes] = []
    at = 0
    while at < len(content):
        length, at = content[at], at + 1
        if length >= _LONG and at < len(content):
            length, at = length - _LONG + content[at] * _LONG, at + 1
        if at + length > len(content):
            raise PiecesError(f"{path} is cut off: copy it again")
        pieces.append(content[at : at + length])
        at += length
    if len(pieces) <= END:
        raise PiecesError(f"{path} has no pieces: copy it again")
    return Pieces([b"" if _is_sign(piece) else piece.replace(_SPACE, b" ") for piece in pieces])


def _is_sign(piece: bytes) -> bool:
    """Return whether a piece is a sign for the model and no text, such as </s>."""
    return len(piece) > 2 and piece.startswith(b"<") and piece.endswith(b">")
