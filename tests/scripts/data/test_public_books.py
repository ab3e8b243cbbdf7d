"""The script that prepares books for the language model."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here
from tests.workshop.language.printed import CHAPTERS, printed, write_books

SCRIPT = "data/public_books.py"


def test_books_are_prepared(tmp_path: Path) -> None:
    """The script says how many books there are, and how many words."""
    clone, chapters = write_books(tmp_path / "clone", printed(7, "Tale"), printed(955, "X")), tmp_path / "CHAPTERS.TXT"
    chapters.write_text(CHAPTERS, encoding="utf-8")
    done = run_here(SCRIPT, clone, "--chapters", chapters, "--output", tmp_path / "books.tar")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "2 books in English prose; 1 that test sets were read from are left out",
        f"{tmp_path / 'books.tar'}: 0 words",  # both have the same text
    ]


def test_a_missing_list_is_one_sentence(tmp_path: Path) -> None:
    """A missing list of read books is an error in one sentence, because test sets could come into the model."""
    done = run_here(SCRIPT, tmp_path, "--chapters", tmp_path / "none", "--output", tmp_path / "books.tar")
    assert done.returncode == 1
    assert f"{tmp_path / 'none'} is missing" in done.stderr
    assert done.stderr.count("\n") == 1
