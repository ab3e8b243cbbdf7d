"""Reads a book of Project Gutenberg: its number, its title, and its paragraphs without what is printed around them."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

_BEGIN = re.compile(r"^\s*\*\*\*\s*START OF (?:THIS|THE) PROJECT GUTENBERG.*$", re.MULTILINE | re.IGNORECASE)
_END = re.compile(
    r"^.*(?:\*\*\*\s*END OF (?:THIS|THE) PROJECT GUTENBERG|End of (?:the |this )?Project Gutenberg).*$",
    re.MULTILINE | re.IGNORECASE,
)
_NUMBER = re.compile(r"\[\s*E(?:Book|Text)\s*#\s*(\d+)\s*\]", re.IGNORECASE)
_FIELD = "^{}:[ \t]*(.*)$"
_HEADER = 6000  # the fields stand in this many first characters
_HYPHENATED = re.compile(r"(?<=[a-z])-\n\s*(?=[a-z])")
_BLOCKS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_ABOUT_THE_FILE = re.compile(r"gutenberg|proofread|produced by|transcriber|e-?text|scanned", re.IGNORECASE)

FULL_LINE = 55
"""Characters. In prose, most lines are longer; in verse and plays they are shorter."""


@dataclass(frozen=True)
class Book:
    """A book: its number in Project Gutenberg, the fields of its header, and its paragraphs."""

    number: int
    title: str
    author: str
    language: str
    paragraphs: tuple[str, ...]
    line: float  # characters of a line (median)

    @property
    def english_prose(self) -> bool:
        """Whether the book is in English, and neither verse nor a play."""
        return self.language.casefold() == "english" and self.line >= FULL_LINE

    @classmethod
    def read(cls, text: str) -> Book | None:
        """Return the book in a file; None if the file lacks the number of the book or the mark of its beginning."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        begin, number = _BEGIN.search(text), _NUMBER.search(text[:_HEADER])
        if not begin or not number:
            return None
        end = _END.search(text, begin.end())
        body = text[begin.end() : end.start() if end else len(text)]
        lines = [len(line) for line in body.splitlines() if line.strip()]
        return cls(
            int(number[1]),
            _field("Title", text),
            _field("Author", text),
            _field("Language", text),
            tuple(_paragraphs(body)),
            statistics.median(lines) if lines else 0,
        )


def _field(name: str, text: str) -> str:
    match = re.search(_FIELD.format(name), text[:_HEADER], re.MULTILINE)
    return match[1].strip() if match else ""


def _paragraphs(body: str) -> list[str]:
    """Return the paragraphs, each as one line. Headings are left out, and remarks on the file."""
    blocks = (_HYPHENATED.sub("", block.strip("\n")) for block in _BLOCKS.split(body))
    lines = (" ".join(block.split()) for block in blocks)
    return [line for line in lines if _is_sentence(line) and not _ABOUT_THE_FILE.search(line)]


def _is_sentence(line: str) -> bool:
    return (
        line.rstrip("\"'\u201d\u2019)]_*").endswith((".", "?", "!", ":", ";", ",", "-", "\u2014"))
        and not line.isupper()
    )
