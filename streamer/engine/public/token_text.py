"""Turns the tokens of a public model into words, with the frames in which they were emitted.

There are three kinds of tables of tokens: pieces of words (`▁` begins a word), the same with a token for each byte, and
pieces of bytes (each character stands for a byte). In scripts without spaces, each character is a word.

The table may be hostile: characters that a terminal obeys, and those that change the order of others, are left out.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Sequence
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
        return TokenReader(self).words(tokens)

    def word(self, tokens: Sequence[Token], part: Part) -> HypothesisWord:
        """Return the word that this part of the tokens makes."""
        text, first, last = part
        own = tokens[first : last + 1]
        certainty = sum(token.log_prob for token in own) / len(own)
        # A model may give scores that are no logarithms of probabilities, or no numbers.
        confidence = math.exp(certainty) if certainty < 0 else float(certainty >= 0)
        return HypothesisWord(text.lower() if self._small else text, own[0].frame, own[-1].end, confidence)


Part = tuple[str, int, int]
"""The text of a word, and the places of its first and its last token."""


class TokenReader:
    """Reads tokens that only grow in number, each of them once. Only the last of them may change its end."""

    def __init__(self, text: TokenText) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._reader = WordReader()
        self._first = 0  # the place of the token with which the next character begins
        self._read = 0  # the number of tokens so far
        self._parts: list[Part] = []  # further tokens change only the last one
        self._words: list[HypothesisWord] = []  # of those that nothing changes any more

    def words(self, tokens: Sequence[Token]) -> list[HypothesisWord]:
        """Return the words of these tokens, in order. They begin with the tokens of the last call."""
        for place in range(self._read, len(tokens)):
            self._take(place, tokens[place])
        self._read = len(tokens)
        parts, words = self._parts, self._words
        while len(words) < len(parts) - 1 and parts[len(words)][2] < len(tokens) - 1:
            words.append(self._text.word(tokens, parts[len(words)]))
        return [*words, *(self._text.word(tokens, part) for part in parts[len(words) :])]

    def _take(self, place: int, token: Token) -> None:
        """Read the characters of a token, which may complete one of the tokens before. What is no text is left out."""
        decoder, parts = self._decoder, self._parts
        if not decoder.getstate()[0]:
            self._first = place
        for character in decoder.decode(self._text.bytes[token.number]):
            if character not in _NO_TEXT:
                role = self._reader.read(character)
                if role is Place.BEGINS:
                    parts.append((character, self._first, place))
                elif role is Place.CONTINUES:
                    text, began, _ = parts[-1]
                    parts[-1] = text + character, began, place
            self._first = place


def _of_piece(token: str, *, in_bytes: bool) -> bytes:
    if _SPECIAL.fullmatch(token):
        return b""
    if in_bytes:
        return bytes(ord(SPACE) if each == _WORD_BEGINS else _BYTE_CHARACTERS[each] for each in token)
    return token.replace(_WORD_BEGINS, SPACE).encode()
