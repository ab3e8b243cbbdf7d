"""The command `streamer evaluate`, and the arguments of all commands that recognise the recordings of a manifest.

The library for this is imported only when the command runs: it needs packages that are not always installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.limits import OFF
from streamer.base.package import install_command
from streamer.base.text import as_sentence, counted, json_text, part_of
from streamer.base.timing import Timing
from streamer.bridge.triton import TritonError
from streamer.commands.arguments import (
    Parser,
    add_key_argument,
    add_model_argument,
    add_server_argument,
    count,
    error_text,
    model_choice,
    model_folder,
    number,
)
from streamer.commands.recognition import add_recognition_arguments, options_with_second_pass
from streamer.commands.service import EMBEDDED, choose_service, chosen_service
from streamer.commands.terminal.status_lines import StatusLines, is_terminal
from streamer.models.library import LibraryError
from streamer.models.readers import AUTO, choose_reader

if TYPE_CHECKING:
    from streamer.commands.accuracy.comparison import Setting
    from streamer.commands.accuracy.evaluation import Setup
    from streamer.commands.accuracy.manifest import Utterance
    from streamer.commands.accuracy.report import Evaluation
    from streamer.commands.accuracy.results import EvaluationRun


EXAMPLES: Final = """\
A manifest is a table with tabs and a header: `file` and `text`, and optionally `corpus` and `speaker`; or `shard`,
`member` and `text` for audio inside tar files. Paths are relative to the manifest. docs/how-to/evaluation.md explains
which words count as the same, and what the figures mean.

examples:
  streamer evaluate audio_samples/samples.tsv
  streamer evaluate dev.tsv --limit 100 --worst 10        a part of it, evenly spread
  streamer evaluate dev.tsv --engine --step-ms 640        without Triton: the same words, faster
  streamer evaluate dev.tsv --json a.json --hypotheses a.jsonl
  streamer evaluate dev.tsv --paced --sessions 32 --alignment dev.phones.jsonl
  streamer evaluate dev.tsv --engine --half second --alignment dev.phones.jsonl --compare step-ms=160,320,640
  streamer evaluate dev.tsv --engine --compare reader=moonshine-tiny,moonshine-base

The exit status is 0 only if every utterance was recognised to its end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `evaluate`."""
    add_hearing_arguments(parser)
    add = parser.add_argument
    add("--paced", action="store_true", help="send the audio as fast as it was spoken, to measure delays too")
    add("--alignment", metavar="FILE", help="the times of the words, as JSON lines or CTM, to measure times and delays")
    add(
        "--compare",
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE…",
        help="a table with a line for each value of another option, such as step-ms=160,320,640; given several times, "
        "a line for each combination. The differences in errors from the first line are told with their intervals",
    )
    add("--worst", type=number, metavar="N", default=5, help="show this many recordings with the most errors (5)")
    add("--json", metavar="PATH", help="write the report as JSON")
    add("--hypotheses", metavar="PATH", help="write what was recognised in every recording, one JSON object on a line")


def run(options: argparse.Namespace) -> int:
    """Evaluate the manifest. Return 0 only if every utterance was recognised to its end."""
    try:
        from streamer.client import SessionError
        from streamer.commands.accuracy.comparison import setting_combinations
        from streamer.commands.accuracy.manifest import ManifestError
        from streamer.commands.accuracy.results import Unavailable
    except ImportError as error:
        return _fail(f"evaluate needs {error.name}: {install_command('evaluate')}.")
    try:
        settings = setting_combinations(options.compare)
        if settings[0] and options.hypotheses:
            raise ValueError("--hypotheses needs a single setting: leave out --compare")
        variants = [_changed_options(options, setting) for setting in settings]
        for each in variants:
            _check(each)
    except ValueError as error:
        return _fail(f"{error}.", 2)
    try:
        return _report(options, list(zip(settings, _evaluations(options, variants), strict=True)))
    except SessionError as error:
        return _fail(error_text(error.code, str(error)))
    except (ManifestError, Unavailable, TritonError) as error:
        return _fail(str(error))


def recognise_all(utterances: Sequence[Utterance], setup: Setup, server: str | None) -> EvaluationRun:
    """Recognise the utterances, with progress on a terminal. A signal ends the program in order."""
    from streamer.commands.accuracy.evaluation import recognise_with_engine, recognise_with_service

    progress = _Progress(utterances)
    try:
        if setup.engine:
            return recognise_with_engine(utterances, setup, progress)
        from streamer.commands.interrupt import run_until_signal  # --help does not need it

        where = choose_service(server, setup.bundle)
        runs: list[EvaluationRun] = []
        with chosen_service(where, Timing(), setup.bundle) as ready_service:

            async def work() -> int:
                async with ready_service() as url:
                    runs.append(await recognise_with_service(utterances, setup, url, progress, ours=where == EMBEDDED))
                return 0

            status = run_until_signal(work(), tell=progress.stop)
        if not runs:
            raise SystemExit(status)
        return runs[0]
    finally:
        progress.clear()


def _check(options: argparse.Namespace) -> None:
    """Raise ValueError if arguments contradict each other."""
    if not options.engine and (options.bundle or options.precision):
        raise ValueError("--bundle and --precision are only for the bare engine: add --engine")
    if not options.engine and options.reader != AUTO:
        raise ValueError("--reader is only for the bare engine: add --engine")
    if options.engine and model_choice(options).name:
        raise ValueError(f"there is no model {options.model.name} on this machine, and --engine uses no service")
    if options.engine and options.paced:
        raise ValueError("--paced is only for a service: the bare engine is always as fast as it can be")
    for path in (options.json, options.hypotheses):
        if path and not Path(path).parent.is_dir():
            raise ValueError(f"{path}: the folder {Path(path).parent} does not exist")


def _changed_options(options: argparse.Namespace, setting: Setting) -> argparse.Namespace:
    """Return the options with those of a setting in their place. End the program if that setting is wrong."""
    parser = Parser(prog="streamer evaluate", allow_abbrev=False)
    add_hearing_arguments(parser)
    return parser.read([options.manifest, *setting], argparse.Namespace(**vars(options)))


def _evaluations(options: argparse.Namespace, variants: Sequence[argparse.Namespace]) -> list[Evaluation]:
    from streamer.commands.accuracy.evaluation import evaluation
    from streamer.commands.accuracy.manifest import read_manifest, select_utterances
    from streamer.commands.accuracy.word_figures import read_alignment

    manifest = read_manifest(Path(options.manifest))
    utterances = select_utterances(manifest, options.corpus, options.limit, options.half)
    alignments = read_alignment(Path(options.alignment), utterances) if options.alignment else None
    evaluations = []
    for each in variants:
        setup = hearing_setup(each, paced=options.paced)
        run = recognise_all(utterances, setup, each.server)
        evaluations.append(evaluation(options.manifest, setup, run, alignments, each.half))
    return evaluations


def _report(options: argparse.Namespace, evaluations: Sequence[tuple[Setting, Evaluation]]) -> int:
    from streamer.commands.accuracy.comparison import comparison_json, comparison_text
    from streamer.commands.accuracy.report import hypothesis_line, report_json, report_text

    [*_, (setting, evaluation)] = evaluations
    if setting:
        sys.stdout.write(f"{comparison_text(evaluations)}\n")
        report = comparison_json(evaluations, options.worst)
    else:
        sys.stdout.write(report_text(evaluation, options.worst))
        report = report_json(evaluation, options.worst)
    try:
        if options.json:
            _write(options.json, [json_text(report, indent=1)])
        if options.hypotheses:
            lines = (
                hypothesis_line(scored, result.timed_words)
                for scored, result in zip(evaluation.scored, evaluation.run.results, strict=True)
            )
            _write(options.hypotheses, (json_text(line) for line in lines))
    except OSError as error:
        return _fail(f"{error.filename} cannot be written: {error.strerror}.")
    failed = max(len(each.failed) for _, each in evaluations)
    broken = sum(result.partials.broken for _, each in evaluations for result in each.run.results)
    if failed:
        return _fail(f"{part_of(failed, len(evaluation.scored), 'utterance')} failed; the report names them.")
    if broken:
        words = counted(broken, "word")
        return _fail(f"{words} shown as stable changed later: this must never happen.")
    return 0


class _Progress:
    """Shows on a terminal how many utterances were recognised."""

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._line = StatusLines(sys.stderr) if is_terminal(sys.stderr) else None
        self._total = len(utterances)
        self._count = 0
        self._seconds = 0.0

    def __call__(self, utterance: Utterance, seconds: float) -> None:
        self._count += 1
        self._seconds += seconds
        if self._line:
            self._line.show([f"{part_of(self._count, self._total, 'utterance')}, {self._seconds / 60:.1f} min"])

    def stop(self) -> None:
        """Tell the user what the program waits for after Ctrl-C or SIGTERM."""
        from streamer.commands.interrupt import AGAIN

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
    """Write the whole file or nothing: only a complete report replaces an earlier one."""
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


# The arguments of commands that recognise a manifest: which recordings, and with which service or engine.

PRECISIONS: Final = ("int8", "float32", "bfloat16")
HALVES: Final = ("first", "second")


def add_hearing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments. `evaluate` has them, and so have scripts that do more with the results."""
    add = parser.add_argument
    add("manifest", metavar="MANIFEST", help="a table of recordings and what is said in them")
    way = parser.add_mutually_exclusive_group()
    add_server_argument(way, "the service to evaluate")
    add_key_argument(parser)
    add_model_argument(parser)
    way.add_argument("--engine", action="store_true", help="use the bare engine in this process, not a service")
    add("--bundle", type=Path, metavar="FOLDER", help="with --engine: the folder of another model")
    add(
        "--reader",
        metavar="NAME",
        default=AUTO,
        help=f"with --engine: the reader of this machine that reads segments again, {AUTO} for the best one, or {OFF} "
        f"({AUTO}); `streamer models` lists them",
    )
    add("--precision", choices=PRECISIONS, help="with --engine: the number format (what suits the machine)")
    add("--sessions", type=count, metavar="N", default=8, help="how many recordings at the same time (8)")
    add_recognition_arguments(parser)
    parser.set_defaults(step_ms=320)
    add(
        "--written",
        action="store_const",
        const=True,
        help="recognise the written form, and judge its marks and capitals where the manifest has them",
    )
    add("--corpus", action="append", default=[], metavar="NAME", help="only this corpus; may be given several times")
    add("--half", choices=HALVES, help="only this half: fit values on the first and judge them on the second")
    add("--limit", type=count, metavar="N", help="only this many recordings, evenly spread and always the same")


def hearing_setup(options: argparse.Namespace, *, paced: bool = False) -> Setup:
    """Return the setup that the arguments describe."""
    from streamer.commands.accuracy.evaluation import Setup

    folder = options.bundle or model_folder(options)
    reader = _reader(options.reader) if options.engine else None
    return Setup(
        options_with_second_pass(options), options.sessions, options.engine, paced, folder, options.precision, reader
    )


def _reader(wanted: str) -> Path | None:
    """Return the folder of the reader. TritonError if it is not on this machine."""
    try:
        reader = choose_reader(wanted, alone=True)
    except LibraryError as error:
        raise TritonError(as_sentence(error)) from error
    if reader is None and wanted not in (AUTO, OFF):
        raise TritonError(f"The reader {wanted} is not on this machine: `streamer models get {wanted}` fetches it.")
    return None if reader is None else reader.folder
