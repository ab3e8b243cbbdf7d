"""Speech of synthetic voices: texts with rare words, numbers, spelled letters and commands, and the voices.

The same seed gives the same speech.
"""

from __future__ import annotations

import io
import itertools
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Samples, Utterance, write_corpus
from workshop.language.pronunciation import cmu_dictionary
from workshop.processes import Workers

SHORTEST_RARE_WORD = 3
SAID_AT_ONCE = 256


def synthesise(work: Path, hours: float, engines: Sequence[str], seed: int, processes: int) -> list[Utterance]:
    """Write the set `synthetic` beside the prepared train and dev."""
    train_words = {word for utterance in Corpus(work, "train").utterances for word in utterance.text.split()}
    rare = [
        word
        for word in sorted(cmu_dictionary())
        if word not in train_words and "'" not in word and len(word) >= SHORTEST_RARE_WORD
    ]
    dev_texts = {utterance.text for utterance in Corpus(work, "dev").utterances}
    planned = planned_speech(rare, dev_texts, engines, random.Random(seed))
    with Workers(processes) as workers:
        return write_corpus(work, "synthetic", _speech(workers, planned, hours * 3600))


def planned_speech(
    words: Sequence[str], unwanted: Collection[str], engines: Sequence[str], rng: random.Random
) -> Iterator[tuple[Voice, str]]:
    """Yield voices and their texts without end. All engines come equally often. Texts of `unwanted` are never said."""
    turns = itertools.cycle(engines)
    for prompt in prompts(words, rng):
        if transcript(prompt) not in unwanted:
            yield draw_voice(next(turns), rng), prompt


def _speech(
    workers: Workers, planned: Iterator[tuple[Voice, str]], seconds: float
) -> Iterator[tuple[Utterance, Samples]]:
    """Return the speech of the beginning of the plan, with this many seconds."""
    number = 0
    while seconds > 0:
        voices, texts = zip(*itertools.islice(planned, min(SAID_AT_ONCE, 1 + int(seconds / 2))), strict=True)
        recordings = workers.map(Voice.say, voices, map(spoken, texts), chunk=8)
        for voice, text, samples in zip(voices, texts, recordings, strict=True):
            if seconds > 0:
                name = f"synthetic/{voice.engine}-{number:06d}"
                corpus = f"synthetic_{voice.engine}"
                yield Utterance(name, 0, len(samples), corpus, voice.speaker, transcript(text)), samples
                seconds -= len(samples) / SAMPLE_RATE
                number += 1


# Makes texts that collections of text lack: rare words, numbers, spelled letters, addresses and commands.

LETTER_NAMES = {
    "A": "ay",
    "B": "bee",
    "C": "see",
    "D": "dee",
    "E": "ee",
    "F": "eff",
    "G": "gee",
    "H": "aitch",
    "I": "eye",
    "J": "jay",
    "K": "kay",
    "L": "ell",
    "M": "em",
    "N": "en",
    "O": "oh",
    "P": "pee",
    "Q": "cue",
    "R": "are",
    "S": "ess",
    "T": "tee",
    "U": "you",
    "V": "vee",
    "W": "double-you",
    "X": "ex",
    "Y": "why",
    "Z": "zee",
}
LONGEST_LIST = 5

_CARRIERS = (
    "the next word is {word}",
    "did you say {word} or {word}",
    "she wrote {word} on the wall",
    "{word} {word} and {word}",
    "what does {word} mean",
    "it was the {word} of the {word}",
    "i have never heard of {word} before",
    "they were talking about {word} and {word}",
    "{word} is not the same as {word}",
    "look up {word} for me please",
    "this is {word} speaking",
    "he came from {word} by way of {word}",
    "we found a {word} near the {word}",
    "there's no {word} without {word}",
    "a very {word} {word}",
    "the {word} of {word} was {word}",
    "{word}",
    "{word} {word}",
    "if the {word} is {word} then {word}",
    "her name was {word} {word}",
)
_COMMANDS = (
    "turn {on} the {thing} in the {room}",
    "switch {on} the {thing}",
    "set a timer for {small} minutes",
    "set an alarm for {time}",
    "wake me up at {time}",
    "call {word}",
    "send a message to {word}",
    "play {word} by {word}",
    "play the next song",
    "skip this one",
    "volume {up}",
    "turn it {up} a little",
    "what's the weather like in {word}",
    "how do i get to {word}",
    "remind me to call {word} at {time}",
    "add {word} to my shopping list",
    "stop",
    "pause",
    "go back",
    "cancel that",
    "open the {thing}",
    "close the {thing}",
    "what time is it in {word}",
    "navigate to {number} {word} street",
    "dial {digits}",
    "send it to {word} now",
    "set the temperature to {small} degrees",
    "start recording",
    "stop recording",
    "delete the last sentence",
    "new paragraph",
    "read it back to me",
    "go to page {number}",
    "transfer {number} dollars to {word}",
)
_NUMBERS = (
    "{digits}",
    "my number is {digits}",
    "the code is {digits}",
    "{number}",
    "{number} point {digit} {digit}",
    "it costs {number} dollars and {small} cents",
    "in the year {year}",
    "flight {letters} {digits}",
    "between {number} and {number}",
    "{small} percent of {number}",
    "at {time} on the {small} of may",
    "room {digits} on floor {small}",
    "{digit} {digit} {digit} again {digit} {digit} {digit}",
    "track {number} please",
    "the answer is minus {number}",
    "divide {number} by {small}",
)
_SPELLED = (
    "{letters}",
    "{spelling}",
    "it is spelled {letters}",
    "the plate says {letters} {digits}",
    "{spelling} in capitals",
    "write {letters} and then {letters}",
    "that's {letters} as in {word}",
    "the letters {letters}",
    "press {letter}",
    "my name is {spelling}",
)
_DICTATED = (
    "{letters_of}",
    "{letters_of}",
    "{letters_of} {letters_of}",
    "{letters_of} {letters_of}",
    "{word} {letters_of}",
    "{word} {word} {letters_of} {letters_of}",
    "{word} that's {letters_of}",
    "my name is {word} {letters_of}",
    "it is spelled {letters_of}",
    "spelled {letters_of}",
    "{letters_of} {digits}",
    "{letters} {digits} {letters}",
    "{letter} as in {word}",
    "{letter} as in {word} {letter} as in {word}",
    "{letter} for {word}",
    "{letters_of} at {word} dot com",
    "{letters_of} dot {letters_of} at {letters} dot {letters}",
    "the number is {telephone}",
    "call {telephone}",
    "my phone number is {telephone}",
    "{telephone}",
    "{telephone}",
    "{telephone}",
    "the code is {letters} {digits}",
)
_ADDRESSES = (
    "{house} {word} {street}",
    "{house} {word} {street}",
    "{house} {word} {word} {street}",
    "{house} {word} {street} {digits}",
    "{house} {word} {street} apartment {house}",
    "flat number {house} {word} {word}",
    "{house} {word} {street} {word} {digits}",
    "i live at {house} {word} {street}",
    "plot {house} {word} {street} {word}",
)
_STREETS = ("street", "road", "avenue", "lane", "drive", "court", "way", "place", "square", "terrace", "hill", "colony")
_TIMES = {2: "double", 3: "triple"}
_ROOMS = ("kitchen", "bedroom", "hall", "garage", "office", "bathroom", "cellar", "living room", "garden")
_THINGS = ("light", "lamp", "radio", "television", "heating", "fan", "door", "window", "oven", "blinds", "printer")
_DIGITS = ("zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ONES = (
    "",
    *_DIGITS[2:],
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

KINDS = {_CARRIERS: 0.5, _COMMANDS: 0.2, _NUMBERS: 0.15, _SPELLED: 0.15}
"""Families of sentences for synthetic voices, and their shares."""

DICTATION = {_DICTATED: 0.7, _ADDRESSES: 0.2, _NUMBERS: 0.1}
"""What people dictate: names letter by letter, telephone numbers, addresses."""


def transcript(prompt: str) -> str:
    """Return the transcript of a prompt, in lower case."""
    return prompt.lower()


def spoken(prompt: str) -> str:
    """Return the text for a voice: letters are replaced by their names, with short breaks between them."""
    words = [f"{LETTER_NAMES[word]}," if word in LETTER_NAMES else word for word in prompt.split()]
    # Some voices read it in lower case as a letter of an alphabet, not as the word.
    return " ".join("I" if word == "i" else word for word in words).rstrip(",") + "."


def prompts(words: Sequence[str], rng: random.Random, kinds: Mapping[tuple[str, ...], float] = KINDS) -> Iterator[str]:
    """Yield prompts without end. Every word comes once before any word comes twice."""
    slots = _Slots(words, rng)
    families, shares = list(kinds), list(kinds.values())
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
            "letters_of": lambda: self._letters(next(self._words)),
            "telephone": self._telephone,
            "house": self._house,
            "street": lambda: rng.choice(_STREETS),
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

    def _letters(self, word: str) -> str:
        """Spell a word."""
        return self._repeated(list(word.upper().replace("'", "")))

    def _telephone(self) -> str:
        """Say a number digit by digit. Zero is "oh" for some."""
        zero = self._rng.choice(("zero", "zero", "oh"))
        length = self._rng.choice((4, 5, 6, 7, 7, 8, 10, 10, 10, 10, 11))
        return self._repeated([self._rng.choice((zero, *_DIGITS[2:])) for _ in range(length)])

    def _repeated(self, parts: list[str]) -> str:
        """Say letters or digits. Some people say "double L" and "triple five"."""
        runs = [(part, len(list(run))) for part, run in groupby(parts)]
        if self._rng.random() < 0.15:
            return " ".join(f"{_TIMES[n]} {part}" if n in _TIMES else " ".join([part] * n) for part, n in runs)
        return " ".join(parts)

    def _house(self) -> str:
        """Say the number of a house: digit by digit, in pairs, or as one number."""
        number = int(10 ** self._rng.uniform(0, 4))
        digits = " ".join(_DIGITS[0] if digit == "0" else _DIGITS[int(digit) + 1] for digit in str(number))
        pairs = f"{cardinal(number // 100)} {cardinal(number % 100)}" if number >= 1000 and number % 100 > 9 else digits
        return self._rng.choice((digits, pairs, cardinal(number)))

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


# Synthetic voices from programs in Debian packages, with one process for each utterance.

PACKAGES = {
    "espeak-ng": ("espeak-ng", "espeak-ng"),
    "flite": ("flite", "flite"),
    "rhvoice": ("RHVoice-test", "rhvoice rhvoice-english (of Debian's section non-free)"),
}
"""By engine: its program and the packages that bring it."""

PATIENCE_S = 60

_ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc", "en-029")
# Variants that are clear enough: scripts/data/align_speech.py finds the words in at least half of the cases.
_THROATS = (
    "+f1",
    "+f2",
    "+f3",
    "+f4",
    "+f5",
    "+m1",
    "+m2",
    "+m5",
    "+m6",
    "+m8",
    "+klatt",
    "+klatt2",
    "+klatt3",
    "+klatt4",
    "+john",
    "+steph",
)
# awb_time says only times of day. kal is kal16 at 8 kHz.
_FLITE = ("slt", "rms", "awb", "kal16")
# RHVoice's evgeniy-eng and lyubov are only for non-commercial use.
_RHVOICE = ("alan", "bdl", "clb", "slt")
_PITCHES = {"slt": 180, "rms": 110, "awb": 130, "kal16": 105}


@dataclass(frozen=True)
class Voice:
    """A voice with its way of speaking, as factors of the usual one. `throat` shifts the whole spectrum."""

    engine: str
    name: str
    rate: float
    pitch: float
    throat: float

    @property
    def speaker(self) -> str:
        """The name of the voice in a corpus."""
        return f"{self.engine} {self.name}"

    def say(self, text: str) -> Samples:
        """Say the text with this voice. The result is always the same."""
        command, standard_input = _command(self, text)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "said.wav"
            try:
                subprocess.run(
                    [*command, str(path)],
                    input=standard_input,
                    text=True,
                    capture_output=True,
                    check=True,
                    timeout=PATIENCE_S,
                )
                audio, rate = soundfile.read(io.BytesIO(path.read_bytes()), dtype="float32", always_2d=True)
            except (OSError, subprocess.SubprocessError, soundfile.SoundFileError) as error:
                raise CorpusError(f"{self.speaker} cannot say {text!r}: {error}") from error
        # Faster or slower playback sounds like a shorter or longer throat. The requested rate compensates for the pace.
        sound = soxr.resample(audio[:, 0], rate * self.throat, SAMPLE_RATE)
        levels: Samples = np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)
        return levels


def check_installed(engines: Sequence[str]) -> None:
    """Raise an error for engines that are unknown or not installed."""
    for engine in engines:
        if engine not in PACKAGES:
            raise CorpusError(f"there is no engine {engine!r}; there are {', '.join(PACKAGES)}")
        program, packages = PACKAGES[engine]
        if shutil.which(program) is None:
            raise CorpusError(f"the voices of {engine} are missing: apt-get install {packages}")


def draw_voice(engine: str, rng: random.Random) -> Voice:
    """Draw one of the voices of an engine, and its way of speaking."""
    names = {
        "espeak-ng": lambda: rng.choice(_ACCENTS) + rng.choice(_THROATS),
        "flite": lambda: rng.choice(_FLITE),
        "rhvoice": lambda: rng.choice(_RHVOICE),
    }
    name = names[engine]()
    return Voice(engine, name, rng.uniform(0.8, 1.25), rng.uniform(0.8, 1.25), rng.uniform(0.9, 1.12))


def _command(voice: Voice, text: str) -> tuple[list[str], str]:
    """Return the command without the name of the output file, and the text for its standard input."""
    rate, pitch = voice.rate / voice.throat, voice.pitch / voice.throat
    if voice.engine == "espeak-ng":
        words_a_minute, scale = str(round(160 * rate)), str(min(max(round(50 * pitch), 0), 99))
        return ["espeak-ng", "-v", voice.name, "-s", words_a_minute, "-p", scale, "--stdin", "-w"], text
    if voice.engine == "flite":
        settings = [f"duration_stretch={1 / rate:.3f}", f"int_f0_target_mean={_PITCHES[voice.name] * pitch:.0f}"]
        return ["flite", "-voice", voice.name, "--setf", settings[0], "--setf", settings[1], "-t", text, "-o"], ""
    return ["RHVoice-test", "-p", voice.name, "-r", f"{100 * rate:.0f}", "-t", f"{100 * pitch:.0f}", "-o"], text
