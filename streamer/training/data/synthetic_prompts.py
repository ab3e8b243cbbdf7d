"""Makes the texts for synthetic voices: rare words, numbers, spelled letters and commands, inside simple sentences.

A prompt has the words of its transcript. Single letters that a voice must spell are capitals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

LETTER_NAMES = {
    "A": "ay", "B": "bee", "C": "see", "D": "dee", "E": "ee", "F": "eff", "G": "gee", "H": "aitch", "I": "eye",
    "J": "jay", "K": "kay", "L": "ell", "M": "em", "N": "en", "O": "oh", "P": "pee", "Q": "cue", "R": "are", "S": "ess",
    "T": "tee", "U": "you", "V": "vee", "W": "double-you", "X": "ex", "Y": "why", "Z": "zee",
}  # fmt: skip
LONGEST_LIST = 5

_CARRIERS = (
    "the next word is {word}", "did you say {word} or {word}", "she wrote {word} on the wall",
    "{word} {word} and {word}", "what does {word} mean", "it was the {word} of the {word}",
    "i have never heard of {word} before", "they were talking about {word} and {word}",
    "{word} is not the same as {word}", "look up {word} for me please", "this is {word} speaking",
    "he came from {word} by way of {word}", "we found a {word} near the {word}", "there's no {word} without {word}",
    "a very {word} {word}", "the {word} of {word} was {word}", "{word}", "{word} {word}",
    "if the {word} is {word} then {word}", "her name was {word} {word}",
)  # fmt: skip
_COMMANDS = (
    "turn {on} the {thing} in the {room}", "switch {on} the {thing}", "set a timer for {small} minutes",
    "set an alarm for {time}", "wake me up at {time}", "call {word}", "send a message to {word}",
    "play {word} by {word}", "play the next song", "skip this one", "volume {up}", "turn it {up} a little",
    "what's the weather like in {word}", "how do i get to {word}", "remind me to call {word} at {time}",
    "add {word} to my shopping list", "stop", "pause", "go back", "cancel that", "open the {thing}",
    "close the {thing}", "what time is it in {word}", "navigate to {number} {word} street", "dial {digits}",
    "send it to {word} now", "set the temperature to {small} degrees", "start recording", "stop recording",
    "delete the last sentence", "new paragraph", "read it back to me", "go to page {number}",
    "transfer {number} dollars to {word}",
)  # fmt: skip
_NUMBERS = (
    "{digits}", "my number is {digits}", "the code is {digits}", "{number}", "{number} point {digit} {digit}",
    "it costs {number} dollars and {small} cents", "in the year {year}", "flight {letters} {digits}",
    "between {number} and {number}", "{small} percent of {number}", "at {time} on the {small} of may",
    "room {digits} on floor {small}", "{digit} {digit} {digit} again {digit} {digit} {digit}",
    "track {number} please", "the answer is minus {number}", "divide {number} by {small}",
)  # fmt: skip
_SPELLED = (
    "{letters}", "{spelling}", "it is spelled {letters}", "the plate says {letters} {digits}",
    "{spelling} in capitals", "write {letters} and then {letters}", "that's {letters} as in {word}",
    "the letters {letters}", "press {letter}", "my name is {spelling}",
)  # fmt: skip
_ROOMS = ("kitchen", "bedroom", "hall", "garage", "office", "bathroom", "cellar", "living room", "garden")
_THINGS = ("light", "lamp", "radio", "television", "heating", "fan", "door", "window", "oven", "blinds", "printer")
_DIGITS = ("zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ONES = ("", *_DIGITS[2:], "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
         "eighteen", "nineteen")  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

KINDS = {_CARRIERS: 0.5, _COMMANDS: 0.2, _NUMBERS: 0.15, _SPELLED: 0.15}
"""Families of sentences and their shares."""


def transcript(prompt: str) -> str:
    """Return the transcript of a prompt, in lower case."""
    return prompt.lower()


def spoken(prompt: str) -> str:
    """Return the text for a voice: letters are replaced by their names, with short breaks between them."""
    words = [f"{LETTER_NAMES[word]}," if word in LETTER_NAMES else word for word in prompt.split()]
    # Some voices read it in lower case as a letter of an alphabet, not as the word.
    return " ".join("I" if word == "i" else word for word in words).rstrip(",") + "."


def prompts(words: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield prompts without end. Every word comes once before any word comes twice."""
    slots = _Slots(words, rng)
    families, shares = list(KINDS), list(KINDS.values())
    while True:
        (family,) = rng.choices(families, shares)
        yield slots.filled(rng.choice(family))


def cardinal(number: int) -> str:
    """Return a number below a million in words."""
    if number < 20:
        return _ONES[number] or "zero"
    if number < 100:
        return f"{_TENS[number // 10]} {_ONES[number % 10]}".strip()
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    rest = number % size
    return f"{cardinal(number // size)} {name} {cardinal(rest) if rest else ''}".strip()


class _Slots:
    """Fills the gaps of sentences."""

    def __init__(self, words: Sequence[str], rng: random.Random) -> None:
        self._rng = rng
        self._words = self._shuffled(list(words))
        self._fillers: dict[str, Callable[[], str]] = {
            "word": lambda: next(self._words),
            "on": lambda: rng.choice(("on", "off")),
            "up": lambda: rng.choice(("up", "down")),
            "room": lambda: rng.choice(_ROOMS),
            "thing": lambda: rng.choice(_THINGS),
            "small": lambda: cardinal(rng.randint(1, 99)),
            "number": lambda: cardinal(int(10 ** rng.uniform(0, 6))),
            "digit": lambda: rng.choice(_DIGITS),
            "digits": lambda: " ".join(rng.choice(_DIGITS) for _ in range(rng.randint(2, 8))),
            "year": self._year,
            "time": self._time,
            "letter": lambda: rng.choice(list(LETTER_NAMES)),
            "letters": lambda: " ".join(rng.choice(list(LETTER_NAMES)) for _ in range(rng.randint(2, LONGEST_LIST))),
            "spelling": self._spelling,
        }

    def filled(self, sentence: str) -> str:
        """Return the sentence with every gap filled."""
        parts = sentence.replace("}", "{").split("{")
        return "".join(self._fillers[part]() if index % 2 else part for index, part in enumerate(parts))

    def _shuffled(self, words: list[str]) -> Iterator[str]:
        while True:
            self._rng.shuffle(words)
            yield from words

    def _spelling(self) -> str:
        word = next(self._words)
        return f"{word} {' '.join(word.upper().replace(chr(39), ''))}"

    def _year(self) -> str:
        century, rest = self._rng.randint(11, 20), self._rng.randint(1, 99)
        return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"

    def _time(self) -> str:
        hour, minute = _ONES[self._rng.randint(1, 12)], self._rng.randint(10, 59)
        half = self._rng.choice(("A M", "P M"))
        exact = f"{hour} {cardinal(minute)}"
        return self._rng.choice(
            (f"half past {hour}", f"quarter to {hour}", f"{hour} o'clock", f"{hour} {half}", exact, f"{exact} {half}")
        )
