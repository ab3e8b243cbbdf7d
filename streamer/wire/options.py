"""The options of a session as clients send them, and the error for a value that is not allowed.

`streamer/base/options.py` declares them; here are the sentences, and what objects and lists have besides their fields.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import (
    GROWING,
    HOTWORD_WEIGHT,
    LONGEST_CONTEXT_PAUSE_MS,
    LONGEST_CONTEXT_WORD,
    LONGEST_SPEAKER_NAME,
    MOST_CHANNELS,
    MOST_CONTEXT_WORDS,
    MOST_HOTWORDS,
    MOST_SPEAKERS,
    OFF,
    READER,
    VOICE_BOUNDS_S,
)
from streamer.base.option_kinds import Group, Option
from streamer.base.options import (
    ENDPOINT_OPTIONS,
    HOTWORD_OPTIONS,
    OPTIONS,
    RECOGNISER_OPTIONS,
    RESUME_OPTIONS,
    SAMPLE_BYTES,
    Endpoint,
    Hotword,
    RecogniserOptions,
    Resume,
    ServiceOptions,
    contradiction,
    wants_stable_words,
)
from streamer.base.text_context import ContextWord, TextContext
from streamer.wire.errors import CloseCode, WireError, bad, kind_name, kind_of, quote

# The words before a cut, which decide the marks and capitals after it. A client sends them to a new session. Pure.


_SPEECH_STATES: Final = ("speaking", "told")
_VOICE_RATE: Final = 16_000  # of the recordings of voices


def contexts(name: str, value: Any) -> tuple[TextContext | None, ...]:
    """Read the option with this name: for each channel the context of a final or null. Raise WireError if not valid."""
    if type(value) is not list or len(value) > MOST_CHANNELS:
        raise bad(
            ErrorCode.BAD_OPTION, f"'{name}' must be a list of at most {MOST_CHANNELS} entries, one for each channel."
        )
    return tuple(None if entry is None else _context(name, entry) for entry in value)


def _context(name: str, entry: Any) -> TextContext:
    fields = entry if type(entry) is dict else {}
    begins, words = fields.get("begins"), fields.get("words")
    states = [fields.get(state) for state in _SPEECH_STATES]
    known = fields.keys() <= {"begins", "words", *_SPEECH_STATES}
    states_valid = all(state is None or type(state) is bool for state in states)
    if not known or not states_valid or type(begins) is not bool or type(words) is not list:
        raise bad(ErrorCode.BAD_OPTION, f"An entry of '{name}' must be null, or the 'context' of a final.")
    if len(words) > MOST_CONTEXT_WORDS:
        raise bad(
            ErrorCode.BAD_OPTION,
            f"An entry of '{name}' must have at most {MOST_CONTEXT_WORDS} words, not {len(words)}.",
        )
    return TextContext(begins, tuple(_word(name, word) for word in words), *states)


def _word(name: str, entry: Any) -> ContextWord:
    fields: dict[str, Any] = entry if type(entry) is dict else {}
    word, pause_ms = fields.get("word", ""), fields.get("pause_ms")
    complete = fields.keys() == {"word", "pause_ms"} and type(word) is str
    if not complete or not word.isprintable() or not 0 < len(word) <= LONGEST_CONTEXT_WORD:
        raise bad(
            ErrorCode.BAD_OPTION, f"A 'word' of '{name}' must have 1 to {LONGEST_CONTEXT_WORD} printable characters."
        )
    if type(pause_ms) is not int or not 0 <= pause_ms <= LONGEST_CONTEXT_PAUSE_MS:
        raise bad(
            ErrorCode.BAD_OPTION, f"'pause_ms' of '{name}' must be a whole number from 0 to {LONGEST_CONTEXT_PAUSE_MS}."
        )
    return ContextWord(word, pause_ms)


Rule = Callable[[str, Any], Any]
"""A function that checks the client's value of the option with this name. It returns the value, or raises WireError."""


def read(kind: type[Any], owner: str, values: Mapping[str, object]) -> dict[str, Any]:
    """Check the options of a message, or of an object in one, each by its rule. `owner`: the name of it in errors."""
    rules = _RULES.get(kind, {})
    for name in values:
        if name not in rules:
            options = f"it takes {', '.join(rules)}" if rules else "it takes none"
            raise bad(ErrorCode.UNKNOWN_OPTION, f"'{owner}' has no option {quote(name)}; {options}.")
    within = "" if kind is Start else f"' of '{owner}"
    return {name: rules[name](name + within, value) for name, value in values.items()}


def _rule(option: Option) -> Rule:
    """Return the rule of an option from its declaration, or the one that only its name has."""
    if option.name in _STRUCTURES:
        return _STRUCTURES[option.name]
    kind, expected, accepts = option.kind, option.kind.type, option.kind.accepts
    audio = option.group is Group.AUDIO

    def rule(name: str, value: Any) -> Any:
        if not accepts(value if expected is None else _check_type(name, value, expected)):
            raise _refusal(name, kind.right, value, audio=audio)
        return value

    return rule


def _check_type(name: str, value: Any, expected: type) -> Any:
    # type(), not isinstance(): a boolean must not pass as a number, nor 1 as a boolean.
    # JSON has one kind of number, so 1 is as good as 1.0.
    if type(value) is not expected and not (expected is float and type(value) is int):
        right = "a number" if expected is float else kind_name(expected)
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be {right}, not {kind_of(value)}.")
    return value


def _refusal(name: str, right: str, value: Any, *, audio: bool = False) -> WireError:
    if audio:
        what = f"'{name}' {quote(value)} is not supported; send {right}."
        return WireError(ErrorCode.UNSUPPORTED_AUDIO, CloseCode.BAD_AUDIO, what)
    return bad(ErrorCode.BAD_OPTION, f"'{name}' must be {right}, not {quote(value)}.")


def _endpoint(name: str, value: Any) -> Endpoint:
    if value == OFF:
        return Endpoint(silence=False)
    if type(value) is not dict:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be \"{OFF}\" or an object, not {quote(value)}.")
    endpoint = Endpoint(**read(Endpoint, name, value))
    if endpoint.turn and not endpoint.silence:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' cannot have 'turn' without 'silence': a turn ends in a silence.")
    if endpoint.turn and "after_text_ms" in value:
        what = f"'{name}' cannot have 'after_text_ms' with 'turn', which decides the pause; send 'longest_pause_ms'."
        raise bad(ErrorCode.BAD_OPTION, what)
    if not endpoint.turn and value.keys() & {"eagerness", "longest_pause_ms"}:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' takes 'eagerness' and 'longest_pause_ms' only with 'turn':true.")
    return endpoint


def _hotwords(name: str, value: Any) -> tuple[Hotword, ...]:
    entries = _check_type(name, value, list)
    if len(entries) > MOST_HOTWORDS:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must have at most {MOST_HOTWORDS} phrases, not {len(entries)}.")
    return tuple(hotword(entry) for entry in entries)


def _resume(name: str, value: Any) -> Resume:
    options = _check_type(name, value, dict)
    if "token" not in options or "after" not in options:
        needs = "the 'token' of the session, and 'after': the 'n' of the last message that you received"
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' needs {needs}.")
    return Resume(**read(Resume, name, options))


def _speaker_names(name: str, value: Any) -> tuple[str, ...]:
    entries = _check_type(name, value, list)
    right = f"a list of at most {MOST_SPEAKERS} names, each of at most {LONGEST_SPEAKER_NAME} printable characters"
    fits = len(entries) <= MOST_SPEAKERS and all(type(each) is str for each in entries)
    if not fits or any(len(each) > LONGEST_SPEAKER_NAME or not each.isprintable() for each in entries):
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be {right}.")
    return tuple(entries)


@dataclass(frozen=True)
class EnrolledVoice:
    """A voice that the client knows: 16-bit samples at 16 kHz of it, and the name."""

    name: str
    pcm: bytes = field(repr=False)


def _voices(name: str, value: Any) -> tuple[EnrolledVoice, ...]:
    entries = _check_type(name, value, list)
    names = _speaker_names(name, [each.get("name") if type(each) is dict else None for each in entries])
    return tuple(EnrolledVoice(each, _recording(name, entry)) for each, entry in zip(names, entries, strict=True))


def _recording(name: str, entry: Mapping[str, Any]) -> bytes:
    shortest, longest = (2 * _VOICE_RATE * seconds for seconds in VOICE_BOUNDS_S)
    try:
        pcm = base64.b64decode(entry.get("audio", ""), validate=True)
    except (TypeError, ValueError):
        pcm = b""
    if entry.keys() != {"name", "audio"} or len(pcm) % 2 or not shortest <= len(pcm) <= longest:
        right = "{} to {} s of 16-bit samples at 16 kHz, as base64".format(*VOICE_BOUNDS_S)
        raise bad(ErrorCode.BAD_OPTION, f"Each of '{name}' must have only a 'name' and an 'audio': {right}.")
    return pcm


def hotword(entry: Any) -> Hotword:
    """Read a hotword: its text, or an object with its text and weight. Raise WireError if it is not valid."""
    if type(entry) not in (str, dict):
        raise bad(ErrorCode.BAD_OPTION, f"A hotword must be a string or an object, not {kind_of(entry)}.")
    values = {"text": entry} if type(entry) is str else entry
    if "text" not in values:
        raise bad(ErrorCode.BAD_OPTION, "A hotword needs a 'text'.")
    found = read(Hotword, "hotwords", values)
    return Hotword(found["text"], float(found.get("weight", HOTWORD_WEIGHT)))


def hints(entries: Iterable[Any]) -> list[Any]:
    """Return the valid ones of these hotwords, each once, and no more than a session may have.

    For clients of other services: what they listen for is only a hint, and no reason to refuse them.
    """
    valid: dict[str, Any] = {}
    for entry in entries:
        try:
            valid.setdefault(hotword(entry).text, entry)
        except WireError:
            continue
    return list(valid.values())[:MOST_HOTWORDS]


def with_second_pass(options: Mapping[str, object]) -> JsonObject:
    """Return these options with a second pass by a reader, unless they exclude it. Commands and uploads use this.

    Otherwise the service makes no second pass, because with one live words become stable only when their segment ends.
    """
    return {"second_pass": READER, **options} if not wants_stable_words(options) else dict(options)


_USUAL: Final = Endpoint()


@dataclass(frozen=True)
class Start(RecogniserOptions, ServiceOptions):
    """The first message, which starts the session. Every option has a default."""

    hotwords: tuple[Hotword, ...] = ()
    endpoint: Endpoint = _USUAL
    context: tuple[TextContext | None, ...] = ()
    voices: tuple[EnrolledVoice, ...] = ()
    resume: Resume | None = None

    def __post_init__(self) -> None:
        if what := contradiction(vars(self)):
            raise bad(ErrorCode.BAD_OPTION, f"{what}.")

    @property
    def names_of_speakers(self) -> tuple[str, ...]:
        """The names of the speakers by their numbers; empty for one without a name."""
        return self.speaker_names or tuple(voice.name for voice in self.voices)

    def without_recordings(self) -> Start:
        """Return the options with the names of voices, but without what they said."""
        return replace(self, voices=tuple(EnrolledVoice(voice.name, b"") for voice in self.voices))

    @property
    def frame_bytes(self) -> int:
        """The number of bytes of one sample of every channel together."""
        return SAMPLE_BYTES[self.encoding] * self.channels

    @property
    def bytes_per_s(self) -> int:
        """The number of bytes of one second of the client's audio."""
        return self.frame_bytes * self.sample_rate

    def model_options(self) -> JsonObject:
        """Return the options that the recogniser acts on, as values for JSON.

        Those with the default value are left out: an older model does not know all of them.
        """
        values = ((option, getattr(self, name)) for name, option in RECOGNISER_OPTIONS.items())
        options = {option.name: _as_json(value) for option, value in values if value != option.default}
        if self.second_pass == READER:
            options |= {"second_pass": True, READER: True}  # a model without a reader leaves out the latter
        if self.partials == READER:
            options |= {"partials": True, GROWING: True}  # so does an earlier one
        return options


@dataclass(frozen=True)
class SpeakerNames:
    """A message of the client: the names of the speakers from now on, by their numbers."""

    names: tuple[str, ...] = ()


def _as_json(value: Any) -> Any:
    if isinstance(value, Endpoint):
        return {name: vars(value)[name] for name, key in ENDPOINT_OPTIONS.items() if vars(value)[name] != key.default}
    return [vars(hotword) for hotword in value] if isinstance(value, tuple) else value


# The rules of the options that are no single values.
_STRUCTURES: Final[dict[str, Rule]] = {
    "endpoint": _endpoint,
    "hotwords": _hotwords,
    "speaker_names": _speaker_names,
    "voices": _voices,
    "context": contexts,
    "resume": _resume,
}
_RULES: Final[dict[type[Any], dict[str, Rule]]] = {
    Start: {name: _rule(option) for name, option in OPTIONS.items()},
    Endpoint: {name: _rule(key) for name, key in ENDPOINT_OPTIONS.items()},
    Hotword: {name: _rule(key) for name, key in HOTWORD_OPTIONS.items()},
    Resume: {name: _rule(key) for name, key in RESUME_OPTIONS.items()},
    SpeakerNames: {"names": _speaker_names},
}
