"""Turns the tokens of a public model into words, with the frames in which they were emitted.

There are three kinds of tables of tokens: pieces of words (`▁` begins a word), the same with a token for each byte, and
pieces of bytes (each character stands for a byte). In scripts without spaces, each character is a word.

The table may be hostile: characters that a terminal obeys, and those that change the order of others, are left out.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.base.text import Place, WordReader
from streamer.engine.search.search import HypothesisWord

SPACE: Final = " "
_WORD_BEGINS: Final = "▁"
_SPECIAL: Final = re.compile(r"<[^<>]+>|#\d+")
_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
# The characters that stand for the bytes 0 to 255 in a table with pieces of bytes.
_BYTE_CHARACTERS: Final = {
    chr(code): byte
    for byte, code in enumerate(
        code
        for first, last in ((256, 287), (32, 126), (288, 305), (308, 318), (321, 328), (330, 382), (384, 422))
        for code in range(first, last + 1)
    )
}
# A table with this or a later character, and no character other than those above, almost certainly has pieces of bytes.
_ONLY_BYTES: Final = "\u0180"
# Controls (those that are spaces only separate words), what changes the direction of text, and what nobody can see.
_NO_TEXT: Final = frozenset(
    chr(code)
    for first, last in (
        (0, 0x1F),
        (0x7F, 0x9F),
        (0x202A, 0x202E),
        (0x2066, 0x206F),
        (0xFFF9, 0xFFFB),
        (0xE0000, 0xE007F),
    )
    for code in range(first, last + 1)
    if not chr(code).isspace()
)


@dataclass(frozen=True)
class Token:
    """An emitted token: its number, its first frame, the frame after its last one, and its log-probability."""

    number: int
    frame: int
    end: int
    log_prob: float


class TokenText:
    """Turns the tokens of one table into words."""

    def __init__(self, tokens: Sequence[str]) -> None:
        names = [token for token in tokens if not _SPECIAL.fullmatch(token)]
        characters = set("".join(names)) - {_WORD_BEGINS, SPACE}
        in_bytes = characters <= _BYTE_CHARACTERS.keys() and any(each >= _ONLY_BYTES for each in characters)
        self.in_bytes = in_bytes
        """Whether the tokens are pieces of bytes."""
        single = [match and int(match[1], 16) for match in map(_BYTE.fullmatch, tokens)]
        has_bytes = set(range(256)) <= set(single)
        # If a table has no small letters, its capitals mean nothing. In pieces of bytes only A to Z are letters.
        letters = "".join(re.findall("[A-Za-z]", "".join(names)) if in_bytes else names)
        self._small = bool(letters) and letters.upper() == letters
        self.bytes = [
            bytes([byte]) if has_bytes and byte is not None else _of_piece(token, in_bytes=in_bytes)
            for token, byte in zip(tokens, single, strict=True)
        ]
        """The text of each token in UTF-8, which may be a part of a character; empty for special tokens."""

    def words(self, tokens: Sequence[Token]) -> list[HypothesisWord]:
        """Return the words of these tokens, in order."""
        return [self._word(tokens, *part) for part in _parts(self._characters(tokens))]

    def _characters(self, tokens: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
        """Yield each character with the first and the last of its tokens. What is no text is left out."""
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        first = 0
        for place, token in enumerate(tokens):
            if not decoder.getstate()[0]:
                first = place
            for character in decoder.decode(self.bytes[token.number]):
                if character not in _NO_TEXT:
                    yield character, first, place
                first = place

    def _word(self, tokens: Sequence[Token], text: str, first: int, last: int) -> HypothesisWord:
        own = tokens[first : last + 1]
        certainty = sum(token.log_prob for token in own) / len(own)
        # A model may give scores that are no logarithms of probabilities, or no numbers.
        confidence = math.exp(certainty) if certainty < 0 else float(certainty >= 0)
        return HypothesisWord(text.lower() if self._small else text, own[0].frame, own[-1].end, confidence)


def _of_piece(token: str, *, in_bytes: bool) -> bytes:
    if _SPECIAL.fullmatch(token):
        return b""
    if in_bytes:
        return bytes(ord(SPACE) if each == _WORD_BEGINS else _BYTE_CHARACTERS[each] for each in token)
    return token.replace(_WORD_BEGINS, SPACE).encode()


def _parts(characters: Iterator[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return the words among the characters, each with the first and the last of its tokens."""
    words: list[tuple[str, int, int]] = []
    reader = WordReader()
    for character, first, last in characters:
        place = reader.read(character)
        if place is Place.BEGINS:
            words.append((character, first, last))
        elif place is Place.CONTINUES:
            text, began, _ = words[-1]
            words[-1] = text + character, began, last
    return words
