"""Reads books of Project Gutenberg, and chooses those for the language model: none that a test set was read from."""

from __future__ import annotations

import hashlib
import io
import random
import re
import statistics
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from workshop.data.corpus import CorpusError, replacing
from workshop.language.text_sources import members, paragraphs

FOLDER = "books"
"""The folder in the archive. It makes the books a source of their own (`text_sources.py`)."""

SOURCE_FILE = "SOURCE.md"
_TESTED = ("dev-", "test-")  # parts of LibriSpeech that recognisers are measured on
_SHORTEST = 40  # characters: shorter paragraphs stand in many books by chance


@dataclass(frozen=True)
class HeldOutBooks:
    """The books from which LibriSpeech's test sets were read, by number and by title."""

    numbers: frozenset[int]
    titles: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> HeldOutBooks:
        """Read LibriSpeech's list of chapters."""
        if not path.is_file():
            raise CorpusError(f"{path} is missing: give the file CHAPTERS.TXT of LibriSpeech")
        numbers, titles = set(), set()
        for line in path.read_text(encoding="utf-8").splitlines():
            # chapter, reader, minutes, subset, project, book, title of the chapter, title of the book
            fields = [field.strip() for field in line.split("|")]
            if len(fields) >= 8 and fields[3].startswith(_TESTED):
                titles.add(_plain(fields[-1]))
                if fields[5].isdigit():
                    numbers.add(int(fields[5]))
        if not numbers:
            raise CorpusError(f"{path} is no list of chapters: no line of it names a book of a test set")
        return cls(frozenset(numbers), frozenset(title for title in titles if title))

    def __contains__(self, book: Book) -> bool:
        title = f" {_plain(book.title)} "
        return book.number in self.numbers or any(
            f" {tested} " in title or (len(title) > 10 and title in f" {tested} ") for tested in self.titles
        )


def read_books(folder: Path) -> list[Book]:
    """Read every text file below a folder that is a book in English prose, each book once."""
    if not folder.is_dir():
        raise CorpusError(f"{folder} is not a folder of books")
    books: dict[int, Book] = {}
    for path in sorted(folder.rglob("*.txt")):
        book = Book.read(path.read_text(encoding="utf-8", errors="replace"))
        if book and book.english_prose:
            books.setdefault(book.number, book)
    if not books:
        raise CorpusError(f"{folder} has no book of Project Gutenberg in English prose")
    return list(books.values())


def known_paragraphs(archives: Iterable[Path]) -> set[bytes]:
    """Return the hashes of all paragraphs of running text in these archives."""
    return {
        _hash(paragraph)
        for archive in archives
        for name, content in members(archive)
        for paragraph in paragraphs(name, content)
    }


def choose(books: list[Book], held_out: HeldOutBooks, known: set[bytes], words: int, seed: int = 1) -> Iterator[Book]:
    """Yield books in random order, until they have this many words.

    A paragraph of a held-out book is left out of all other books too, because a collection may contain it. `known` has
    the hashes of paragraphs to leave out. The hashes of the chosen paragraphs are added to it.
    """
    for book in books:
        if book in held_out:
            known.update(map(_hash, book.paragraphs))
    others = [book for book in books if book not in held_out]
    random.Random(seed).shuffle(others)
    left = words
    for book in others:
        if left <= 0:
            return
        fresh = []
        for paragraph in book.paragraphs:
            digest = _hash(paragraph)
            if len(paragraph) < _SHORTEST or digest not in known:
                fresh.append(paragraph)
                known.add(digest)
        left -= sum(len(paragraph.split()) for paragraph in fresh)
        if fresh:
            yield replace(book, paragraphs=tuple(fresh))


def write_archive(books: Iterable[Book], source: str, path: Path) -> int:
    """Write the books as an archive for the language model, with a list of them. Returns how many words they have."""
    listed, words = [], 0
    with replacing(path, "wb") as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for book in books:
            text = "\n".join(book.paragraphs) + "\n"
            words += len(text.split())
            listed.append(f"{book.number}\t{book.author}\t{book.title}")
            _add(archive, f"{FOLDER}/{book.number}.txt", text)
        _add(archive, SOURCE_FILE, f"{source}\n\n" + "\n".join(sorted(listed)) + "\n")
    return words


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _plain(title: str) -> str:
    words = re.findall(r"[a-z0-9]+", title.casefold().replace("'", ""))
    return " ".join(words[1:] if words[:1] in (["the"], ["a"], ["an"]) else words)


def _hash(paragraph: str) -> bytes:
    return hashlib.blake2b("".join(re.findall("[a-z]+", paragraph.casefold())).encode(), digest_size=8).digest()


# Reads a book of Project Gutenberg: its number, its title, and its paragraphs without what is printed around them.

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
