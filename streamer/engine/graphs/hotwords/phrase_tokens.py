"""Divides a hotword into the tokens of a public model, as text was divided when the model was trained.

If the folder has the pieces of the model (`bpe.model`), their scores decide. Otherwise the division with the fewest
tokens is taken. All kinds of tables are compared as bytes, in which a space begins a word.
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
_PENALTY: Final = 10.0  # how much worse than the worst piece a token is that is not among the pieces
_IMPOSSIBLE: Final = float("-inf")

Numbers = tuple[int, ...]


class PhraseTokens:
    """The tokens of one model, with their scores."""

    def __init__(self, tokens: Sequence[str], pieces: PieceModel | None) -> None:
        text = TokenText(tokens)
        self._in_bytes = text.in_bytes
        self._pairs = pieces is not None and pieces.pairs
        worst = min(pieces.scores.values()) - _PENALTY if pieces else -1.0
        self._tokens: dict[bytes, tuple[float, int]] = {}  # the score and number of each token
        letters = []
        for number, (name, spelled) in enumerate(zip(tokens, text.bytes, strict=True)):
            single = len(spelled) == 1 and name.startswith("<")  # a token for a byte is the last choice
            score = pieces.scores.get(name, worst) if pieces else worst
            if single:
                score = worst - 10 * _PENALTY
            if spelled and self._tokens.get(spelled, (_IMPOSSIBLE, 0))[0] < score:
                self._tokens[spelled] = score, number
            if not single:
                letters.append(spelled.decode("utf-8", "ignore"))
        self._longest = max(map(len, self._tokens), default=0)
        self._characters = frozenset("".join(letters))
        self._capitals = any(each.isupper() for each in self._characters)
        self._small = any(each.islower() for each in self._characters)

    def of(self, phrase: str) -> Numbers:
        """Return the tokens of this phrase. ValueError if the model has none for a part of it."""
        numbers: Numbers = ()
        for word in self._words(phrase):
            tokens = self._by_pairs(word) if self._pairs else self._by_scores(word)
            if tokens is None:
                raise ValueError(f"hotword {phrase!r}: the model has no tokens for {word!r}")
            numbers += tokens
        if not numbers:
            raise ValueError(f"hotword {phrase!r} has nothing that the model has tokens for")
        return numbers

    def _words(self, phrase: str) -> Iterator[str]:
        """Yield the words of a phrase as the model spells them."""
        text = unicodedata.normalize("NFC", phrase).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        if self._capitals != self._small:
            text = text.upper() if self._capitals else text.lower()
        word, kind = "", False
        for each in " ".join(text.split()) + " ":
            spaceless = is_spaceless(each)
            belongs = each != " " and (each in self._characters or each.isalnum() or unicodedata.combining(each) > 0)
            # Models with pieces of bytes were trained on text with spaces around such characters.
            if word and (not belongs or spaceless != kind or (spaceless and self._in_bytes)):
                yield word
                word = ""
            if belongs:
                word, kind = word + each, spaceless

    def _by_scores(self, word: str) -> Numbers | None:
        """Return the tokens with the greatest sum of scores. Of equal sums, the one with longer tokens first wins."""
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
        numbers = []
        while at < len(spelled):
            _, at, number = best[at]
            numbers.append(number)
        return tuple(numbers)

    def _by_pairs(self, word: str) -> Numbers | None:
        """Join the best pair of neighbouring tokens until no pair makes a token. Return the tokens that remain."""
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
