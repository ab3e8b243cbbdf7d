"""Books of Project Gutenberg."""

from __future__ import annotations

from streamer.training.books.gutenberg import Book
from tests.training.books.printed import PARAGRAPHS, printed


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
