"""A command writes the marked tables of documents, and nothing else."""

from __future__ import annotations

from pathlib import Path

from streamer.training.release.marked_blocks import cells, rewrite, table

DOCUMENT = """About 31.5 % are wrong.

<!-- measured: errors -->

| corpus | words |
|---|---|
| all | 31.5 |

<!-- end -->

<!-- measured: other -->

| a | 31.5 |
|---|---|

<!-- end -->

In 1931.5 it was else.
"""


def test_only_the_named_blocks_are_written_and_old_figures_are_told(tmp_path: Path) -> None:
    """Lines with old figures are only reported, and a document without changes is not touched."""
    first, second = tmp_path / "first.md", tmp_path / "second.md"
    first.write_text(DOCUMENT)
    second.write_text("It was 31.5 %.\nIt was 7.\n")
    told: list[str] = []
    blocks = {"errors": lambda before: table([*cells(before)[:1], ["all", "20.0"]])}
    rewrite([first, second], blocks, told.append)
    assert first.read_text() == DOCUMENT.replace("| all | 31.5 |", "| all | 20.0 |")
    assert told == [
        f"{first}: new tables",
        f"{first}:1: an old figure outside the tables: About 31.5 % are wrong.",
        f"{second}:1: an old figure outside the tables: It was 31.5 %.",
    ]
    told.clear()
    rewrite([first, second], blocks, told.append)
    assert not told


def test_a_table_is_read_as_it_is_written() -> None:
    """The line below the head of a table does not count as a row."""
    rows = [["a", "b c"], ["1", ""], ["- 2", "3"]]
    assert cells(table(rows)) == rows
