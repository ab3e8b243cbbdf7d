"""A manifest heard through a service or the bare engine, and judged: the library behind `streamer evaluate`.

A service is used from within asyncio, the engine is not. The engine is the only one that needs torch.
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


@dataclass(frozen=True)
class Setup:
    """How utterances are heard: with these options of a session, so many at once, through a service or the engine."""

    options: Mapping[str, Any]
    sessions: int = 8
    engine: bool = False
    paced: bool = False  # only a service: as fast as it was spoken
    bundle: Path | None = None  # only the engine: another model than the shipped one
    precision: str | None = None  # only the engine

    @property
    def through(self) -> str:
        """What the utterances are heard through, for a report."""
        return "the engine" if self.engine else "the service"


def hear_through_engine(utterances: Sequence[Utterance], setup: Setup, progress: ProgressCallback) -> EvaluationRun:
    """All of them, by a recogniser in this process; Unavailable if there is none."""
    try:
        # Here and nowhere else: the way through a service does without torch.
        from streamer.evaluate.engine_runner import EngineRunner
    except ImportError as error:
        raise Unavailable(f"--engine needs {error.name}: {install_command('engine')}.") from error
    runner = EngineRunner(setup.options, at_once=setup.sessions, bundle=setup.bundle, precision=setup.precision)
    return runner.run(utterances, progress)


async def hear_through_service(
    utterances: Sequence[Utterance], setup: Setup, url: str, progress: ProgressCallback, *, ours: bool = False
) -> EvaluationRun:
    """All of them, by the service there; `ours` if it is in this process. SessionError if there is no service."""
    runner = ServiceRunner(url, setup.options, at_once=setup.sessions, paced=setup.paced, ours=ours)
    return await runner.run(utterances, progress)


def evaluation(
    manifest: str,
    setup: Setup,
    run: EvaluationRun,
    alignments: ReferenceAlignments | None = None,
    half: str | None = None,
) -> Evaluation:
    """All that is to be told of a manifest, or of half of it, that was heard this way."""
    scored = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    used = {**setup.options, "sessions": setup.sessions, "paced": setup.paced}
    if half:
        used["half"] = half
    return Evaluation(manifest, setup.through, used, run, scored, alignments, setup.paced)
