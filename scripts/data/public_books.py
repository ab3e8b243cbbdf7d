"""Prepares books of Project Gutenberg as text for the language model.

    git clone https://github.com/rcdm-uga/Gutenberg_Text CLONE
    python scripts/data/public_books.py CLONE --chapters CHAPTERS.TXT --known lm_text.tar.xz --output books.tar

The collection has the books of some hundred authors, as plain text; in the United States, their copyright has ended.
CHAPTERS.TXT is LibriSpeech's list of chapters and their books. Books from which its dev and test sets were read are
left out, also where other books have parts of them. So is every paragraph that one of the --known archives has already.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamer.base.text import counted
from workshop.data.corpus import CorpusError
from workshop.language.books import HeldOutBooks, choose, known_paragraphs, read_books, write_archive

WORDS = 150_000_000


def main() -> int:
    """Write the archive; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of the collection")
    parser.add_argument("--chapters", type=Path, required=True, help="LibriSpeech's list of chapters")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="archives of text that is used already")
    parser.add_argument("--words", type=int, default=WORDS, help="about how many words (%(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="the archive to write")
    options = parser.parse_args()
    try:
        held_out = HeldOutBooks.read(options.chapters)
        books = read_books(options.folder)
        left_out = sum(book in held_out for book in books)
        print(f"{counted(len(books), 'book')} in English prose; {left_out} that test sets were read from are left out")
        chosen = choose(books, held_out, known_paragraphs(options.known), options.words)
        words = write_archive(chosen, f"Books of Project Gutenberg, from {options.folder.name}", options.output)
        print(f"{options.output}: {counted(words, 'word')}")
    except (CorpusError, OSError) as error:
        print(f"public_books: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
