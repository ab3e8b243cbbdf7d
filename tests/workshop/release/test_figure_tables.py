"""Figures become the marked tables of the documents, and nothing else changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.project import ROOT
from workshop.release.figure_tables import COMPARED, CONDITIONS, CORPORA, HELD_OUT, blocks, cells, rewrite, table
from workshop.turns import rules

DELAYS = {f"{kind}_{part}": 1000.4 for kind in ("shown", "stable", "final") for part in ("median_ms", "p90_ms")}
REPORT = {
    "all": {"utterances": 155, "wer": {"value": 24.2, "low": 21.99, "high": 26.91}},
    "corpora": {
        corpus: {"utterances": 9, "wer": {"value": 30.0, "low": None, "high": None}}
        for corpus in (CORPORA | HELD_OUT).keys() - {"all"}
    },
    "speed": {"cpu_per_audio_s": {"engine": 0.0186}},
    "partials": {"all": {"changed_share": 0.3928}},
    "delay": {"audio": {"all": DELAYS}},
    "times": {"all": {"start": {"median_ms": 30.0}, "end": {"median_ms": 40.0}}},
}
CALIBRATION = """the half it was fitted on:
lexicon, 320 ms     99      99   99     999   9999              0.999    0.999      0.999

the other half:
search, step     start  90th %  end  90th %  words  calibration error  ranking  of finals
lexicon, 320 ms     30      80   30     110   4810              0.016    0.780      0.026
greedy, 320 ms      40     100   40     100   4650              0.043    0.843      0.025
"""
HOTWORDS = """bonus 7, floor -13; the other half
hotwords | utterances | rare words said | recall % | false insertions | in 1000 words | other words wrong %
none                  | 67 |   98 |  25.5 |    0 |  0.00 |  22.4
own,   0 distractors  | 67 |   98 |  81.6 |    0 |  0.00 |  21.3
own,  10 distractors  | 67 |   98 |  82.7 |    0 |  0.00 |  21.1
own, 100 distractors  | 67 |   98 |  82.7 |    1 |  0.63 |  21.5
none, none said       | 328 |    0 |     - |    0 |  0.00 |  22.0
100, none said        | 328 |    0 |     - |    5 |  1.53 |  22.1
"""
MARK_KINDS = "comma | full stop | question mark | capital"
TEXTS = (
    "dialogue",
    "encyclopaedia",
    "examples",
    "fiction",
    "novels",
    "prompts",
    "readings",
    "speeches",
    "talk",
    "web",
)
WAYS = ("", ", pauses unknown", ", pauses alone", ", no mark within a segment")
MARKS = "\n\n".join(
    f"{head}\n|{'---|' * (head.count('|') - 1)}\n"
    + "\n".join(f"| {row} |{' 1 |' * (head.count('|') - 2)}" for row in rows)
    for head, rows in (
        (f"| held-out text | words | {MARK_KINDS} |", TEXTS),
        (f"| speech | {MARK_KINDS} |", [f"{words} words{way}" for words in ("true", "recognised") for way in WAYS]),
        ("| streams in a call | ms of a call | share of a core for a stream | of the recogniser's time |", (1, 8, 32)),
    )
)
TURNS = "100 turns, steps of 320 ms\n\n" + "\n".join(
    ["| end of a segment | turns cut in two | those with a further pause | delay median / 90 % |", "|---|---|---|---|"]
    + [f"| {name} | 1.0 % | 2.0 % | 500 / 900 ms |" for name, _ in rules()]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide the files and the output of the steps."""
    passes = [f"{name}{passed}" for name in ("errors", "heldout") for passed in ("", "-once", "-read")]
    for name in (*passes, *CONDITIONS):
        (tmp_path / f"{name}.json").write_text(json.dumps(REPORT))
    for name, (_, values) in COMPARED.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"settings": [REPORT] * len(values)}))
    (tmp_path / "calibration.txt").write_text(CALIBRATION)
    (tmp_path / "hotwords.txt").write_text(HOTWORDS)
    (tmp_path / "marks.txt").write_text(MARKS)
    for name in ("turns", "turns-160"):
        (tmp_path / f"{name}.txt").write_text(TURNS)
    return tmp_path


def test_every_marked_table_is_written_and_keeps_its_head(folder: Path) -> None:
    """Every table of the card and the documents is written, and keeps its size and head."""
    write, seen = blocks(folder), set()
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "asr_repo" / "streaming_asr" / "1" / "CARD.md"):
        for name, text in re.findall(
            r"<!-- measured: ([\w-]+) -->\n\n(.*?)\n\n<!-- end -->", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            seen.add(name)
            before, after = cells(text), cells(write[name](text))
            assert after[0] == before[0], name
            assert [row[0] for row in after] == [row[0] for row in before], name
    assert seen == set(write)


def test_figures_are_rounded_as_they_stand_in_the_documents(folder: Path) -> None:
    """Figures have intervals if there are any, except without a second pass. Those of another recogniser stay."""
    once = {**REPORT, "all": {"wer": {"value": 31.04, "low": 29.0, "high": 33.0}}}
    for name in ("errors-once", "heldout-once"):
        (folder / f"{name}.json").write_text(json.dumps(once))
    write = blocks(folder)
    former = "| corpus | read | this | once | P |\n" + "".join(
        f"| {label} | 20.0 | 31.0 [29.0, 33.0] | 40.0 | 56.7 |\n" for label in CORPORA.values()
    )
    errors = write["errors"](former)
    assert cells(errors)[-1] == ["all", "24.2 [22.0, 26.9]", "24.2 [22.0, 26.9]", "31.0", "56.7"]
    assert cells(errors)[1][1:4] == ["30.0", "30.0", "30.0"]
    assert write["errors"](errors) == errors
    held_out = cells(write["heldout"](""))
    assert held_out[1] == ["read sentences and commands", "9", "30.0", "30.0", "30.0"]
    assert held_out[-1] == ["all", "155", "24.2 [22.0, 26.9]", "24.2 [22.0, 26.9]", "31.0 [29.0, 33.0]"]
    head = "| CPU | `step_ms` | word errors % | shown | start, end | changed % |"
    assert cells(write["steps"](head))[1] == ["0.019", "160", "24.2", "1000 (1000)", "30, 40", "39.3"]
    assert cells(write["step-errors"](""))[1] == ["160 ms", "24.2 % [22.0, 26.9]", "39.3 %"]
    assert cells(write["calibration"](""))[1] == ["`lexicon`", "30 (80) ms", "30 (110) ms", "0.016", "0.780", "0.026"]
    assert cells(write["hotwords"](""))[4] == ["and 100 others", "67", "98", "82.7", "1", "21.5"]


def test_times_are_those_of_the_usual_step(folder: Path) -> None:
    """A model with other steps has the line of its nearest one, and the second pass has none."""
    (folder / "calibration.txt").write_text(
        "the other half:\nsearch, step     start  90th %  end  90th %  words  calibration error  ranking  of finals\n"
        + "".join(
            f"{search}, {step} ms    {step}      80   30     110   4810              0.016    0.780      0.026\n"
            for search in ("lexicon", "greedy")
            for step in (144, 336, 624, 20480)
        )
    )
    rows = cells(blocks(folder)["calibration"](""))
    assert [row[:2] for row in rows[1:]] == [["`lexicon`", "336 (80) ms"], ["`greedy`", "336 (80) ms"]]


def test_what_was_not_measured_yet_stays(tmp_path: Path) -> None:
    """A block without new figures stays as it is."""
    assert blocks(tmp_path) == {}


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
