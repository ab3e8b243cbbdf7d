"""Books of Project Gutenberg, and their choice for the language model."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.workshop.language.printed import CHAPTERS, PARAGRAPHS, PROSE, printed, write_books
from workshop.data.corpus import CorpusError
from workshop.language.books import Book, HeldOutBooks, choose, known_paragraphs, read_books, write_archive
from workshop.language.text_sources import read_texts, source_of

OTHER = "The king had three sons, and the youngest of them was the wisest of all who lived in that land.\n"


def held_out(folder: Path) -> HeldOutBooks:
    """LibriSpeech's list of chapters, read."""
    path = folder / "CHAPTERS.TXT"
    path.write_text(CHAPTERS, encoding="utf-8")
    return HeldOutBooks.read(path)


def book(number: int, title: str, text: str) -> Book:
    """A book with one paragraph."""
    return Book(number, title, "Jane Doe", "English", (text.strip(),), 70.0)


@pytest.mark.parametrize(
    ("number", "title", "is_held_out"),
    [
        (955, "Oz, Volume Three", True),
        (54, "The Patchwork Girl of Oz", True),
        (55, "The Patchwork Girl of Oz and Other Stories", True),
        (956, "Tik-Tok of Oz", False),
        (56, "The Wonderful Wizard of Oz", False),
    ],
)
def test_books_of_test_sets(tmp_path: Path, number: int, title: str, is_held_out: bool) -> None:
    """Books of test sets are recognised by their number, or by their title in another edition."""
    assert (book(number, title, PROSE) in held_out(tmp_path)) == is_held_out


def test_what_is_in_a_held_out_book_is_nowhere(tmp_path: Path) -> None:
    """Paragraphs of a held-out book are left out, in collections too, and so are known and repeated ones."""
    books = [book(955, "X", PROSE), book(1, "Collected", PROSE), book(2, "Sons", OTHER), book(3, "Sons again", OTHER)]
    chosen = list(choose(books, held_out(tmp_path), set(), 1000))
    assert [found.paragraphs for found in chosen] == [(OTHER.strip(),)]
    with tarfile.open(tmp_path / "known.tar", "w") as archive:
        write_books(tmp_path / "text", OTHER)
        archive.add(tmp_path / "text" / "0.txt", "books/1.txt")
    assert not list(choose(books, held_out(tmp_path), known_paragraphs([tmp_path / "known.tar"]), 1000))


def test_no_more_words_than_wanted(tmp_path: Path) -> None:
    """The last book may go beyond the number."""
    books = [
        book(number, name, f"{OTHER.strip()} This was the tale of {name}.") for number, name in enumerate("abcdefghi")
    ]
    chosen = list(choose(books, held_out(tmp_path), set(), 65))
    assert len(chosen) == 3
    assert chosen == list(choose(books, held_out(tmp_path), set(), 65))


def test_an_archive_is_a_source_of_the_language_model(tmp_path: Path) -> None:
    """Each paragraph is one line of text, and the list of the books is no text."""
    books = read_books(write_books(tmp_path / "clone", printed(7, "Tale"), printed(7, "Tale"), "a list"))
    assert write_archive(books, "From somewhere", tmp_path / "books.tar") == sum(
        len(paragraph.split()) for paragraph in PARAGRAPHS
    )
    texts = read_texts([tmp_path / "books.tar"], None, [])
    assert list(texts.sources) == ["books"]
    assert "harbour" in texts.words
    assert "somewhere" not in texts.words
    assert source_of("books/7.txt") == "books"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """The message names what is missing: the list of chapters, the known archive, or the books."""
    with pytest.raises(CorpusError, match=r"CHAPTERS\.TXT is missing"):
        HeldOutBooks.read(tmp_path / "CHAPTERS.TXT")
    (tmp_path / "CHAPTERS.TXT").write_text("nothing", encoding="utf-8")
    with pytest.raises(CorpusError, match="no list of chapters"):
        HeldOutBooks.read(tmp_path / "CHAPTERS.TXT")
    with pytest.raises(CorpusError, match="not a folder"):
        read_books(tmp_path / "clone")
    with pytest.raises(CorpusError, match=r"CHAPTERS\.TXT is not a complete tar archive"):
        known_paragraphs([tmp_path / "CHAPTERS.TXT"])
    with pytest.raises(CorpusError, match="has no book"):
        read_books(write_books(tmp_path / "empty", "a list"))


def test_a_book_has_its_paragraphs_and_nothing_else() -> None:
    """The text has no licence, no remarks of the makers and no headings, and divided words are joined."""
    book = Book.read(printed(12, "The Harbour"))
    assert book
    assert (book.number, book.title, book.author, book.paragraphs) == (12, "The Harbour", "Jane Doe", PARAGRAPHS)
    assert book.english_prose


def test_lines_may_end_as_on_other_systems() -> None:
    """Many of the files have carriage returns."""
    book = Book.read(printed(12, "The Harbour").replace("\n", "\r\n"))
    assert book
    assert book.paragraphs == PARAGRAPHS


def test_verse_and_other_languages_are_told_apart() -> None:
    """The lines of verse are short."""
    verse, french = (
        Book.read(printed(1, "Songs", "O wind,\nwhere to?\n\n" * 20)),
        Book.read(printed(2, "X", language="French")),
    )
    assert verse
    assert french
    assert not verse.english_prose
    assert not french.english_prose


def test_a_file_that_is_no_book_is_nothing() -> None:
    """A file that does not say where the book begins, or which book it is, gives no text."""
    assert Book.read("A list of books.") is None
    assert Book.read(printed(3, "X").replace("[EBook #3]", "")) is None
