"""An evaluation for people (tables in plain text) and for programs (JSON), from the same figures. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from streamer.evaluate.bootstrap import CONFIDENCE, FEWEST_SPEAKERS, RESAMPLES, Interval
from streamer.evaluate.emission import Delay, Delays, Emission, summary
from streamer.evaluate.errors import aligned
from streamer.evaluate.hearing import Run
from streamer.evaluate.scores import ALL, Scored, as_dict, by_corpus, rates, worst

_LINE: Final = 100
_NOTHING: Final = "***"


@dataclass(frozen=True)
class Evaluation:
    """Everything that a report is made of. `delays` are those of each utterance that the alignment has."""

    manifest: str
    through: str
    options: dict[str, Any]
    run: Run
    results: Sequence[Scored]
    delays: dict[str, list[Delay]] | None
    paced: bool

    @property
    def failed(self) -> list[Scored]:
        """The utterances whose session failed."""
        return [result for result in self.results if result.failure]


def text(evaluation: Evaluation, number_of_worst: int) -> str:
    """The report for people."""
    parts = [_head(evaluation), _rates(evaluation), _kinds(evaluation), _speed(evaluation.run), _delays(evaluation)]
    listed = worst(evaluation.results, number_of_worst)
    if listed:
        parts.append("\n\n".join(["The utterances with the most errors:", *map(side_by_side, listed)]))
    if evaluation.failed:
        lines = [f"  {result.utterance.name}: {result.failure}" for result in evaluation.failed]
        parts.append("\n".join([f"FAILED: {len(lines)} of {len(evaluation.results)} utterances", *lines]))
    return "\n\n".join(part for part in parts if part) + "\n"


def content(evaluation: Evaluation, number_of_worst: int) -> dict[str, Any]:
    """The report for programs."""
    lines = {line.name: as_dict(line) for line in rates(evaluation.results)}
    run = evaluation.run
    # One corpus is all there is: both names are there for whoever reads this.
    everything = lines.pop(ALL, None) or next(iter(lines.values()))
    return {
        "manifest": evaluation.manifest,
        "through": evaluation.through,
        "options": evaluation.options,
        "all": everything,
        "corpora": lines,
        "speed": {
            "audio_s": round(run.seconds, 3),
            "wall_s": round(run.wall_s, 3),
            "times_real_time": round(run.seconds / run.wall_s, 2) if run.wall_s else None,
            "cpu_per_audio_s": {name: round(used, 4) for name, used in _cpu(run).items()},
        },
        "delay": _delay_content(evaluation),
        "worst": [hypothesis_line(result) for result in worst(evaluation.results, number_of_worst)],
        "failed": [{"name": result.utterance.name, "reason": result.failure} for result in evaluation.failed],
        "intervals": {"confidence": CONFIDENCE, "resamples": RESAMPLES},
    }


def hypothesis_line(result: Scored, emissions: Sequence[Emission] = ()) -> dict[str, Any]:
    """One utterance for programs."""
    utterance, errors = result.utterance, result.errors
    found: dict[str, Any] = {
        "name": utterance.name,
        "corpus": utterance.corpus,
        "speaker": utterance.speaker,
        "reference": " ".join(utterance.words),
        "hypothesis": " ".join(result.hypothesis),
        **asdict(errors),
        "failure": result.failure or None,
    }
    if emissions:
        found["shown_ms"] = [emission.shown.audio_ms for emission in emissions]
        found["final_ms"] = [emission.final.audio_ms for emission in emissions]
    return found


def side_by_side(result: Scored) -> str:
    """The reference over what was understood, word under word; wrong places in capitals, missing words as stars."""
    reference, hypothesis = result.utterance.words, result.hypothesis
    columns = []
    for pair in aligned(reference, hypothesis):
        said = _NOTHING if pair.reference is None else reference[pair.reference]
        understood = _NOTHING if pair.hypothesis is None else hypothesis[pair.hypothesis]
        if said != understood:
            said, understood = said.upper(), understood.upper()
        width = max(len(said), len(understood))
        columns.append((said.ljust(width), understood.ljust(width)))
    errors = result.errors
    lines = [
        f"  {result.utterance.name} ({result.utterance.corpus}): {errors.word_errors} errors in {errors.words} words"
    ]
    row: list[tuple[str, str]] = []
    for column in columns:
        if row and sum(len(said) + 1 for said, _ in row) + len(column[0]) > _LINE - 9:
            lines += _row(row)
            row = []
        row.append(column)
    return "\n".join(lines + _row(row))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the first one left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def shown(found: Interval) -> str:
    """A rate in percent with its bounds."""
    bounds = "" if found.low is None or found.high is None else f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{100 * found.value:.1f}{bounds}"


def _head(evaluation: Evaluation) -> str:
    options = ", ".join(f"{name} {value}" for name, value in evaluation.options.items())
    return f"{len(evaluation.results)} utterances of {evaluation.manifest} through {evaluation.through} ({options})"


def _rates(evaluation: Evaluation) -> str:
    lines = rates(evaluation.results)
    rows = [
        [line.name, str(line.utterances), str(line.speakers), str(line.errors.words), shown(line.wer), shown(line.cer)]
        for line in lines
    ]
    note = (
        f"In brackets: {CONFIDENCE} % intervals, by a bootstrap of {RESAMPLES} resamples over the speakers of a corpus "
        f"where at least {FEWEST_SPEAKERS} are known, else over its utterances."
    )
    header = ["corpus", "utterances", "speakers", "words", "word errors %", "character errors %"]
    return f"{table(header, rows)}\n{textwrap.fill(note, _LINE)}"


def _kinds(evaluation: Evaluation) -> str:
    rows = []
    for line in rates(evaluation.results):
        errors = line.errors
        kinds = (errors.substitutions, errors.deletions, errors.insertions)
        rows.append([line.name, *(f"{kind} ({100 * kind / errors.words:.1f} %)" for kind in kinds)])
    return table(["of the words of the reference", "substituted", "deleted", "inserted"], rows)


def _speed(run: Run) -> str:
    if not run.seconds:
        return ""
    line = f"Speed: {run.seconds:.0f} s of audio in {run.wall_s:.1f} s, {run.seconds / run.wall_s:.1f} times real time"
    cpu = _cpu(run)
    if cpu:
        parts = ", ".join(f"{name} {used:.3f}" for name, used in cpu.items())
        line += f".\nCPU seconds for a second of audio (of one core for one live stream): {parts}"
    return line + "."


def _cpu(run: Run) -> dict[str, float]:
    return {name: used / run.seconds for name, used in run.cpu.items()} if run.seconds else {}


def _delays(evaluation: Evaluation) -> str:
    found = _delays_by_corpus(evaluation)
    if found is None:
        return ""
    header = ["delay after a word's end, ms", "words", "at the end", "shown", "95th %", "final", "95th %"]
    rows = []
    for name, clock, delays in found:
        values = (*delays.shown, *delays.final)
        label = name if clock == "audio" else f"{name}, by the wall's clock"
        rows.append([label, str(delays.words), str(delays.at_end), *(f"{value:.0f}" for value in values)])
    note = (
        f"Medians and 95th percentiles over the words that were understood rightly, in the "
        f"{len(evaluation.delays or {})} of {len(evaluation.results)} utterances that the alignment places. "
        "'At the end': shown only because the recording was over."
    )
    return f"{table(header, rows)}\n{textwrap.fill(note, _LINE)}"


def _delay_content(evaluation: Evaluation) -> dict[str, Any] | None:
    found = _delays_by_corpus(evaluation)
    if found is None:
        return None
    result: dict[str, Any] = {"utterances_placed": len(evaluation.delays or {}), "audio": {}, "wall": {}}
    for name, clock, delays in found:
        result[clock][name] = {
            "words": delays.words,
            "at_end": delays.at_end,
            **dict(zip(("shown_median_ms", "shown_p95_ms"), (round(value, 1) for value in delays.shown), strict=True)),
            **dict(zip(("final_median_ms", "final_p95_ms"), (round(value, 1) for value in delays.final), strict=True)),
        }
    return result


def _delays_by_corpus(evaluation: Evaluation) -> list[tuple[str, str, Delays]] | None:
    """(corpus, clock, delays); the wall's clock only where the audio came as fast as it was spoken."""
    if evaluation.delays is None:
        return None
    groups = {
        name: [delay for result in results for delay in evaluation.delays.get(result.utterance.name, ())]
        for name, results in by_corpus(evaluation.results).items()
    }
    if len(groups) > 1:
        groups[ALL] = [delay for group in groups.values() for delay in group]
    clocks = ("audio", "wall") if evaluation.paced else ("audio",)
    lines = []
    for name, group in groups.items():
        for clock in clocks:
            delays = summary(group, wall=clock == "wall")
            if delays:
                lines.append((name, clock, delays))
    return lines


def _row(columns: Sequence[tuple[str, str]]) -> list[str]:
    said, understood = zip(*columns, strict=True) if columns else ((), ())
    return [f"    said: {' '.join(said)}".rstrip(), f"    text: {' '.join(understood)}".rstrip()]
