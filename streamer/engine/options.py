"""What a stream may ask of the recogniser, checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


class BadOptions(ValueError):
    """An option that does not exist or a value that it cannot take."""


@dataclass(frozen=True)
class StreamOptions:
    """The options of one stream, given when it is opened."""

    step_ms: int = 320
    partials: bool = True
    words: bool = True
    speech: bool = True
    search: str = "lexicon"

    @classmethod
    def from_dict(cls, given: dict[str, Any], step_ms: Sequence[int], searches: Sequence[str]) -> StreamOptions:
        """Options from a JSON object; `step_ms` are the steps that the model knows, `searches` those that are there."""
        known = {field.name: type(field.default) for field in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise BadOptions(f"unknown option {name!r}; known are {', '.join(known)}")
            if type(value) is not known[name]:
                raise BadOptions(f"option {name!r} must be a JSON {_JSON_NAMES[known[name]]}, not {json.dumps(value)}")
        options = cls(**given)
        if options.step_ms not in step_ms:
            allowed = ", ".join(map(str, step_ms))
            raise BadOptions(f"step_ms must be one of {allowed}, not {options.step_ms}")
        if options.search not in searches:
            raise BadOptions(f"search must be one of {', '.join(searches)}, not {options.search}")
        return options


_JSON_NAMES: dict[type, str] = {int: "integer", bool: "true or false", str: "string"}
