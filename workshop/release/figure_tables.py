"""Makes the tables of the model card and of the documents from the results of the release steps, and writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from streamer.base.limits import STEP_MS, WHOLE_MS
from streamer.engine.stream_options import step_for
from workshop.data.corpus import replacing

CORPORA = {
    "librispeech_dev_clean_part": "LibriSpeech dev-clean, 4 speakers",
    "commonvoice_v1_valid_dev": "Common Voice",
    "speechocean762": "speechocean762",
    "all": "all",
}
HELD_OUT = {
    "read": "read sentences and commands",
    "talks": "talks and interviews",
    "calls": "telephone calls and dialogues",
    "meetings": "meetings, several at a table",
    "all": "all",
}
CONDITIONS = {
    "as-they-are": "as they are",
    "noise-20": "noise 20 dB below the speech",
    "noise-10": "noise 10 dB below",
    "noise-5": "noise 5 dB below",
    "telephone": "telephone: 300 to 3400 Hz, 8 kHz, mu-law",
    "room": "a room with echo",
    "far": "a far microphone: room, noise, 18 dB quieter",
    "quiet": "40 dB too quiet",
    "clipped": "overdriven: one sample in twenty clipped",
}
COMPARED = {
    "steps": ("step_ms", ["160", "320", "640"]),
    "stability": ("stability", ["low", "medium", "high"]),
    "settling": ("settle_ms", ["0", "500", "1000", "2000"]),
    "passes": ("second_pass", ["off", "on"]),
}
MARKS = {"marks-text": "| held-out text", "marks-speech": "| speech |", "marks-cost": "| streams in a call"}
"""How the tables about marks begin, in the order in which they are printed."""
TURNS = ("turns", "turns-160")
_JUDGED = re.compile(r"(?P<search>\w+), (?P<step>\d+) ms (?P<figures>.*)")
HOTWORDS = ["none", "its own rare words", "and 10 others", "and 100 others", "none", "100 that are not said"]

Figures = Mapping[str, Any]


def blocks(folder: Path) -> dict[str, Write]:
    """Return a writer for each block whose files are in this folder of the steps, by the name of the block."""

    def figures(name: str) -> Figures:
        return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))

    def printed(name: str) -> list[str]:
        return (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()

    def exist(*names: str) -> bool:
        return all((folder / name).is_file() for name in names)

    writers: dict[str, Write] = {}
    if exist("errors.json", "errors-once.json", "errors-read.json"):
        writers["errors"] = lambda before: errors(
            before, figures("errors-read"), figures("errors"), figures("errors-once")
        )
    if exist("heldout.json", "heldout-once.json", "heldout-read.json"):
        writers["heldout"] = lambda _: held_out(figures("heldout-read"), figures("heldout"), figures("heldout-once"))
    if exist("steps.json"):
        writers["step-errors"] = lambda _: step_errors(figures("steps")["settings"])
    if exist(*(f"{name}.json" for name in CONDITIONS)):
        writers["conditions"] = lambda _: conditions(figures)
    for name in COMPARED:
        if exist(f"{name}.json"):
            writers[name] = lambda before, name=name: settings(  # type: ignore[misc]
                name, before, figures(name)["settings"]
            )
    if exist("calibration.txt"):
        writers["calibration"] = lambda _: calibration(printed("calibration"))
    if exist("marks.txt"):
        writers |= {name: lambda _, name=name: marks(name, printed("marks")) for name in MARKS}  # type: ignore[misc]
    for name in TURNS:
        if exist(f"{name}.txt"):
            writers[name] = lambda _, name=name: _printed_table(printed(name), "| end of")  # type: ignore[misc]
    if exist("hotwords.txt"):
        writers["hotwords"] = lambda _: hotwords(printed("hotwords"))
    return writers


def errors(before: str, read: Figures, report: Figures, once: Figures) -> str:
    """Write the word error rates by corpus: with a reader, with a second pass and without one.

    The last column has another recogniser, and stays.
    """
    head, *rows = cells(before)
    others = {row[0]: row[-1] for row in rows}
    new = [
        [label, _rate_in(read, corpus), _rate_in(report, corpus), _rate_in(once, corpus).split()[0], others[label]]
        for corpus, label in CORPORA.items()
    ]
    return table([head, *new])


def held_out(read: Figures, report: Figures, once: Figures) -> str:
    """Write the word error rates of the held-out set: with a reader, with a second pass and without one."""
    rows = [
        [label, f"{_part(report, corpus)['utterances']}", *(_rate_in(of, corpus) for of in (read, report, once))]
        for corpus, label in HELD_OUT.items()
    ]
    return table([["held-out set", "recordings", "with a reader", "with a second pass", "without"], *rows])


def step_errors(reports: list[Figures]) -> str:
    """Write the share of wrong words, and of shown words that change later, by the length of a step."""
    rows = [
        [f"{value} ms", _percent(report["all"]), f"{100 * report['partials']['all']['changed_share']:.1f} %"]
        for value, report in zip(COMPARED["steps"][1], reports, strict=True)
    ]
    return table([["step", "words wrong", "words shown that change later"], *rows])


def conditions(figures: Callable[[str], Figures]) -> str:
    """Write the word error rates in degraded recordings."""
    rows = [[label, _percent(figures(name)["all"])] for name, label in CONDITIONS.items()]
    return table([["condition", "words wrong"], *rows])


def settings(name: str, before: str, reports: list[Figures]) -> str:
    """Write a line for each value of a setting. The columns stay, because not every figure depends on every setting."""
    option, values = COMPARED[name]
    head, *_ = cells(before)
    rows = []
    for value, report in zip(values, reports, strict=True):
        figures = {f"`{option}`": value, **_setting(report)}
        rows.append([figures[column] for column in head])
    return table([head, *rows])


def calibration(lines: list[str]) -> str:
    """Write the errors of times and confidences on the half that was not used for fitting, at the usual step."""
    judged = [match for line in lines[lines.index("the other half:") :] if (match := _JUDGED.match(line))]
    figures = {(match["search"], int(match["step"])): match["figures"].split() for match in judged}
    usual = step_for(STEP_MS, [step for _, step in figures if step != WHOLE_MS])
    rows = []
    for search in ("lexicon", "greedy"):
        start, start_90, end, end_90, _, error, ranking, finals = figures[search, usual]
        rows.append([f"`{search}`", f"{start} ({start_90}) ms", f"{end} ({end_90}) ms", error, ranking, finals])
    head = ["search", "start (90 %)", "end (90 %)", "calibration error of words", "ranking"]
    return table([[*head, "calibration error of finals"], *rows])


def marks(name: str, lines: list[str]) -> str:
    """Write one of the tables about marks, as it was printed."""
    return _printed_table(lines, MARKS[name])


def hotwords(lines: list[str]) -> str:
    """Write how many rare words were found with and without hotwords."""
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.count("|") == 6][1:]
    head = ["hotwords", "utterances", "rare words said", "found, %", "inserted where not said", "other words wrong, %"]
    written = []
    for label, (_, utterances, said, recall, false, _, wrong) in zip(HOTWORDS, rows, strict=True):
        written.append([label, utterances, "none" if said == "0" else said, recall, false, wrong])
    return table([head, *written])


def _printed_table(lines: list[str], head: str) -> str:
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    return "\n".join(takewhile(lambda line: line.startswith("|"), lines[start:]))


def _setting(report: Figures) -> dict[str, str]:
    delay, times = report["delay"]["audio"]["all"], report["times"]["all"]
    delays = {
        kind: f"{delay[f'{kind}_median_ms']:.0f} ({delay[f'{kind}_p90_ms']:.0f})"
        for kind in ("shown", "stable", "final")
    }
    return {
        "word errors %": f"{report['all']['wer']['value']:.1f}",
        **delays,
        "start, end": f"{times['start']['median_ms']:.0f}, {times['end']['median_ms']:.0f}",
        "changed %": f"{100 * report['partials']['all']['changed_share']:.1f}",
        "CPU": f"{sum(report['speed']['cpu_per_audio_s'].values()):.3f}",
    }


def _part(report: Figures, corpus: str) -> Figures:
    """Return the figures of a corpus in a report, or those of all."""
    part: Figures = report["all"] if corpus == "all" else report["corpora"][corpus]
    return part


def _rate_in(report: Figures, corpus: str) -> str:
    return _rate(_part(report, corpus))


def _rate(of: Figures) -> str:
    wer = of["wer"]
    return f"{wer['value']:.1f}" + ("" if wer["low"] is None else f" [{wer['low']:.1f}, {wer['high']:.1f}]")


def _percent(of: Figures) -> str:
    value, _, bounds = _rate(of).partition(" ")
    return f"{value} % {bounds}".rstrip()


# Writes tables into documents, between two comments that name the table.

# There are empty lines around the table. Directly beside a comment it would not be shown as a table.
_BLOCK = re.compile(r"(<!-- measured: (?P<name>[\w-]+) -->\n\n)(?P<text>.*?)(\n\n<!-- end -->)", re.DOTALL)
_FIGURE = re.compile(r"\d+\.\d+")

Write = Callable[[str], str]
"""Makes the text of a block from the one that stands there."""


def rewrite(documents: list[Path], blocks: Mapping[str, Write], tell: Callable[[str], None]) -> None:
    """Write all blocks with these names. Reports the changed ones, and lines outside that contain their old figures."""
    old: set[str] = set()

    def written(match: re.Match[str]) -> str:
        text = blocks[match["name"]](match["text"]) if match["name"] in blocks else match["text"]
        old.update(set(_FIGURE.findall(match["text"])) - set(_FIGURE.findall(text)))
        return match[1] + text + match[4]

    for path in documents:
        before = path.read_text(encoding="utf-8")
        after = _BLOCK.sub(written, before)
        if after != before:
            with replacing(path, "w") as file:
                file.write(after)
            tell(f"{path}: new tables")
    for path, number, line in _outside(documents, old):
        tell(f"{path}:{number}: an old figure outside the tables: {line.strip()}")


def cells(text: str) -> list[list[str]]:
    """Return the cells of all rows of a table, with its head."""
    rows = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def table(rows: list[list[str]]) -> str:
    """Return a table of these rows. The first row is the head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _outside(documents: list[Path], figures: set[str]) -> Iterator[tuple[Path, int, str]]:
    for path in documents:
        inside = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            inside = (inside or "<!-- measured:" in line) and "<!-- end -->" not in line
            if not inside and figures & set(_FIGURE.findall(line)):
                yield path, number, line
