"""What is typed of a session: its settled words, line breaks, and what "scratch that" takes back. Pure.

Words are given out when nothing can change them any more: those of a final, and before it those that the service calls
stable. What may be the beginning of a spoken command waits for the next word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from streamer.base.cues import SessionEvent
from streamer.base.text import is_spaceless, printable, separator


@dataclass(frozen=True)
class Words:
    """Words to type, as one line, with the space behind them. `begins`: they begin what "scratch that" takes back."""

    text: str
    begins: bool


@dataclass(frozen=True)
class LineBreaks:
    """How often to press Return. They are a part of their own for "scratch that"."""

    count: int


@dataclass(frozen=True)
class Scratch:
    """The last part is taken back: what was typed since the pause before it."""


Step = Words | LineBreaks | Scratch


class Order(Enum):
    """A spoken command."""

    NEW_LINE = "new line"
    NEW_PARAGRAPH = "new paragraph"
    SCRATCH = "scratch that"


PHRASES: Final[dict[tuple[str, ...], Order]] = {
    **{tuple(order.value.split()): order for order in Order},
    ("newline",): Order.NEW_LINE,
}
_SCRATCH: Final = tuple(Order.SCRATCH.value.split())
_BREAKS: Final = {Order.NEW_LINE: 1, Order.NEW_PARAGRAPH: 2}

_WORD: Final = re.compile(r"\S+")
_TOKEN: Final = re.compile(r"\n+|\S+")
_SENTENCE_ENDS: Final = tuple(".?!…。？！")


@dataclass(frozen=True)
class _Token:
    """A word with its marks, or line breaks."""

    text: str

    @property
    def word(self) -> str:
        """The word alone."""
        return re.sub(r"^\W+|\W+$", "", self.text).lower()

    @property
    def breaks(self) -> int:
        return self.text.count("\n")

    @property
    def ends(self) -> bool:
        """Whether a sentence ends with it."""
        return self.breaks > 0 or self.text.endswith(_SENTENCE_ENDS)


class TypedText:
    """Makes steps of the events of a session with one channel.

    Return is pressed for spoken commands alone. `dictated`: the service writes these as line breaks. Otherwise line
    breaks in a text are spaces, whatever model has made it.
    """

    def __init__(self, *, dictated: bool = False) -> None:
        self._pattern = _TOKEN if dictated else _WORD
        self._done = 0  # tokens of the present segment that were given out, or were commands
        self._at_sentence = True  # whether the next token begins a sentence
        self._open = False  # whether words of the part that "scratch that" takes back were given out

    def take(self, event: SessionEvent) -> list[Step]:
        """Take an event, and return what to do now."""
        if event["type"] == "partial":
            return self._steps(self._settled(event["text"], event["stable"]), final=False)
        if event["type"] != "final":
            return []
        steps = self._steps([_Token(found) for found in self._pattern.findall(event["text"])], final=True)
        self._done, self._at_sentence, self._open = 0, True, False
        return steps

    def _settled(self, text: str, stable: int) -> list[_Token]:
        """Return the tokens that no later event changes."""
        spans = [found for found in self._pattern.finditer(text) if found.end() <= stable]
        # A word of a script without spaces may still become longer.
        if spans and spans[-1].end() == len(text) and is_spaceless(text[-1]):
            spans.pop()
        return [_Token(found[0]) for found in spans]

    def _steps(self, tokens: Sequence[_Token], *, final: bool) -> list[Step]:
        steps: list[Step] = []
        words: list[str] = []

        def give_words() -> None:
            if words:
                text = printable(" ".join(words))
                steps.append(Words(text + separator(text, text), begins=not self._open))
                self._open = True
                words.clear()

        for found in self._read(tokens, final=final):
            if isinstance(found, str):
                words.append(found)
            elif isinstance(found, int):
                give_words()
                steps.append(LineBreaks(found))
                self._open = False
            else:
                _scratch(steps, words, opened=self._open)
                self._open = False
        give_words()
        return steps

    def _read(self, tokens: Sequence[_Token], *, final: bool) -> Iterator[str | int | Order]:
        """Yield words, numbers of line breaks, and `Order.SCRATCH`; as far as they are certain."""
        while self._done < len(tokens):
            rest = tokens[self._done :]
            order, length = self._order_at(rest, final=final)
            if order is None and length:
                return  # the next word decides
            self._done += max(1, length)
            self._at_sentence = rest[max(1, length) - 1].ends or order is not None
            if order is not None:
                yield _BREAKS.get(order, order)
            else:
                yield rest[0].breaks or rest[0].text

    def _order_at(self, rest: Sequence[_Token], *, final: bool) -> tuple[Order | None, int]:
        """Return the command that these tokens begin with, and its length. (None, length) if it may become one."""
        for phrase, order in PHRASES.items():
            heard = rest[: len(phrase)]
            if [token.word for token in heard] != list(phrase[: len(heard)]) or any(each.ends for each in heard[:-1]):
                continue
            at_end = len(heard) == len(rest)
            whole = len(heard) == len(phrase)
            # Alone: a sentence or an utterance of nothing else. "Scratch that" may also end an utterance.
            alone = self._at_sentence and whole and (heard[-1].ends or (final and at_end))
            if alone or (phrase == _SCRATCH and whole and final and at_end):
                return order, len(phrase)
            if not final and at_end and (self._at_sentence or phrase == _SCRATCH):
                return None, len(heard)
        return None, 0


def _scratch(steps: list[Step], words: list[str], *, opened: bool) -> None:
    """Drop the last part if it has not been given out yet. What was given out has to be taken back."""
    if opened or not words:
        index = _beginning(steps)
        if index is None:
            steps.append(Scratch())
        else:
            del steps[index:]
    words.clear()


def _beginning(steps: Sequence[Step]) -> int | None:
    """Return where the last part begins, if it is among these steps as a whole."""
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if isinstance(step, Scratch):
            return None
        if isinstance(step, LineBreaks) or step.begins:
            return index
    return None
