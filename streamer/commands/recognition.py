"""The arguments about recognition, and the options of a session that commands make from them.

The wire checks their values, so a value that a service would refuse is reported before anything starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from streamer.base.json_types import JsonObject
from streamer.base.limits import (
    AFTER_TEXT_MS,
    EAGERNESSES,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    MOST_HOTWORDS,
    OFF,
    ON,
)
from streamer.base.option_kinds import Argument, Choice, Flag, FlagOr, Option
from streamer.base.options import OPTIONS, Hotword
from streamer.commands.arguments import model_choice
from streamer.wire.errors import WireError
from streamer.wire.options import Start, hotword, read, with_second_pass

_ENDPOINT: Final = ("after_text_ms", "without_text_ms", "longest_ms")
_TURN: Final = "turn"
# Those with arguments here, and those of the form of the transcript.
_NAMES: Final = (*(each.name for each in OPTIONS.values() if each.argument), "written", "dictation")


def add_recognition_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the arguments that change the recognised words, or which results are shown and when."""
    for each in OPTIONS.values():
        if each.argument is None:
            continue
        if each.name in _OWN_ARGUMENTS:
            _OWN_ARGUMENTS[each.name](parser.add_argument)
        else:
            _add(parser, each, each.argument)


def _help(option: Option, argument: Argument) -> str:
    usual = option.default if not isinstance(option.kind, (Flag, FlagOr)) else ON if option.default else OFF
    return argument.help or f"{option.help} ({argument.default or usual})"


def _add(parser: argparse._ActionsContainer, declared: Option, argument: Argument) -> None:
    """Add the argument of an option whose value is a single one."""
    kind, name, about = declared.kind, declared.name, _help(declared, argument)
    if isinstance(kind, Choice):
        parser.add_argument(*argument.flags, dest=name, help=about, type=type(kind.values[0]), choices=kind.values)
    elif isinstance(kind, (Flag, FlagOr)):
        words = kind.words if isinstance(kind, FlagOr) else ()
        values = "|".join((*words, ON, OFF))
        parser.add_argument(*argument.flags, dest=name, help=about, type=_switch_or(words), metavar=values)
    else:
        metavar = argument.metavar or kind.unit.upper() or None
        reader = option(name, int if kind.type is int else str)
        parser.add_argument(*argument.flags, dest=name, help=about, type=reader, metavar=metavar)


def _add_endpoint(add: Callable[..., Any]) -> None:
    add(
        "--endpoint",
        type=_endpoint,
        metavar="MS",
        help=f"how much silence ends a segment ({AFTER_TEXT_MS}). AFTER:WITHOUT:LONGEST sets the silence after text, "
        f"the silence without text, and the longest segment. With '{OFF}' segments end only at the longest length. "
        f"With '{_TURN}' the words decide whether a pause ends it; {_TURN}:EAGERNESS:MS sets how soon "
        f"({', '.join(EAGERNESSES)}), and the longest pause",
    )


def _add_hotwords(add: Callable[..., Any]) -> None:
    add(
        "--hotwords",
        action=_AddHotwords,
        type=_hotword_file,
        metavar="FILE",
        help="names and terms to listen for: a phrase on each line, optionally with a tab and a weight from 0 to "
        f"{HEAVIEST_HOTWORD:g} ({HOTWORD_WEIGHT:g})",
    )
    add(
        "--hotword",
        dest="hotwords",
        action=_AddHotwords,
        type=_hotword,
        metavar="TEXT",
        help="one such name or term; may be given several times",
    )


def _add_speakers(add: Callable[..., Any]) -> None:
    add(
        "--speakers",
        nargs="?",
        const=True,
        type=_speakers,
        metavar="N",
        help="tell the speakers apart; N says how many there are, if you know (off)",
    )


def _speakers(text: str) -> Any:
    if not text.lstrip("-").isdigit():  # probably the recording, which the option has taken for its number
        raise argparse.ArgumentTypeError(f"takes a number, which '{text}' is not: put --speakers behind the recordings")
    return option("speakers", int)(text)


# Options that have a short form of their own on the command line.
_OWN_ARGUMENTS: Final[dict[str, Callable[[Callable[..., Any]], None]]] = {
    "endpoint": _add_endpoint,
    "hotwords": _add_hotwords,
    "speakers": _add_speakers,
}


def add_form_arguments(parser: argparse._ArgumentGroup) -> None:
    """Add the arguments for the form of the transcript. The default is the written form."""
    add = parser.add_mutually_exclusive_group().add_argument
    parser.set_defaults(written=True)
    add(
        "--spoken",
        dest="written",
        action="store_const",
        const=False,
        help="the words as they were spoken, without marks, capitals and digits",
    )
    add(
        "--written",
        dest="written",
        action="store_const",
        const=True,
        help="with marks, capitals and digits (the default)",
    )


def session_options(options: argparse.Namespace) -> JsonObject:
    """Return the options of the session that the user gave. The service decides about the others."""
    values = ((name, getattr(options, name, None)) for name in _NAMES)
    model = model_choice(options).name
    model_option = {"model": model} if model else {}
    return {name: value for name, value in values if value is not None} | model_option


def options_with_second_pass(options: argparse.Namespace) -> JsonObject:
    """Return the options with a second pass: a command has one user, who can afford it for better words."""
    return with_second_pass(session_options(options))


def option(name: str, kind: type[int] | type[str] = str) -> Callable[[str], Any]:
    """Return a function that reads one option of the session, within its bounds on the wire."""

    def read_one(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, not '{text}'") from None
        return _check(lambda: read(Start, "start", {name: value})[name])

    return read_one


def _check(check: Callable[[], Any]) -> Any:
    try:
        return check()
    except WireError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _switch_or(words: Sequence[str]) -> Callable[[str], bool | str]:
    """Return a function that reads `on`, `off`, or one of these words."""
    *others, last = (*words, ON, OFF)

    def switch(text: str) -> bool | str:
        if text not in (*others, last):
            raise argparse.ArgumentTypeError(f"must be {', '.join(others)} or {last}, not '{text}'")
        return text if text in words else text == ON

    return switch


def _endpoint(text: str) -> str | JsonObject:
    if text == OFF:
        return OFF
    parts = text.split(":")
    if parts[0] == _TURN:
        return _turn_endpoint(text, parts[1:])
    if len(parts) > len(_ENDPOINT) or not all(part.isdecimal() for part in parts):
        forms = f"'{OFF}', '{_TURN}', or milliseconds such as 800 or 800:2000:15000"
        raise argparse.ArgumentTypeError(f"must be {forms}, not '{text}'")
    endpoint: JsonObject = dict(zip(_ENDPOINT, map(int, parts), strict=False))
    _check(lambda: read(Start, "start", {"endpoint": endpoint}))
    return endpoint


def _turn_endpoint(text: str, parts: list[str]) -> JsonObject:
    if len(parts) > 2 or (len(parts) == 2 and not parts[1].isdecimal()):
        raise argparse.ArgumentTypeError(f"must be '{_TURN}', '{_TURN}:high' or '{_TURN}:high:1500', not '{text}'")
    endpoint: JsonObject = {"turn": True}
    if parts:
        endpoint["eagerness"] = parts[0]
    if len(parts) == 2:
        endpoint["longest_pause_ms"] = int(parts[1])
    _check(lambda: read(Start, "start", {"endpoint": endpoint}))
    return endpoint


def _hotword(text: str) -> list[Hotword]:
    return [_check(lambda: hotword(text))]


def _hotword_file(name: str) -> list[Hotword]:
    try:
        lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise argparse.ArgumentTypeError(f"{name} cannot be read: {reason}.") from None
    return [_of_line(f"{name}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _of_line(location: str, line: str) -> Hotword:
    text, tab, weight = line.partition("\t")
    try:
        return hotword({"text": text.strip(), "weight": float(weight)} if tab else text.strip())
    except (ValueError, WireError) as error:
        reason = error.message if isinstance(error, WireError) else f"the weight must be a number, not '{weight}'."
        raise argparse.ArgumentTypeError(f"{location}: {reason}") from None


class _AddHotwords(argparse.Action):
    """Collects the hotwords of both arguments, up to the number that a session accepts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add the hotwords of one argument."""
        gathered = [*(getattr(namespace, self.dest) or ()), *map(asdict, values)]
        if len(gathered) > MOST_HOTWORDS:
            raise argparse.ArgumentError(self, f"a session takes at most {MOST_HOTWORDS} hotwords, not {len(gathered)}")
        setattr(namespace, self.dest, gathered)
