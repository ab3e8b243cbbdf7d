"""The arguments for the transcript: its formats, where it goes, and what happens if it already exists."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from streamer.terminal.transcript_files import APPEND, OVERWRITE, REFUSE, SKIP
from streamer.transcript import FORMATS


def add_output_arguments(parser: argparse.ArgumentParser, where: str, *, skip: bool = False) -> None:
    """Add the arguments. `where`: the help for --output. `skip`: whether to add --skip-existing."""
    add = parser.add_argument
    add(
        "--format",
        choices=_FORMATS,
        default=FORMATS[0],
        help=f"format of the transcript ({FORMATS[0]}); several, such as srt,json, give a file each",
    )
    add("-o", "--output", metavar="PATH", help=where)
    existing = parser.add_mutually_exclusive_group().add_argument
    parser.set_defaults(existing=REFUSE)
    for option, value, text in (
        ("--append", APPEND, "add to the end of an existing file"),
        ("--overwrite", OVERWRITE, "replace an existing file, once the new one is complete"),
        ("--skip-existing", SKIP, "skip recordings whose transcripts already exist"),
    ):
        if skip or value != SKIP:
            existing(option, dest="existing", action="store_const", const=value, help=text)


class _Formats:
    """The names of the formats, and any combination of them with commas between them."""

    def __iter__(self) -> Iterator[str]:
        return iter(FORMATS)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and all(name in FORMATS for name in value.split(","))


_FORMATS: Final = _Formats()
