"""The options of a session: their names, defaults and bounds, and the error for a value that is not allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from streamer.base.limits import (
    AFTER_TEXT_BOUNDS_MS,
    AFTER_TEXT_MS,
    ALTERNATIVES,
    DEFAULT_MODEL,
    EAGERNESS,
    EAGERNESSES,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    LANGUAGE,
    LONGEST_CONTEXT_PAUSE_MS,
    LONGEST_CONTEXT_WORD,
    LONGEST_HOTWORD,
    LONGEST_LANGUAGE,
    LONGEST_PAUSE_BOUNDS_MS,
    LONGEST_PAUSE_MS,
    LONGEST_SEGMENT_BOUNDS_MS,
    LONGEST_SEGMENT_MS,
    MOST_ALTERNATIVES,
    MOST_CHANNELS,
    MOST_CONTEXT_WORDS,
    MOST_HOTWORD_WORDS,
    MOST_HOTWORDS,
    OFF,
    SEARCH,
    SEARCHES,
    SETTLE_BOUNDS_MS,
    SETTLE_MS,
    STABILITIES,
    STABILITY,
    STEP_MS,
    STEPS_MS,
    WITHOUT_TEXT_BOUNDS_MS,
    WITHOUT_TEXT_MS,
)
from streamer.wire.errors import CloseCode, WireError, bad, kind_name, kind_of, quote

# The words before a cut, which decide the marks and capitals after it. A client sends them to a new session. Pure.


@dataclass(frozen=True)
class ContextWord:
    """A word as it was spoken, and the silence after it."""

    word: str
    pause_ms: int


@dataclass(frozen=True)
class TextContext:
    """The last words before a cut. `begins`: the first word after the cut begins a sentence."""

    begins: bool
    words: tuple[ContextWord, ...]


def contexts(name: str, value: Any) -> tuple[TextContext | None, ...]:
    """Read the option with this name: for each channel the context of a final or null. Raise WireError if not valid."""
    if type(value) is not list or len(value) > MOST_CHANNELS:
        raise bad("bad_option", f"'{name}' must be a list of at most {MOST_CHANNELS} entries, one for each channel.")
    return tuple(None if entry is None else _context(name, entry) for entry in value)


def _context(name: str, entry: Any) -> TextContext:
    fields = entry if type(entry) is dict else {}
    begins, words = fields.get("begins"), fields.get("words")
    if fields.keys() != {"begins", "words"} or type(begins) is not bool or type(words) is not list:
        raise bad("bad_option", f"An entry of '{name}' must be null, or the 'context' of a final.")
    if len(words) > MOST_CONTEXT_WORDS:
        raise bad("bad_option", f"An entry of '{name}' must have at most {MOST_CONTEXT_WORDS} words, not {len(words)}.")
    return TextContext(begins, tuple(_word(name, word) for word in words))


def _word(name: str, entry: Any) -> ContextWord:
    fields: dict[str, Any] = entry if type(entry) is dict else {}
    word, pause_ms = fields.get("word", ""), fields.get("pause_ms")
    complete = fields.keys() == {"word", "pause_ms"} and type(word) is str
    if not complete or not word.isprintable() or not 0 < len(word) <= LONGEST_CONTEXT_WORD:
        raise bad("bad_option", f"A 'word' of '{name}' must have 1 to {LONGEST_CONTEXT_WORD} printable characters.")
    if type(pause_ms) is not int or not 0 <= pause_ms <= LONGEST_CONTEXT_PAUSE_MS:
        raise bad("bad_option", f"'pause_ms' of '{name}' must be a whole number from 0 to {LONGEST_CONTEXT_PAUSE_MS}.")
    return ContextWord(word, pause_ms)


# Bytes of a sample. mulaw and alaw have one byte each; streamer.audio decodes them.
SAMPLE_BYTES = {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}
ENCODINGS = tuple(SAMPLE_BYTES)
SAMPLE_RATES = (8_000, 192_000)


Rule = Callable[[str, Any], Any]
"""A function that checks the client's value of the option with this name. It returns the value, or raises WireError."""


def read(kind: type[Any], owner: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a message, or of an object in one, each by its rule. `owner`: the name of it in errors."""
    rules: dict[str, Rule] = {each.name: each.metadata["rule"] for each in fields(kind)}
    for name in values:
        if name not in rules:
            options = f"it takes {', '.join(rules)}" if rules else "it takes none"
            raise bad("unknown_option", f"'{owner}' has no option {quote(name)}; {options}.")
    return {name: rules[name](name, value) for name, value in values.items()}


def _check_type(name: str, value: Any, expected: type) -> Any:
    # type(), not isinstance(): a boolean must not pass as a number, nor 1 as a boolean.
    if type(value) is not expected:
        raise bad("bad_option", f"'{name}' must be {kind_name(expected)}, not {kind_of(value)}.")
    return value


def _refusal(name: str, right: str, value: Any, *, audio: bool = False) -> WireError:
    if audio:
        what = f"'{name}' {quote(value)} is not supported; send {right}."
        return WireError("unsupported_audio", CloseCode.BAD_AUDIO, what)
    return bad("bad_option", f"'{name}' must be {right}, not {quote(value)}.")


def _flag(name: str, value: Any) -> bool:
    return bool(_check_type(name, value, bool))


def _one_of(*accepted: Any, audio: bool = False) -> Rule:
    def rule(name: str, value: Any) -> Any:
        if _check_type(name, value, type(accepted[0])) not in accepted:
            raise _refusal(name, " or ".join(map(str, accepted)), value, audio=audio)
        return value

    return rule


def _within(low: int, high: int, *, audio: bool = False, also: tuple[int, ...] = ()) -> Rule:
    def rule(name: str, value: Any) -> Any:
        if not low <= _check_type(name, value, int) <= high and value not in also:
            right = " or ".join([*map(str, also), f"a whole number from {low} to {high}"])
            raise _refusal(name, right, value, audio=audio)
        return value

    return rule


def _weight(name: str, value: Any) -> float:
    # JSON has one kind of number, so 1 is as good as 1.0. NaN fails the comparison.
    if type(value) not in (int, float) or not 0 <= value <= HEAVIEST_HOTWORD:
        raise bad("bad_option", f"'{name}' of a hotword must be a number from 0 to {HEAVIEST_HOTWORD:g}.")
    return float(value)


def _phrase(name: str, value: Any) -> str:
    text = str(_check_type(name, value, str))
    words = len(text.split())
    if not 1 <= words <= MOST_HOTWORD_WORDS or len(text) > LONGEST_HOTWORD:
        right = f"1 to {MOST_HOTWORD_WORDS} words and at most {LONGEST_HOTWORD} characters"
        raise bad("bad_option", f"A hotword must have {right}, unlike {quote(value)}.")
    if not text.isprintable() or not any(character.isalnum() for character in text):
        right = "letters or digits, and only printable characters"
        raise bad("bad_option", f"A hotword must have {right}, unlike {quote(value)}.")
    return text


def _endpoint(name: str, value: Any) -> Endpoint:
    if value == OFF:
        return Endpoint(silence=False)
    if type(value) is not dict:
        raise bad("bad_option", f"'{name}' must be \"{OFF}\" or an object, not {quote(value)}.")
    endpoint = Endpoint(**read(Endpoint, name, value))
    if endpoint.turn and not endpoint.silence:
        raise bad("bad_option", f"'{name}' cannot have 'turn' without 'silence': a turn ends in a silence.")
    if endpoint.turn and "after_text_ms" in value:
        what = f"'{name}' cannot have 'after_text_ms' with 'turn', which decides the pause; send 'longest_pause_ms'."
        raise bad("bad_option", what)
    if not endpoint.turn and value.keys() & {"eagerness", "longest_pause_ms"}:
        raise bad("bad_option", f"'{name}' takes 'eagerness' and 'longest_pause_ms' only with 'turn':true.")
    return endpoint


def _hotwords(name: str, value: Any) -> tuple[Hotword, ...]:
    entries = _check_type(name, value, list)
    if len(entries) > MOST_HOTWORDS:
        raise bad("bad_option", f"'{name}' must have at most {MOST_HOTWORDS} phrases, not {len(entries)}.")
    return tuple(hotword(entry) for entry in entries)


def _resume(name: str, value: Any) -> Resume:
    options = _check_type(name, value, dict)
    if "token" not in options or "after" not in options:
        needs = "the 'token' of the session, and 'after': the 'n' of the last message that you received"
        raise bad("bad_option", f"'{name}' needs {needs}.")
    return Resume(**read(Resume, name, options))


def _text(name: str, value: Any) -> str:
    return str(_check_type(name, value, str))


def _language(name: str, value: Any) -> str:
    text = _text(name, value)
    if not 1 <= len(text) <= LONGEST_LANGUAGE or not re.fullmatch("[A-Za-z0-9_-]+", text):
        raise _refusal(name, f'"{LANGUAGE}" or the name of a language such as "de" or "de-DE"', value)
    return text


def _option(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


@dataclass(frozen=True)
class Endpoint:
    """How long a pause must be to end a segment. Without `silence`, a segment ends only at its greatest length.

    With `turn`, the words decide how long the pause after them must be: at most `longest_pause_ms`.
    """

    silence: bool = _option(True, _flag)
    after_text_ms: int = _option(AFTER_TEXT_MS, _within(*AFTER_TEXT_BOUNDS_MS))
    without_text_ms: int = _option(WITHOUT_TEXT_MS, _within(*WITHOUT_TEXT_BOUNDS_MS))
    longest_ms: int = _option(LONGEST_SEGMENT_MS, _within(*LONGEST_SEGMENT_BOUNDS_MS))
    turn: bool = _option(False, _flag)
    eagerness: str = _option(EAGERNESS, _one_of(*EAGERNESSES))
    longest_pause_ms: int = _option(LONGEST_PAUSE_MS, _within(*LONGEST_PAUSE_BOUNDS_MS))


_USUAL = Endpoint()


@dataclass(frozen=True)
class Hotword:
    """A word or phrase to listen for; 1 is the usual weight, 0 changes nothing."""

    text: str = _option("", _phrase)
    weight: float = _option(HOTWORD_WEIGHT, _weight)


def hotword(entry: Any) -> Hotword:
    """Read a hotword: its text, or an object with its text and weight. Raise WireError if it is not valid."""
    if type(entry) not in (str, dict):
        raise bad("bad_option", f"A hotword must be a string or an object, not {kind_of(entry)}.")
    values = {"text": entry} if type(entry) is str else entry
    if "text" not in values:
        raise bad("bad_option", "A hotword needs a 'text'.")
    return Hotword(**read(Hotword, "hotwords", values))


@dataclass(frozen=True)
class Resume:
    """The session to continue, and the number of the last message that the client received from it."""

    token: str = field(default="", repr=False, metadata={"rule": _text})  # a secret
    after: int = _option(0, _within(0, 2**53))


def wants_stable_words(options: Mapping[str, Any]) -> bool:
    """Return whether these options ask for words that become stable before their segment ends."""
    return bool(options.get("settle_ms")) or options.get("stability") == STABILITIES[-1]


def with_second_pass(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return these options with a second pass, unless they exclude it. Commands and uploads of recordings use this.

    Otherwise the service makes no second pass, because with one live words become stable only when their segment ends.
    """
    return {"second_pass": True, **options} if not wants_stable_words(options) else dict(options)


@dataclass(frozen=True)
class Start:
    """The first message, which starts the session. Every option has a default."""

    encoding: str = _option("pcm_s16le", _one_of(*ENCODINGS, audio=True))
    sample_rate: int = _option(16_000, _within(*SAMPLE_RATES, audio=True))
    channels: int = _option(1, _within(1, MOST_CHANNELS, audio=True))
    multichannel: bool = _option(False, _flag)
    partials: bool = _option(True, _flag)
    words: bool = _option(True, _flag)
    partial_words: bool = _option(False, _flag)
    speech: bool = _option(True, _flag)
    turns: bool = _option(False, _flag)
    step_ms: int = _option(STEP_MS, _one_of(*STEPS_MS))
    search: str = _option(SEARCH, _one_of(*SEARCHES))
    language: str = _option(LANGUAGE, _language)
    alternatives: int = _option(ALTERNATIVES, _within(0, MOST_ALTERNATIVES))
    written: bool = _option(False, _flag)
    dictation: bool = _option(False, _flag)
    stability: str = _option(STABILITY, _one_of(*STABILITIES))
    settle_ms: int = _option(SETTLE_MS, _within(*SETTLE_BOUNDS_MS, also=(0,)))
    second_pass: bool = _option(False, _flag)
    endpoint: Endpoint = field(default=_USUAL, metadata={"rule": _endpoint})
    hotwords: tuple[Hotword, ...] = _option((), _hotwords)
    live: bool = _option(False, _flag)
    model: str = _option(DEFAULT_MODEL, _text)
    context: tuple[TextContext | None, ...] = _option((), contexts)
    resume: Resume | None = field(default=None, metadata={"rule": _resume})

    def __post_init__(self) -> None:
        if self.second_pass and wants_stable_words(vars(self)):
            what = "'second_pass' excludes 'settle_ms' and 'stability' high, because it may change any word."
            raise bad("bad_option", what)

    @property
    def frame_bytes(self) -> int:
        """The number of bytes of one sample of every channel together."""
        return SAMPLE_BYTES[self.encoding] * self.channels

    @property
    def bytes_per_s(self) -> int:
        """The number of bytes of one second of the client's audio."""
        return self.frame_bytes * self.sample_rate

    def model_options(self) -> dict[str, Any]:
        """Return the options that the recogniser acts on, as values for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in _SERVICE_ONLY}


# Options that only the service acts on: the recogniser always gets one channel at 16 kHz, whatever the client sends.
# The recogniser gets the context of its channel in another way, together with the other fields of a cut.
_SERVICE_ONLY = ("encoding", "sample_rate", "channels", "multichannel", "live", "model", "context", "resume")
