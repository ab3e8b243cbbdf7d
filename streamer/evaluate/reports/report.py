"""An evaluation for people (tables in plain text) and for programs (JSON), from the same figures. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from streamer.evaluate.emission import Emission
from streamer.evaluate.hearing import Run
from streamer.evaluate.measures.bootstrap import CONFIDENCE, FEWEST_SPEAKERS, RESAMPLES, Interval
from streamer.evaluate.measures.errors import aligned
from streamer.evaluate.measures.scores import ALL, Scored, as_dict, rates, worst
from streamer.evaluate.measures.words import Alignments, WordFigures, word_figures
from streamer.evaluate.reports.sections import confidence_text, delays_text, showings_text, times_text, words_content
from streamer.evaluate.reports.table import LINE, table

_NOTHING: Final = "***"


@dataclass(frozen=True)
class Evaluation:
    """Everything that a report is made of; `alignments` are of the utterances that the alignment places, if one is."""

    manifest: str
    through: str
    options: dict[str, Any]
    run: Run
    results: Sequence[Scored]
    alignments: Alignments | None
    paced: bool

    @property
    def failed(self) -> list[Scored]:
        """The utterances whose session failed."""
        return [result for result in self.results if result.failure]

    @property
    def placed(self) -> int | None:
        """How many utterances the alignment places."""
        if self.alignments is None:
            return None
        return sum(result.utterance.name in self.alignments for result in self.results)

    def word_figures(self) -> dict[str, WordFigures]:
        """What is told of single words, by corpus."""
        return word_figures(self.run.hearings, self.alignments)


def text(evaluation: Evaluation, number_of_worst: int) -> str:
    """The report for people."""
    figures = evaluation.word_figures()
    parts = [head(evaluation), _rates(evaluation), _kinds(evaluation), _speed(evaluation.run)]
    parts += [paragraph(figures) for paragraph in (showings_text, confidence_text)]
    if evaluation.alignments is not None:
        parts += [delays_text(figures, evaluation.paced), times_text(figures), _placed(evaluation)]
    listed = worst(evaluation.results, number_of_worst)
    if listed:
        parts.append("\n\n".join(["The utterances with the most errors:", *map(side_by_side, listed)]))
    if evaluation.failed:
        lines = [f"  {result.utterance.name}: {result.failure}" for result in evaluation.failed]
        parts.append("\n".join([f"FAILED: {len(lines)} of {len(evaluation.results)} utterances", *lines]))
    return "\n\n".join(part for part in parts if part) + "\n"


def head(evaluation: Evaluation) -> str:
    """What was heard, and through what."""
    # Of lists, such as hotwords, the length is enough.
    told = {name: len(value) if isinstance(value, list) else value for name, value in evaluation.options.items()}
    options = ", ".join(f"{name} {value}" for name, value in told.items())
    return f"{len(evaluation.results)} utterances of {evaluation.manifest} through {evaluation.through} ({options})"


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
        **words_content(evaluation.word_figures(), evaluation.placed, evaluation.paced),
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
        if row and sum(len(said) + 1 for said, _ in row) + len(column[0]) > LINE - 9:
            lines += _row(row)
            row = []
        row.append(column)
    return "\n".join(lines + _row(row))


def shown(found: Interval) -> str:
    """A rate in percent with its bounds."""
    bounds = "" if found.low is None or found.high is None else f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{100 * found.value:.1f}{bounds}"


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
    return f"{table(header, rows)}\n{textwrap.fill(note, LINE)}"


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


def _placed(evaluation: Evaluation) -> str:
    note = (
        f"Delays and times are those of the words that were understood rightly, in the {evaluation.placed} of "
        f"{len(evaluation.results)} utterances that the alignment places: medians and 90th percentiles."
    )
    return textwrap.fill(note, LINE)


def _row(columns: Sequence[tuple[str, str]]) -> list[str]:
    said, understood = zip(*columns, strict=True) if columns else ((), ())
    return [f"    said: {' '.join(said)}".rstrip(), f"    text: {' '.join(understood)}".rstrip()]
