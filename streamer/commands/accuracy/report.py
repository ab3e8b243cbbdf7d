"""The report of one evaluation, for people (tables in plain text) and programs (JSON). Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from streamer.base.text import counted, joined, part_of
from streamer.commands.accuracy.mark_errors import MarkCounts, mark_errors
from streamer.commands.accuracy.results import EndDelays, EvaluationRun, TimedWord, summarise_end_delays
from streamer.commands.accuracy.word_errors import (
    ALL,
    FEWEST_SPEAKERS,
    INTERVAL_PERCENT,
    RESAMPLES,
    Interval,
    ScoredUtterance,
    corpus_rates,
    pair_words,
    rates_as_dict,
    worst,
)
from streamer.commands.accuracy.word_figures import ReferenceAlignments, WordFigures, word_figures
from streamer.commands.accuracy.word_sections import (
    LINE,
    confidence_text,
    delays_text,
    partials_text,
    table,
    times_text,
    words_json,
)

_NOTHING: Final = "***"


@dataclass(frozen=True)
class Evaluation:
    """The content of a report. `alignments` has the utterances with an alignment, None if none was given."""

    manifest: str
    through: str
    options: dict[str, object]
    run: EvaluationRun
    scored: Sequence[ScoredUtterance]
    alignments: ReferenceAlignments | None
    paced: bool

    @property
    def failed(self) -> list[ScoredUtterance]:
        """The utterances whose session failed."""
        return [result for result in self.scored if result.failure]

    @property
    def aligned(self) -> int | None:
        """How many utterances have an alignment."""
        if self.alignments is None:
            return None
        return sum(result.utterance.name in self.alignments for result in self.scored)

    def mark_errors(self) -> dict[str, dict[str, MarkCounts]]:
        """Return the figures about marks and capitals, by corpus; empty without the written form."""
        return mark_errors(self.run.results) if self.options.get("written") else {}

    def end_delays(self) -> dict[str, EndDelays]:
        """Return how long clients waited for the last final; empty if the audio was not paced."""
        return summarise_end_delays([result.end_delay for result in self.run.results if not result.failure])

    def word_figures(self) -> dict[str, WordFigures]:
        """Return the figures about single words, by corpus."""
        return word_figures(self.run.results, self.alignments)


def report_text(evaluation: Evaluation, number_of_worst: int) -> str:
    """Return the report for people."""
    figures = evaluation.word_figures()
    parts = [report_heading(evaluation), _rates(evaluation), _kinds(evaluation), _speed(evaluation.run)]
    parts += [marks_text(evaluation.mark_errors())]
    parts += [paragraph(figures) for paragraph in (partials_text, confidence_text)]
    if evaluation.alignments is not None:
        parts += [delays_text(figures, evaluation.paced), times_text(figures), _aligned_note(evaluation)]
    parts += [ends_text(evaluation.end_delays())]
    worst_utterances = worst(evaluation.scored, number_of_worst)
    if worst_utterances:
        parts.append("\n\n".join(["The utterances with the most errors:", *map(side_by_side, worst_utterances)]))
    if evaluation.failed:
        lines = [f"  {result.utterance.name}: {result.failure}" for result in evaluation.failed]
        parts.append("\n".join([f"FAILED: {part_of(len(lines), len(evaluation.scored), 'utterance')}", *lines]))
    return "\n\n".join(part for part in parts if part) + "\n"


def report_heading(evaluation: Evaluation) -> str:
    """Return the heading of a report: what was recognised, through what, and with which options."""
    # The heading shows only the length of lists, such as hotwords.
    brief = {name: len(value) if isinstance(value, list) else value for name, value in evaluation.options.items()}
    options = ", ".join(f"{name} {value}" for name, value in brief.items())
    utterances = counted(len(evaluation.scored), "utterance")
    return f"{utterances} of {evaluation.manifest} through {evaluation.through} ({options})"


def report_json(evaluation: Evaluation, number_of_worst: int) -> dict[str, object]:
    """Return the report for programs."""
    lines = {line.name: rates_as_dict(line) for line in corpus_rates(evaluation.scored)}
    run = evaluation.run
    # A single corpus is reported under its name and as `all`.
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
            "cpu_per_audio_s": {name: round(seconds, 4) for name, seconds in _cpu(run).items()},
        },
        **words_json(evaluation.word_figures(), evaluation.aligned, evaluation.paced),
        "ends": ends_json(evaluation.end_delays()),
        "marks": marks_json(evaluation.mark_errors()),
        "worst": [hypothesis_line(result) for result in worst(evaluation.scored, number_of_worst)],
        "failed": [{"name": result.utterance.name, "reason": result.failure} for result in evaluation.failed],
        "intervals": {"confidence": INTERVAL_PERCENT, "resamples": RESAMPLES},
    }


def hypothesis_line(result: ScoredUtterance, timed_words: Sequence[TimedWord] = ()) -> dict[str, object]:
    """Return one utterance as JSON values."""
    utterance, errors = result.utterance, result.errors
    content: dict[str, object] = {
        "name": utterance.name,
        "corpus": utterance.corpus,
        "speaker": utterance.speaker,
        "reference": joined(utterance.words),
        "hypothesis": joined(result.hypothesis),
        **asdict(errors),
        "failure": result.failure or None,
    }
    if timed_words:
        content["shown_ms"] = [timed_word.shown.audio_ms for timed_word in timed_words]
        content["final_ms"] = [timed_word.final.audio_ms for timed_word in timed_words]
    return content


def side_by_side(result: ScoredUtterance) -> str:
    """Return the reference above the hypothesis, word by word. Errors are in capitals, missing words are stars."""
    reference, hypothesis = result.utterance.words, result.hypothesis
    columns = []
    for pair in pair_words(reference, hypothesis):
        reference_word = _NOTHING if pair.reference is None else reference[pair.reference]
        hypothesis_word = _NOTHING if pair.hypothesis is None else hypothesis[pair.hypothesis]
        if reference_word != hypothesis_word:
            reference_word, hypothesis_word = reference_word.upper(), hypothesis_word.upper()
        width = max(len(reference_word), len(hypothesis_word))
        columns.append((reference_word.ljust(width), hypothesis_word.ljust(width)))
    errors = result.errors
    summary = f"{counted(errors.word_errors, 'error')} in {counted(errors.words, 'word')}"
    lines = [f"  {result.utterance.name} ({result.utterance.corpus}): {summary}"]
    row: list[tuple[str, str]] = []
    for column in columns:
        if row and sum(len(reference_word) + 1 for reference_word, _ in row) + len(column[0]) > LINE - 9:
            lines += _row(row)
            row = []
        row.append(column)
    return "\n".join(lines + _row(row))


def rate_text(interval: Interval) -> str:
    """Return a rate in percent with its bounds."""
    value, low, high = interval
    bounds = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:.1f}{bounds}"


def _rates(evaluation: Evaluation) -> str:
    lines = corpus_rates(evaluation.scored)
    rows = [
        [
            line.name,
            str(line.utterances),
            str(line.speakers),
            str(line.errors.words),
            rate_text(line.wer),
            rate_text(line.cer),
        ]
        for line in lines
    ]
    note = (
        f"In brackets: {INTERVAL_PERCENT} % intervals, by a bootstrap of {RESAMPLES} resamples over the speakers of a "
        f"corpus where at least {FEWEST_SPEAKERS} are known, else over its utterances."
    )
    header = ["corpus", "utterances", "speakers", "words", "word errors %", "character errors %"]
    return f"{table(header, rows)}\n{textwrap.fill(note, LINE)}"


def _kinds(evaluation: Evaluation) -> str:
    rows = []
    for line in corpus_rates(evaluation.scored):
        errors = line.errors
        kinds = (errors.substitutions, errors.deletions, errors.insertions)
        rows.append([line.name, *(f"{kind} ({100 * kind / errors.words:.1f} %)" for kind in kinds)])
    return table(["of the words of the reference", "substituted", "deleted", "inserted"], rows)


def _speed(run: EvaluationRun) -> str:
    if not run.seconds:
        return ""
    line = f"Speed: {run.seconds:.0f} s of audio in {run.wall_s:.1f} s, {run.seconds / run.wall_s:.1f} times real time"
    cpu = _cpu(run)
    if cpu:
        parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in cpu.items())
        line += f".\nCPU seconds for a second of audio (of one core for one live stream): {parts}"
    return line + "."


def _cpu(run: EvaluationRun) -> dict[str, float]:
    return {name: seconds / run.seconds for name, seconds in run.cpu.items()} if run.seconds else {}


def _aligned_note(evaluation: Evaluation) -> str:
    placed = part_of(evaluation.aligned or 0, len(evaluation.scored), "utterance")
    note = (
        f"Delays and times are those of the words that were recognised correctly, in the {placed} that the alignment "
        "places: medians and 90th percentiles."
    )
    return textwrap.fill(note, LINE)


def _row(columns: Sequence[tuple[str, str]]) -> list[str]:
    references, hypotheses = zip(*columns, strict=True) if columns else ((), ())
    return [f"    said: {' '.join(references)}".rstrip(), f"    text: {' '.join(hypotheses)}".rstrip()]


# The section of a report about the delays of the last finals.


def ends_text(delays: Mapping[str, EndDelays]) -> str:
    """Return how long clients waited, as a table; empty if there are no delays."""
    if not delays:
        return ""
    rows = [
        [
            f"{kind} to final",
            str(summary.number),
            *(f"{value:.0f}" for value in (summary.median_ms, summary.p95_ms, summary.longest_ms)),
        ]
        for kind, summary in delays.items()
    ]
    return table(["wait for the last final, ms", "number", "median", "95th %", "longest"], rows)


def ends_json(delays: Mapping[str, EndDelays]) -> dict[str, object] | None:
    """Return the delays as JSON values."""
    if not delays:
        return None
    return {kind: {name: round(value, 1) for name, value in vars(summary).items()} for kind, summary in delays.items()}


# The section of a report about marks and capitals.

Figures = Mapping[str, Mapping[str, MarkCounts]]


def marks_text(figures: Figures) -> str:
    """Return a table of how well marks and capitals agree with the references; empty if these have none."""
    if not figures:
        return ""
    rows = [
        [
            name,
            kind,
            str(counts.expected),
            str(counts.written),
            *map(_percent, (counts.precision, counts.recall, counts.f1)),
        ]
        for name, kinds in figures.items()
        for kind, counts in kinds.items()
    ]
    header = ["marks and capitals", "kind", "expected", "written", "right %", "found %", "F1 %"]
    note = (
        "At words that were recognised right. 'Right': the part of the written ones that the references have too. "
        "'Found': the part of those of the references that were written. 'F1': the harmonic mean of both."
    )
    return f"{table(header, rows)}\n{textwrap.fill(note, LINE)}"


def marks_json(figures: Figures) -> dict[str, object] | None:
    """Return the figures as JSON values."""
    if not figures:
        return None
    return {
        name: {
            kind: {
                "expected": counts.expected,
                "written": counts.written,
                "right": counts.right,
                "precision": _round(counts.precision),
                "recall": _round(counts.recall),
                "f1": _round(counts.f1),
            }
            for kind, counts in kinds.items()
        }
        for name, kinds in figures.items()
    }


def _round(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
