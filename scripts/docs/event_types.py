"""Writes the types of a client's events from `streamer/base/events.py`: for Python and, as JSDoc, for JavaScript.

With --check, it only checks whether the files are up to date.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from streamer.base import events
from streamer.base.codes import ErrorCode
from streamer.base.events import Passage, marks_of, plain_type

STREAMER: Final = Path(__file__).resolve().parents[2] / "streamer"
KINDS: Final[Sequence[type[Any]]] = [
    *(kind for kind in get_args(events.ServerMessage) if kind is not events.Starting),
    events.Restarted,
]
# Where a client has another name. `Heard` is the event of a model.
NAMES: Final[Mapping[type[Any], str]] = {events.Acknowledgement: "Heard"}
PYTHON_ERROR: Final = "An error after which the session goes on. An error that ends it is a SessionError."
PLAIN: Final[Mapping[str, str]] = {"int": "number", "float": "number", "str": "string", "bool": "boolean"}
LONGEST_LINE: Final = 120
COMMAND: Final = "python scripts/docs/event_types.py"

PYTHON: Final = f'''"""The events of a session as types. `event["type"]` says which type one has, to a type checker too.

docs/reference/protocol.md explains them all except `restarted`, which comes from the client itself. A newer service may
send other events; the client passes them on.

`{COMMAND}` makes this file from `streamer/base/events.py`. Do not change it by hand.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict
'''
JAVASCRIPT: Final = f"""/**
 * The types of the messages of a session, for a type checker. No page loads this file.
 * `{COMMAND}` makes it from `streamer/base/events.py`. Do not change it by hand.
 */
"""


@dataclass(frozen=True)
class Entry:
    """A field of a type: its type in Python and in JavaScript, whether it may be missing, and its comment."""

    name: str
    python: str
    javascript: str
    optional: bool
    comment: str


@dataclass(frozen=True)
class Type:
    """A type of an event, or of a part of one. `base`: another type that has further fields of it."""

    name: str
    about: str
    entries: tuple[Entry, ...]
    base: Type | None = None


def main() -> int:
    """Write or check the files. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if a file is outdated"
    )
    options = parser.parse_args()
    status = 0
    for path, text in {"client/events.py": python(), "web/events.js": javascript()}.items():
        file = STREAMER / path
        if not options.check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            print(f"streamer/{path} is out of date: run {COMMAND} to write it again.")
            status = 1
    return status


def python() -> str:
    """Return the types for Python."""
    types = [text for each in _types(KINDS, {"Error": PYTHON_ERROR}) for text in _typed_dicts(each)]
    names = [_name(kind) for kind in KINDS]
    union = f"Event = {' | '.join(names)}\n"
    if len(union) > LONGEST_LINE:
        union = "Event = (\n    " + "\n    | ".join(names) + "\n)\n"
    return "\n\n".join([PYTHON, *types, union])


def javascript() -> str:
    """Return the types for JavaScript."""
    kinds = [kind for kind in KINDS if kind is not events.Restarted]  # this client has its own one
    types = [_typedef(each) for each in _types(kinds, {"Error": "An error. If it is `fatal`, the session ends."})]
    union = f"/** @typedef {{{' | '.join(_name(kind) for kind in kinds)}}} Event */\n"
    return "\n".join([JAVASCRIPT, *types, union, "export {};\n"])


def _types(kinds: Sequence[type[Any]], about: Mapping[str, str]) -> Iterator[Type]:
    """Yield the types of parts, and of these events. `about`: what is said about some of them in another way."""
    final_only = {name for name, hint in _hints(events.Word).items() if Passage.IN_FINALS in marks_of(hint)}
    word = _entries(events.Word)
    partial = Type("PartialWord", "A word that may still change.", tuple(e for e in word if e.name not in final_only))
    yield partial
    yield Type("Word", "A word of a final.", tuple(each for each in word if each.name in final_only), partial)
    for part in (events.Alternative, events.SpeakerTurn):
        yield Type(part.__name__, _about(part), tuple(_entries(part)))
    for kind in kinds:
        name, literal = _name(kind), f'"{kind.type}"'
        first = [Entry("type", f"Literal[{literal}]", literal, False, ""), Entry("n", "int", "number", False, "")]
        yield Type(name, about.get(name) or _about(kind), (*first, *_entries(kind)))


def _name(kind: type[Any]) -> str:
    return NAMES.get(kind, kind.__name__)


def _about(kind: type[Any]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _entries(kind: type[Any]) -> list[Entry]:
    hints, comments, entries = _hints(kind), _comments(kind), []
    for field in fields(kind):
        marks = marks_of(hints[field.name])
        if Passage.WITHHELD in marks:
            continue
        optional = field.default is not MISSING and not {Passage.ALWAYS_ADDED, Passage.IN_FINALS} & set(marks)
        python, javascript = _type_names(plain_type(hints[field.name]), kind)
        entries.append(Entry(field.name, python, javascript, optional, comments.get(field.name, "")))
    return entries


def _comments(kind: type[Any]) -> dict[str, str]:
    """Return the comments behind the fields of a class."""
    return dict(re.findall(r"^    (\w+):[^#\n]*?  # (.*)$", inspect.getsource(kind), re.MULTILINE))


def _type_names(plain: Any, owner: type[Any]) -> tuple[str, str]:
    """Return the names of a type in Python and JavaScript."""
    if get_origin(plain) is tuple:
        python, javascript = _type_names(get_args(plain)[0], owner)
        return f"list[{python}]", f"{javascript}[]"
    if get_origin(plain) is not None:
        return "dict[str, Any]", "Record<string, any>"
    if plain in (events.Word, events.Alternative, events.SpeakerTurn):
        name = "PartialWord" if (plain, owner) == (events.Word, events.Partial) else str(plain.__name__)
        return name, name
    if plain is ErrorCode:  # a newer service may send others
        return "str", PLAIN["str"]
    if issubclass(plain, Enum):
        values = [f'"{each.value}"' for each in plain]
        return f"Literal[{', '.join(values)}]", " | ".join(values)
    return plain.__name__, PLAIN[plain.__name__]


def _typed_dicts(each: Type) -> Iterator[str]:
    """Yield the class of a type; before it, one for the fields that may be missing."""
    optional = [entry for entry in each.entries if entry.optional]
    base = each.base.name if each.base else "TypedDict"
    if optional:
        yield f"class _{each.name}Options({base}, total=False):\n{_lines(optional)}"
        base = f"_{each.name}Options"
    about = each.about if "\n" not in each.about else each.about + "\n"
    text = "\n".join(f"    {line}".rstrip() for line in f'"""{about}"""'.split("\n"))
    yield f"class {each.name}({base}):\n{text}\n\n{_lines([entry for entry in each.entries if not entry.optional])}"


def _lines(entries: Sequence[Entry]) -> str:
    lines = (f"    {entry.name}: {entry.python}" + f"  # {entry.comment}" * bool(entry.comment) for entry in entries)
    return "\n".join(lines) + "\n"


def _typedef(each: Type) -> str:
    about = [f" * {line}".rstrip() for line in each.about.split("\n")]
    lines = ["/**", *about, f" * @typedef {{object}} {each.name}"]
    for entry in (*(each.base.entries if each.base else ()), *each.entries):
        name = f"[{entry.name}]" if entry.optional else entry.name
        lines.append(f" * @property {{{entry.javascript}}} {name} {entry.comment}".rstrip())
    return "\n".join([*lines, " */\n"])


if __name__ == "__main__":
    raise SystemExit(main())
