"""The command `streamer evaluate MANIFEST`: what to hear, through what, and where the report goes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.client import SessionError
from streamer.commands.arguments.parser import EMBEDDED, Parser
from streamer.commands.arguments.recognition import wishes
from streamer.commands.evaluate import add_hearing_arguments
from streamer.distribution import install_command
from streamer.evaluate.hearing import Progress, Run
from streamer.evaluate.manifest import ManifestError, Utterance, chosen, read_manifest
from streamer.evaluate.measures.alignment import read_alignment
from streamer.evaluate.measures.scores import scored
from streamer.evaluate.measures.words import Alignments
from streamer.evaluate.reports.comparison import Setting, comparison, settings
from streamer.evaluate.reports.report import Evaluation, content, hypothesis_line, text
from streamer.terminal.status_lines import StatusLines, is_terminal
from streamer.timing import Timing
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.embedded import Embedded


class Unavailable(Exception):
    """There is nothing to evaluate: the service or the engine cannot be had, for this reason."""


def evaluate(options: argparse.Namespace) -> int:
    """Evaluates one manifest; 0 only if every utterance was heard to its end."""
    if not options.engine and (options.bundle or options.precision):
        return _fail("--bundle and --precision are about the bare engine: add --engine.", 2)
    if options.engine and options.paced:
        return _fail("--paced is about a service: the bare engine hears as fast as it can.", 2)
    for path in (options.json, options.hypotheses):
        if path and not Path(path).parent.is_dir():
            return _fail(f"{path}: there is no folder {Path(path).parent}.", 2)
    try:
        compared = settings(options.compare)
    except ValueError as error:
        return _fail(f"{error}.", 2)
    if compared[0] and options.hypotheses:
        return _fail("--hypotheses are those of one setting: leave --compare out.", 2)
    varied = [_with(options, setting) for setting in compared]
    found: list[tuple[Setting, Evaluation]] = []
    try:
        utterances = chosen(read_manifest(Path(options.manifest)), options.corpus, options.limit, options.half)
        alignments = read_alignment(Path(options.alignment), utterances) if options.alignment else None
        for setting, each in zip(compared, varied, strict=True):
            run = heard_by(utterances, each)
            if isinstance(run, int):
                return run
            found.append((setting, _evaluation(each, run, alignments)))
    except (ManifestError, Unavailable, TritonError, SessionError) as error:
        return _fail(str(error))
    return _report(options, found)


def heard_by(utterances: Sequence[Utterance], options: argparse.Namespace) -> Run | int:
    """The utterances through what the options ask for: a service, or the bare engine; an exit status if interrupted."""
    asked = wishes(options)
    progress = _Progress(utterances)
    try:
        if options.engine:
            return _through_engine(utterances, asked, options, progress)
        return _through_service(utterances, asked, options, progress)
    finally:
        progress.clear()


def _through_engine(
    utterances: Sequence[Utterance], asked: dict[str, Any], options: argparse.Namespace, progress: Progress
) -> Run:
    try:
        # Here and nowhere else: the way through a service does without torch.
        from streamer.engine.models.acoustic import BundleError
        from streamer.evaluate.bare import Bare
    except ImportError as error:
        raise Unavailable(f"--engine needs {error.name}: {install_command('engine')}.") from error
    try:
        bare = Bare(asked, at_once=options.sessions, bundle=options.bundle, precision=options.precision)
    except BundleError as error:
        raise Unavailable(f"{str(error).rstrip('.')}.") from error
    return bare.hear(utterances, progress)


def _through_service(
    utterances: Sequence[Utterance], asked: dict[str, Any], options: argparse.Namespace, progress: Progress
) -> Run | int:
    server = options.server
    if server is None and is_ready(DEFAULT_HOST, DEFAULT_PORT):
        server = websocket_url(f"{DEFAULT_HOST}:{DEFAULT_PORT}")
    with ExitStack() as stack:
        embedded: Embedded | None = None
        if server in (None, EMBEDDED):
            from streamer.embedded import Embedded

            embedded = stack.enter_context(Embedded(Timing()))
        from streamer.commands.interrupt import run_until_signal
        from streamer.evaluate.sessions import Sessions

        runs: list[Run] = []

        async def hear(url: str) -> int:
            sessions = Sessions(url, asked, at_once=options.sessions, paced=options.paced, ours=embedded is not None)
            runs.append(await sessions.hear(utterances, progress))
            return 0

        async def work() -> int:
            if embedded is None:
                return await hear(server)
            async with embedded.serving() as url:
                return await hear(url)

        status = run_until_signal(work())
        return runs[0] if runs else status


def _with(options: argparse.Namespace, setting: Setting) -> argparse.Namespace:
    """The same options but for some of them; the program ends where these are none."""
    parser = Parser(prog="streamer evaluate", allow_abbrev=False)
    add_hearing_arguments(parser)
    return parser.parse_args([options.manifest, *setting], argparse.Namespace(**vars(options)))


def _evaluation(options: argparse.Namespace, run: Run, alignments: Alignments | None) -> Evaluation:
    results = [scored(hearing.utterance, hearing.words, hearing.failure) for hearing in run.hearings]
    used = {**wishes(options), "sessions": options.sessions, "paced": options.paced}
    if options.half:
        used["half"] = options.half
    through = "the engine" if options.engine else "the service"
    return Evaluation(options.manifest, through, used, run, results, alignments, options.paced)


def _report(options: argparse.Namespace, found: Sequence[tuple[Setting, Evaluation]]) -> int:
    [*_, (setting, evaluation)] = found
    if setting:
        sys.stdout.write(f"{comparison(found)}\n")
        report: dict[str, Any] = {"settings": [content(each, options.worst) for _, each in found]}
    else:
        sys.stdout.write(text(evaluation, options.worst))
        report = content(evaluation, options.worst)
    try:
        if options.json:
            _write(options.json, [json.dumps(report, ensure_ascii=False, indent=1)])
        if options.hypotheses:
            lines = (
                hypothesis_line(result, hearing.emissions)
                for result, hearing in zip(evaluation.results, evaluation.run.hearings, strict=True)
            )
            _write(options.hypotheses, (json.dumps(line, ensure_ascii=False) for line in lines))
    except OSError as error:
        return _fail(f"{error.filename} cannot be written: {error.strerror}.")
    failed = max(len(each.failed) for _, each in found)
    broken = sum(hearing.showings.broken for _, each in found for hearing in each.run.hearings)
    if failed:
        return _fail(f"{failed} of {len(evaluation.results)} utterances failed; the report names them.")
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
