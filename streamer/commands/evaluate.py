"""The command `streamer evaluate`: has a manifest heard, prints the report, and writes it into files.

The library behind it is imported only when it runs: it needs packages that not everybody has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamer.chosen_service import EMBEDDED, chosen, chosen_service
from streamer.commands.arguments.hearing import add_hearing_arguments, hearing_setup
from streamer.commands.arguments.key import said_of
from streamer.commands.arguments.parser import Parser, number
from streamer.commands.interrupt import AGAIN, run_until_signal
from streamer.distribution import install_command
from streamer.terminal.status_lines import StatusLines, is_terminal
from streamer.timing import Timing
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.evaluate.evaluation import Setup
    from streamer.evaluate.manifest import Utterance
    from streamer.evaluate.reports.comparison import Setting
    from streamer.evaluate.reports.report import Evaluation
    from streamer.evaluate.results import EvaluationRun

EXAMPLES: Final = """\
A manifest is a table with tabs and a header: `file` and `text`, and perhaps `corpus` and `speaker`; or `shard`,
`member` and `text` for audio inside tar files. Paths are relative to it. docs/how-to/evaluation.md says the rest:
what counts as the same word, and what the figures mean.

examples:
  streamer evaluate audio_samples/samples.tsv
  streamer evaluate dev.tsv --limit 100 --worst 10        a part of it, evenly spread
  streamer evaluate dev.tsv --engine --step-ms 640        without Triton: the same words, sooner
  streamer evaluate dev.tsv --json a.json --hypotheses a.jsonl
  streamer evaluate dev.tsv --paced --sessions 32 --alignment dev.phones.jsonl
  streamer evaluate dev.tsv --engine --half second --alignment dev.phones.jsonl --compare step-ms=160,320,640

The exit status is 0 only if every utterance was heard to its end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `evaluate` accepts."""
    add_hearing_arguments(parser)
    add = parser.add_argument
    add("--paced", action="store_true", help="as fast as it was spoken, live: real delays, not only real words")
    add("--alignment", metavar="FILE", help="where words lie, as JSON lines or CTM: judges times, tells delays")
    add(
        "--compare",
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE…",
        help="a table with a line for each value of another option, such as step-ms=160,320,640; of several: "
        "for each combination",
    )
    add("--worst", type=number, metavar="N", default=5, help="show so many recordings with the most errors (5)")
    add("--json", metavar="PATH", help="write the report for a program")
    add("--hypotheses", metavar="PATH", help="write what was understood of every recording, a JSON object a line")


def run(options: argparse.Namespace) -> int:
    """Evaluates; 0 only if every utterance was heard to its end."""
    try:
        from streamer.client import SessionError
        from streamer.evaluate.manifest import ManifestError
        from streamer.evaluate.reports.comparison import setting_combinations
        from streamer.evaluate.results import Unavailable
    except ImportError as error:
        return _fail(f"evaluate needs {error.name}: {install_command('evaluate')}.")
    try:
        compared = setting_combinations(options.compare)
        _check(options, compared)
    except ValueError as error:
        return _fail(f"{error}.", 2)
    varied = [_with(options, setting) for setting in compared]
    try:
        return _report(options, list(zip(compared, _evaluations(options, varied), strict=True)))
    except SessionError as error:
        return _fail(said_of(error.code, str(error)))
    except (ManifestError, Unavailable, TritonError) as error:
        return _fail(str(error))


def heard_by(utterances: Sequence[Utterance], setup: Setup, server: str | None) -> EvaluationRun:
    """The utterances through what is asked for, with the progress on a terminal; a signal ends the program in order."""
    from streamer.evaluate.evaluation import hear_through_engine, hear_through_service

    progress = _Progress(utterances)
    try:
        if setup.engine:
            return hear_through_engine(utterances, setup, progress)
        where = chosen(server)
        runs: list[EvaluationRun] = []
        with chosen_service(where, Timing()) as ready_service:

            async def work() -> int:
                async with ready_service() as url:
                    runs.append(await hear_through_service(utterances, setup, url, progress, ours=where == EMBEDDED))
                return 0

            status = run_until_signal(work(), tell=progress.stop)
        if not runs:
            raise SystemExit(status)
        return runs[0]
    finally:
        progress.clear()


def _check(options: argparse.Namespace, compared: Sequence[Setting]) -> None:
    """ValueError for arguments that do not go together."""
    if not options.engine and (options.bundle or options.precision):
        raise ValueError("--bundle and --precision are about the bare engine: add --engine")
    if options.engine and options.paced:
        raise ValueError("--paced is about a service: the bare engine hears as fast as it can")
    for path in (options.json, options.hypotheses):
        if path and not Path(path).parent.is_dir():
            raise ValueError(f"{path}: there is no folder {Path(path).parent}")
    if compared[0] and options.hypotheses:
        raise ValueError("--hypotheses are those of one setting: leave --compare out")


def _with(options: argparse.Namespace, setting: Setting) -> argparse.Namespace:
    """The same options but for some of them; the program ends where these are none."""
    parser = Parser(prog="streamer evaluate", allow_abbrev=False)
    add_hearing_arguments(parser)
    return parser.read([options.manifest, *setting], argparse.Namespace(**vars(options)))


def _evaluations(options: argparse.Namespace, varied: Sequence[argparse.Namespace]) -> list[Evaluation]:
    from streamer.evaluate.evaluation import evaluation
    from streamer.evaluate.manifest import read_manifest, select_utterances
    from streamer.evaluate.measures.reference_alignment import read_alignment

    manifest = read_manifest(Path(options.manifest))
    utterances = select_utterances(manifest, options.corpus, options.limit, options.half)
    alignments = read_alignment(Path(options.alignment), utterances) if options.alignment else None
    found = []
    for each in varied:
        setup = hearing_setup(each, paced=options.paced)
        heard = heard_by(utterances, setup, each.server)
        found.append(evaluation(options.manifest, setup, heard, alignments, each.half))
    return found


def _report(options: argparse.Namespace, found: Sequence[tuple[Setting, Evaluation]]) -> int:
    from streamer.evaluate.reports.comparison import comparison_text
    from streamer.evaluate.reports.report import hypothesis_line, report_json, report_text

    [*_, (setting, evaluation)] = found
    if setting:
        sys.stdout.write(f"{comparison_text(found)}\n")
        report: dict[str, Any] = {"settings": [report_json(each, options.worst) for _, each in found]}
    else:
        sys.stdout.write(report_text(evaluation, options.worst))
        report = report_json(evaluation, options.worst)
    try:
        if options.json:
            _write(options.json, [json.dumps(report, ensure_ascii=False, indent=1)])
        if options.hypotheses:
            lines = (
                hypothesis_line(scored, result.timed_words)
                for scored, result in zip(evaluation.scored, evaluation.run.results, strict=True)
            )
            _write(options.hypotheses, (json.dumps(line, ensure_ascii=False) for line in lines))
    except OSError as error:
        return _fail(f"{error.filename} cannot be written: {error.strerror}.")
    failed = max(len(each.failed) for _, each in found)
    broken = sum(result.partials.broken for _, each in found for result in each.run.results)
    if failed:
        return _fail(f"{failed} of {len(evaluation.scored)} utterances failed; the report names them.")
    if broken:
        return _fail(f"{broken} words that were shown as stable did not stay: this must never happen.")
    return 0


class _Progress:
    """How far it is, on a terminal only."""

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._line = StatusLines(sys.stderr) if is_terminal(sys.stderr) else None
        self._all = len(utterances)
        self._done = 0
        self._seconds = 0.0

    def __call__(self, utterance: Utterance, seconds: float) -> None:
        self._done += 1
        self._seconds += seconds
        if self._line:
            self._line.show([f"{self._done} of {self._all} utterances, {self._seconds / 60:.1f} min"])

    def stop(self) -> None:
        """Ctrl-C or SIGTERM came: says at once what there is to wait for."""
        self.clear()
        print(
            f"streamer: stopping: ending the sessions and what this command started. {AGAIN}",
            file=sys.stderr,
            flush=True,
        )

    def clear(self) -> None:
        if self._line:
            self._line.clear()


def _write(name: str, lines: Iterable[str]) -> None:
    """Whole or not at all: an earlier report is only replaced by a complete one."""
    path = Path(name)
    if path.exists() and not path.is_file():
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")  # a pipe, a terminal
        return
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _fail(reason: str, status: int = 1) -> int:
    print(f"streamer: {reason}", file=sys.stderr, flush=True)
    return status
