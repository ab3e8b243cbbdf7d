"""The options of a stream of the recogniser, and their checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from streamer.base.limits import (
    BEAM,
    GROWING,
    HOTWORD_WEIGHT,
    LONGEST_CONTEXT_PAUSE_MS,
    LONGEST_CONTEXT_WORD,
    MOST_CONTEXT_WORDS,
    MOST_HOTWORD_WORDS,
    MOST_HOTWORDS,
    OFF,
    READER,
    SEARCH,
    STEPS_MS,
)
from streamer.base.option_kinds import Option
from streamer.base.options import (
    ENDPOINT_OPTIONS,
    HOTWORD_OPTIONS,
    RECOGNISER_OPTIONS,
    STREAM_START,
    RecogniserOptions,
    StreamStart,
    contradiction,
)
from streamer.engine.endpointing import EndpointRule
from streamer.engine.search.search import Hotword
from streamer.engine.text.hotword_spelling import VARIANTS, has_figures, spoken_forms
from streamer.engine.text.marks import HeardWord

OPTIONS = {**RECOGNISER_OPTIONS, **STREAM_START}
# The model decides which of these it has.
_MODEL_CHOICES = ("step_ms", "search")


class BadOptions(ValueError):
    """An unknown option, or an impossible value."""


@dataclass(frozen=True)
class StreamOptions(StreamStart, RecogniserOptions):
    """The options of one stream, from the time when it is opened. `streamer/base/options.py` declares them."""

    endpoint: EndpointRule = field(default_factory=EndpointRule)
    hotwords: tuple[Hotword, ...] = ()
    context: tuple[HeardWord, ...] = ()  # the last words before the start

    @classmethod
    def from_dict(cls, content: Mapping[str, object], step_ms: Sequence[int], searches: Sequence[str]) -> StreamOptions:
        """Read options from a JSON object. `step_ms` and `searches` are the choices that this model has.

        A model with a single step uses it, whatever the client wants, and one with unusual steps the nearest of them.
        Clients without a preference request the search of the shipped model. A model without it uses its own first
        search, or its beam for a stream with hotwords.
        """
        values: dict[str, Any] = {}
        for name, value in content.items():
            if name not in OPTIONS:
                raise BadOptions(f"unknown option {name!r}; known are {', '.join(OPTIONS)}")
            read = _READERS.get(name)
            values[name] = read(value) if read else _valid(f"option {name!r}", name, value, OPTIONS[name])
        if values.get("second_pass") == READER:
            values |= {"second_pass": True, READER: True}
        if values.get("partials") == READER:
            values |= {"partials": True, GROWING: True}
        options = cls(**values)
        options = replace(options, step_ms=step_for(options.step_ms, step_ms))
        if options.search == SEARCH and SEARCH not in searches:
            options = replace(options, search=BEAM if options.hotwords and BEAM in searches else searches[0])
        _one_of("step_ms", options.step_ms, step_ms)
        _one_of("search", options.search, searches)
        if what := contradiction(vars(options)):
            raise BadOptions(what)
        return options


def step_for(wanted_ms: int, step_ms: Sequence[int]) -> int:
    """Return the step that a model with these steps takes for a usual one: its only one, or the nearest if all differ.

    The frames of some models do not fill a usual step. Otherwise return the wanted one.
    """
    if len(step_ms) == 1:
        return step_ms[0]
    if wanted_ms in STEPS_MS and not set(step_ms) & set(STEPS_MS):
        return min(step_ms, key=lambda own: abs(own - wanted_ms))
    return wanted_ms


def _endpoint(content: object) -> EndpointRule:
    rule = EndpointRule()
    if content == OFF:
        return replace(rule, silence=False)
    if not isinstance(content, dict):
        raise BadOptions(f"option 'endpoint' must be \"{OFF}\" or a JSON object, not {json.dumps(content)}")
    for name, value in content.items():
        if name not in ENDPOINT_OPTIONS:
            raise BadOptions(f"the endpoint has no option {name!r}; known are {', '.join(ENDPOINT_OPTIONS)}")
        _valid(f"{name!r} of the endpoint", f"{name} of the endpoint", value, ENDPOINT_OPTIONS[name])
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
    if not isinstance(content, dict) or not content.keys() <= HOTWORD_OPTIONS.keys() or "text" not in content:
        raise BadOptions(f'a hotword must be a string or {{"text":…,"weight":…}}, not {json.dumps(entry)}')
    for name, value in content.items():
        what = f"the {name} of a hotword"
        _valid(what, what, value, HOTWORD_OPTIONS[name])
    return Hotword(content["text"], float(content.get("weight", HOTWORD_WEIGHT)))


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
    if not 0 <= pause_ms <= LONGEST_CONTEXT_PAUSE_MS:
        raise BadOptions(f"pause_ms of the context must be from 0 to {LONGEST_CONTEXT_PAUSE_MS}, not {pause_ms}")
    return HeardWord(word, pause_ms)


_READERS: dict[str, Callable[[Any], Any]] = {
    "endpoint": _endpoint,
    "hotwords": _hotwords,
    "context": _context,
}
_JSON_NAMES: dict[type, str] = {int: "integer", float: "number", bool: "true or false", str: "string"}


def _typed(what: str, value: Any, type_: type) -> Any:
    # type() instead of isinstance(), because a boolean must not count as a number.
    if type(value) is not type_ and not (type_ is float and type(value) is int):
        raise BadOptions(f"{what} must be a JSON {_JSON_NAMES[type_]}, not {json.dumps(value)}")
    return value


def _valid(what: str, short: str, value: Any, option: Option) -> Any:
    """Return a value that its declaration allows. `what` and `short` name the option in errors."""
    kind = option.kind
    typed = value if kind.type is None else _typed(what, value, kind.type)
    if option.name not in _MODEL_CHOICES and not kind.accepts(typed):
        raise BadOptions(f"{short} must be {kind.right}, not {value!s:.80}")
    return typed


def _one_of(what: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        choices = "one of " * (len(allowed) > 1) + ", ".join(map(str, allowed))
        raise BadOptions(f"{what} must be {choices}, not {value}" + "; this model has no other" * (len(allowed) == 1))
