"""Books in the form of Project Gutenberg, and LibriSpeech's list of the parts that were read from each."""

from __future__ import annotations

from pathlib import Path

PROSE = """\
It was a bright cold morning when the two of them came down from the hill to the har-
bour, where nobody was to be seen, and the boats lay on the sand as if they had been
forgotten there; and they sat down upon a wall, without a word, and waited for hours.

"Who is that?" she asked at last, and pointed with her hand at the long straight road
which led to the town, and on which a cloud of dust was coming nearer and nearer, and
grew, until there were horses in it, and a coach behind them, and a man who called to
them from its window.
"""
PARAGRAPHS = tuple(" ".join(block.replace("har-\n", "har").split()) for block in PROSE.split("\n\n"))
CHAPTERS = """\
;ID    |READER|MINUTES| SUBSET           | PROJ.|BOOK ID| CH. TITLE | PROJECT TITLE
1180   | 1284 | 3.80  | test-clean       | 1045 | 955   | 02 - The Crooked Magician | Patchwork Girl of Oz
17     | 19   | 3.80  | train-clean-100  | 1045 | 956   | 02 - Another | Tik-Tok of Oz
"""


def printed(number: int, title: str, text: str = PROSE, language: str = "English") -> str:
    """The file of a book."""
    return f"""\
The Project Gutenberg EBook of {title}, by Jane Doe

This eBook is for the use of anyone anywhere at no cost.

Title: {title}

Author: Jane Doe

Release Date: May, 1996 [EBook #{number}]

Language: {language}

*** START OF THIS PROJECT GUTENBERG EBOOK {title.upper()} ***

Produced by somebody.

CHAPTER ONE

{text}

End of the Project Gutenberg EBook of {title}

Nothing of what stands here, which is long enough to be a paragraph, belongs to the book.
"""


def write_books(folder: Path, *texts: str) -> Path:
    """A collection of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder
