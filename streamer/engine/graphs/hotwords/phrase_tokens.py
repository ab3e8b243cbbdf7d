"""Divides a hotword into the tokens of a public model, as its text was divided when it was trained.

If the folder has the pieces of the model (`bpe.model`), their scores decide. Otherwise the fewest tokens are taken. All
kinds of tables are compared as bytes, in which a space begins a word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from streamer.engine.graphs.token_text import TokenText
from streamer.graphs.piece_model import PieceModel
from streamer.text.joining import is_spaceless

_SPACE: Final = b" "
_RARE: Final = 10.0  # how much worse than the worst piece a token is that the pieces do not have
_IMPOSSIBLE: Final = float("-inf")

Numbers = tuple[int, ...]


class PhraseTokens:
    """Knows the tokens of one model."""

    def __init__(self, tokens: Sequence[str], pieces: PieceModel | None) -> None:
        text = TokenText(tokens)
        self._in_bytes = text.in_bytes
        self._pairs = pieces is not None and pieces.pairs
        worst = min(pieces.scores.values()) - _RARE if pieces else -1.0
        self._tokens: dict[bytes, tuple[float, int]] = {}  # their scores and numbers
        letters = []
        for number, (name, spelled) in enumerate(zip(tokens, text.bytes, strict=True)):
            single = len(spelled) == 1 and name.startswith("<")  # for any byte: only where nothing else fits
            score = pieces.scores.get(name, worst) if pieces else worst
            if single:
                score = worst - 10 * _RARE
            if spelled and self._tokens.get(spelled, (_IMPOSSIBLE, 0))[0] < score:
                self._tokens[spelled] = score, number
            if not single:
                letters.append(spelled.decode("utf-8", "ignore"))
        self._longest = max(map(len, self._tokens), default=0)
        self._characters = frozenset("".join(letters))
        self._capitals = any(each.isupper() for each in self._characters)
        self._small = any(each.islower() for each in self._characters)

    def of(self, phrase: str) -> Numbers:
        """The tokens of this phrase. ValueError if the model has none for a part of it."""
        found: Numbers = ()
        for word in self._words(phrase):
            divided = self._by_pairs(word) if self._pairs else self._by_scores(word)
            if divided is None:
                raise ValueError(f"hotword {phrase!r}: the model has no tokens for {word!r}")
            found += divided
        if not found:
            raise ValueError(f"hotword {phrase!r} has nothing that the model has tokens for")
        return found

    def _words(self, phrase: str) -> Iterator[str]:
        """The words of a phrase as the model spells them."""
        plain = unicodedata.normalize("NFC", phrase).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        if self._capitals != self._small:
            plain = plain.upper() if self._capitals else plain.lower()
        word, kind = "", False
        for each in " ".join(plain.split()) + " ":
            spaceless = is_spaceless(each)
            known = each != " " and (each in self._characters or each.isalnum() or unicodedata.combining(each) > 0)
            # Pieces of bytes were found in a text with spaces around such characters.
            if word and (not known or spaceless != kind or (spaceless and self._in_bytes)):
                yield word
                word = ""
            if known:
                word, kind = word + each, spaceless

    def _by_scores(self, word: str) -> Numbers | None:
        """The tokens with the greatest sum of scores; of equal ones, those with longer tokens first."""
        spelled = _SPACE + word.encode()
        best: list[tuple[float, int, int]] = [(_IMPOSSIBLE, 0, 0)] * len(spelled) + [(0.0, 0, 0)]
        for begin in range(len(spelled) - 1, -1, -1):
            for end in range(begin + 1, min(begin + self._longest, len(spelled)) + 1):
                score, number = self._tokens.get(spelled[begin:end], (_IMPOSSIBLE, 0))
                if score + best[end][0] >= best[begin][0] and score + best[end][0] > _IMPOSSIBLE:
                    best[begin] = score + best[end][0], end, number
        # No space stands before a character that is written without spaces, except where a text begins.
        at = 1 if is_spaceless(word[0]) and best[1][0] >= best[0][0] else 0
        if best[at][0] == _IMPOSSIBLE:
            return None
        found = []
        while at < len(spelled):
            _, at, number = best[at]
            found.append(number)
        return tuple(found)

    def _by_pairs(self, word: str) -> Numbers | None:
        """The tokens that remain when the best pair of neighbours is joined until no pair makes a token."""
        if self._in_bytes:
            parts = [bytes([byte]) for byte in _SPACE + word.encode()]
        else:
            parts = [_SPACE, *(each.encode() for each in word)]
        while True:
            scores = [self._tokens.get(one + other, (_IMPOSSIBLE, 0))[0] for one, other in pairwise(parts)]
            at = max(range(len(scores)), key=scores.__getitem__, default=0)
            if not scores or scores[at] == _IMPOSSIBLE:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if is_spaceless(word[0]) and parts[0] == _SPACE:
            del parts[0]
        single = [
            part
            for whole in parts
            for part in ([whole] if whole in self._tokens else [bytes([byte]) for byte in whole])
        ]
        if not all(part in self._tokens for part in single):
            return None
        return tuple(self._tokens[part][1] for part in single)
