"""What a command line may say of the transcript: its formats, where it goes, and what becomes of one that is there."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from streamer.terminal.transcript_files import APPEND, OVERWRITE, REFUSE, SKIP
from streamer.transcript import FORMATS


def add_output_arguments(parser: argparse.ArgumentParser, where: str, *, skip: bool = False) -> None:
    """`where`: what is said of the place; `skip`: whether there may be transcripts that need not be made again."""
    add = parser.add_argument
    add(
        "--format",
        choices=_FORMATS,
        default=FORMATS[0],
        help=f"of the transcript ({FORMATS[0]}); several with commas between them, as srt,json, for a file of each",
    )
    add("-o", "--output", metavar="PATH", help=where)
    existing = parser.add_mutually_exclusive_group().add_argument
    parser.set_defaults(existing=REFUSE)
    for option, value, said in (
        ("--append", APPEND, "write behind what is in a file already"),
        ("--overwrite", OVERWRITE, "replace a file that is there already, once there is a whole new one"),
        ("--skip-existing", SKIP, "leave out recordings whose transcripts are there already"),
    ):
        if skip or value != SKIP:
            existing(option, dest="existing", action="store_const", const=value, help=said)


class _Formats:
    """The formats, and several of them with commas in between."""

    def __iter__(self) -> Iterator[str]:
        return iter(FORMATS)

    def __contains__(self, given: object) -> bool:
        return isinstance(given, str) and all(name in FORMATS for name in given.split(","))


_FORMATS: Final = _Formats()
