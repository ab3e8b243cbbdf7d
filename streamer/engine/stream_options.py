"""The options of a stream of the recogniser, and their checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from streamer.base.limits import (
    AFTER_TEXT_BOUNDS_MS,
    ALTERNATIVES,
    BEAM,
    EAGERNESSES,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    LANGUAGE,
    LONGEST_CONTEXT_PAUSE_MS,
    LONGEST_CONTEXT_WORD,
    LONGEST_HOTWORD,
    LONGEST_LANGUAGE,
    LONGEST_PAUSE_BOUNDS_MS,
    LONGEST_SEGMENT_BOUNDS_MS,
    MOST_ALTERNATIVES,
    MOST_CONTEXT_WORDS,
    MOST_HOTWORD_WORDS,
    MOST_HOTWORDS,
    OFF,
    SEARCH,
    SETTLE_BOUNDS_MS,
    SETTLE_MS,
    STABILITIES,
    STABILITY,
    STEP_MS,
    WITHOUT_TEXT_BOUNDS_MS,
)
from streamer.engine.endpointing import EndpointRule
from streamer.engine.search.search import Hotword
from streamer.engine.text.hotword_spelling import VARIANTS, has_figures, spoken_forms
from streamer.engine.text.marks import HeardWord

LONGEST_CALLER = 64  # characters
_ENDPOINT_BOUNDS = {
    "after_text_ms": AFTER_TEXT_BOUNDS_MS,
    "without_text_ms": WITHOUT_TEXT_BOUNDS_MS,
    "longest_ms": LONGEST_SEGMENT_BOUNDS_MS,
    "longest_pause_ms": LONGEST_PAUSE_BOUNDS_MS,
}
_ENDPOINT_FLAGS = ("silence", "turn")


class BadOptions(ValueError):
    """An unknown option, or an impossible value."""


@dataclass(frozen=True)
class StreamOptions:
    """The options of one stream, from the time when it is opened."""

    step_ms: int = STEP_MS
    partials: bool = True
    words: bool = True  # on finals
    partial_words: bool = False
    speech: bool = True
    turns: bool = False  # whether the stream has events about the ends of turns; needs `turn` of the endpoint
    search: str = SEARCH
    language: str = LANGUAGE
    alternatives: int = ALTERNATIVES
    written: bool = False
    dictation: bool = False  # with `written`: spoken marks such as "comma" are written as marks
    stability: str = STABILITY
    settle_ms: int = SETTLE_MS
    second_pass: bool = False  # each segment is read again as a whole after its end; no word is stable before that
    endpoint: EndpointRule = field(default_factory=EndpointRule)
    hotwords: tuple[Hotword, ...] = ()
    # The next four fields come from the event `cut` of the stream that this one replaces.
    speaking: bool = False  # somebody is speaking at the start
    told: bool | None = None  # the state in the last event of speech; None if it is the same as `speaking`
    begins: bool = True  # the first word begins a sentence
    context: tuple[HeardWord, ...] = ()  # the last words before the start
    caller: str = ""  # a pseudonym of the owner of this stream: callers share the time for preparation

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], step_ms: Sequence[int], searches: Sequence[str]) -> StreamOptions:
        """Read options from a JSON object. `step_ms` and `searches` are the choices that this model has.

        A model with a single step uses it, whatever the client wants. Clients without a preference request the search
        of the shipped model. A model without it uses its own first search, or its beam for a stream with hotwords.
        """
        defaults = {option.name: option.default for option in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in content.items():
            if name not in defaults:
                raise BadOptions(f"unknown option {name!r}; known are {', '.join(defaults)}")
            if name in _READERS:
                values[name] = _READERS[name](value)
            else:
                values[name] = _typed(f"option {name!r}", value, type(defaults[name]))
        options = cls(**values)
        if len(step_ms) == 1:
            options = replace(options, step_ms=step_ms[0])
        if options.search == SEARCH and SEARCH not in searches:
            options = replace(options, search=BEAM if options.hotwords and BEAM in searches else searches[0])
        _one_of("step_ms", options.step_ms, step_ms)
        _one_of("search", options.search, searches)
        _one_of("stability", options.stability, STABILITIES)
        _at_most("caller", options.caller, LONGEST_CALLER)
        _at_most("language", options.language, LONGEST_LANGUAGE)
        _within("alternatives", options.alternatives, (0, MOST_ALTERNATIVES))
        if options.settle_ms:
            _within("settle_ms", options.settle_ms, SETTLE_BOUNDS_MS, "0 or ")
        if options.second_pass and (options.settle_ms or options.stability == "high"):
            raise BadOptions("'second_pass' goes with neither 'settle_ms' nor stability high: no word is stable sooner")
        return options


def _endpoint(content: object) -> EndpointRule:
    rule = EndpointRule()
    if content == OFF:
        return replace(rule, silence=False)
    if not isinstance(content, dict):
        raise BadOptions(f"option 'endpoint' must be \"{OFF}\" or a JSON object, not {json.dumps(content)}")
    for name, value in content.items():
        if name in _ENDPOINT_FLAGS:
            _typed(f"{name!r} of the endpoint", value, bool)
        elif name == "eagerness":
            _one_of("eagerness of the endpoint", _typed("'eagerness' of the endpoint", value, str), EAGERNESSES)
        elif name in _ENDPOINT_BOUNDS:
            _within(f"{name} of the endpoint", _typed(f"{name!r} of the endpoint", value, int), _ENDPOINT_BOUNDS[name])
        else:
            names = ", ".join([*_ENDPOINT_FLAGS, "eagerness", *_ENDPOINT_BOUNDS])
            raise BadOptions(f"the endpoint has no option {name!r}; known are {names}")
    return replace(rule, **content)


def _hotwords(value: object) -> tuple[Hotword, ...]:
    if not isinstance(value, list):
        raise BadOptions(f"option 'hotwords' must be a JSON list, not {json.dumps(value)}")
    if len(value) > MOST_HOTWORDS:
        raise BadOptions(f"there can be at most {MOST_HOTWORDS} hotwords, not {len(value)}")
    # A hotword may have several spoken forms. All forms together must not be more hotwords than a search takes.
    most_forms = max(1, min(VARIANTS, MOST_HOTWORDS // max(1, len(value))))
    return tuple(form for entry in value for form in _spoken(_hotword(entry), most_forms))


def _spoken(hotword: Hotword, most: int) -> list[Hotword]:
    """Return the hotword in its spoken forms. It has several if it has figures."""
    if not has_figures(hotword.text):
        return [hotword]
    forms = [form for form in spoken_forms(hotword.text, most) if len(form.split()) <= MOST_HOTWORD_WORDS]
    if not forms:
        raise BadOptions(f"hotword {hotword.text!r} has more than {MOST_HOTWORD_WORDS} words when it is said")
    return [replace(hotword, text=form, written=hotword.text.strip()) for form in forms]


def _hotword(entry: object) -> Hotword:
    content = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(content, dict) or not content.keys() <= {"text", "weight"} or "text" not in content:
        raise BadOptions(f'a hotword must be a string or {{"text":…,"weight":…}}, not {json.dumps(entry)}')
    text, weight = _typed("the text of a hotword", content["text"], str), content.get("weight", HOTWORD_WEIGHT)
    if not text.strip() or len(text) > LONGEST_HOTWORD or len(text.split()) > MOST_HOTWORD_WORDS:
        limits = f"1 to {MOST_HOTWORD_WORDS} words and at most {LONGEST_HOTWORD} characters"
        raise BadOptions(f"a hotword must have {limits}: {text!r:.80}")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= HEAVIEST_HOTWORD:
        raise BadOptions(f"the weight of a hotword must be a number from 0 to {HEAVIEST_HOTWORD:g}: {text!r}")
    return Hotword(text, float(weight))


def _context(value: object) -> tuple[HeardWord, ...]:
    if not isinstance(value, list):
        raise BadOptions(f"option 'context' must be a JSON list, not {json.dumps(value)}")
    if len(value) > MOST_CONTEXT_WORDS:
        raise BadOptions(f"the context can have at most {MOST_CONTEXT_WORDS} words, not {len(value)}")
    return tuple(map(_context_word, value))


def _context_word(entry: object) -> HeardWord:
    if not isinstance(entry, dict) or entry.keys() != {"word", "pause_ms"}:
        raise BadOptions(f'a word of the context must be {{"word":…,"pause_ms":…}}, not {json.dumps(entry)}')
    word = _typed("a word of the context", entry["word"], str)
    pause_ms = _typed("'pause_ms' of the context", entry["pause_ms"], int)
    if not 0 < len(word) <= LONGEST_CONTEXT_WORD:
        raise BadOptions(f"a word of the context must have 1 to {LONGEST_CONTEXT_WORD} characters: {word!r:.80}")
    _within("pause_ms of the context", pause_ms, (0, LONGEST_CONTEXT_PAUSE_MS))
    return HeardWord(word, pause_ms)


def _told(value: object) -> bool:
    return bool(_typed("option 'told'", value, bool))


_READERS: dict[str, Callable[[Any], Any]] = {
    "endpoint": _endpoint,
    "hotwords": _hotwords,
    "context": _context,
    "told": _told,
}
_JSON_NAMES: dict[type, str] = {int: "integer", bool: "true or false", str: "string"}


def _typed(what: str, value: Any, type_: type) -> Any:
    # type() instead of isinstance(), because a boolean must not count as a number.
    if type(value) is not type_:
        raise BadOptions(f"{what} must be a JSON {_JSON_NAMES[type_]}, not {json.dumps(value)}")
    return value


def _one_of(what: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        choices = "one of " * (len(allowed) > 1) + ", ".join(map(str, allowed))
        raise BadOptions(f"{what} must be {choices}, not {value}" + "; this model has no other" * (len(allowed) == 1))


def _at_most(name: str, value: str, characters: int) -> None:
    if len(value) > characters:
        raise BadOptions(f"option {name!r} has {len(value)} characters; at most {characters} are allowed")


def _within(what: str, value: int, limits: tuple[int, int], otherwise: str = "") -> None:
    if not limits[0] <= value <= limits[1]:
        raise BadOptions(f"{what} must be {otherwise}from {limits[0]} to {limits[1]}, not {value}")
