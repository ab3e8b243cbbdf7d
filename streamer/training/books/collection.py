"""Chooses books for the language model: none that a test set of speech was read from, and no paragraph twice."""

from __future__ import annotations

import hashlib
import io
import random
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from streamer.training.books.gutenberg import Book
from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing
from streamer.training.language.text_sources import members, paragraphs

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
