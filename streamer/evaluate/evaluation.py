"""Recognises a manifest through a service or the bare engine, and evaluates it: the library of `streamer evaluate`.

The service needs asyncio, and the engine needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.distribution import install_command
from streamer.evaluate.manifest import Utterance
from streamer.evaluate.measures.error_rates import score_utterance
from streamer.evaluate.measures.word_figures import ReferenceAlignments
from streamer.evaluate.reports.report import Evaluation
from streamer.evaluate.results import EvaluationRun, ProgressCallback, Unavailable
from streamer.evaluate.service_runner import ServiceRunner
from streamer.machine.torch_import import import_torch


@dataclass(frozen=True)
class Setup:
    """How utterances are recognised: the options of a session, how many at once, through a service or the engine."""

    options: Mapping[str, Any]
    sessions: int = 8
    engine: bool = False
    paced: bool = False  # only for a service: send audio as fast as it was spoken
    bundle: Path | None = None  # the folder of another model than the shipped one, not for a service elsewhere
    precision: str | None = None  # only for the engine

    @property
    def through(self) -> str:
        """The thing that recognises the utterances, in the words of a report."""
        return "the engine" if self.engine else "the service"


def recognise_with_engine(utterances: Sequence[Utterance], setup: Setup, progress: ProgressCallback) -> EvaluationRun:
    """Recognise all utterances in this process. Unavailable if there is no recogniser."""
    try:
        # Imported only here, because recognising through a service needs no torch.
        import_torch()
        from streamer.evaluate.engine_runner import EngineRunner
    except ImportError as error:
        raise Unavailable(f"--engine needs {error.name}: {install_command('engine')}.") from error
    runner = EngineRunner(setup.options, at_once=setup.sessions, bundle=setup.bundle, precision=setup.precision)
    return runner.run(utterances, progress)


async def recognise_with_service(
    utterances: Sequence[Utterance], setup: Setup, url: str, progress: ProgressCallback, *, ours: bool = False
) -> EvaluationRun:
    """Recognise all utterances with this service; `ours`: it runs in this process. SessionError if there is none."""
    runner = ServiceRunner(url, setup.options, at_once=setup.sessions, paced=setup.paced, ours=ours)
    return await runner.run(utterances, progress)


def evaluation(
    manifest: str,
    setup: Setup,
    run: EvaluationRun,
    alignments: ReferenceAlignments | None = None,
    half: str | None = None,
) -> Evaluation:
    """Return the content of a report about a manifest, or half of it, that was recognised with this setup."""
    scored = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    options = {**setup.options, "sessions": setup.sessions, "paced": setup.paced}
    if half:
        options["half"] = half
    return Evaluation(manifest, setup.through, options, run, scored, alignments, setup.paced)
