"""An evaluation made by hand: "the cat sat" was heard as "the bat sat", and "dogs run" as nothing."""

from __future__ import annotations

from pathlib import Path

from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from streamer.commands.accuracy.report import Evaluation
from streamer.commands.accuracy.results import (
    EndDelay,
    EvaluationRun,
    FinalRequest,
    PartialCounts,
    TimedFinal,
    TimedWord,
    TimePoint,
    UtteranceResult,
    WordSpan,
)
from streamer.commands.accuracy.word_errors import score_utterance
from streamer.commands.accuracy.word_figures import AlignedWord

CAT = Utterance("cat.wav", "pets", "s1", ("the", "cat", "sat"), AudioLocation(Path("unused")))
DOG = Utterance("dog.wav", "pets", None, ("dogs", "run"), AudioLocation(Path("unused")))


def evaluation(failure: str = "", paced: bool = False) -> Evaluation:
    """Both right words end at 400 ms, and are reported 20 ms late; `failure` is that of the second session."""
    moments = TimePoint(500, 600.0), TimePoint(700, 900.0), TimePoint(1000, 1200.0)
    words = tuple(TimedWord(word, *moments, WordSpan(120, 410), 2 / 3) for word in ("the", "bat", "sat"))
    delay = EndDelay(FinalRequest.STOP, 120.0) if paced else None
    cat = UtteranceResult(CAT, 3.0, (TimedFinal(words, 2 / 3),), partials=PartialCounts(4, 1), end_delay=delay)
    run = EvaluationRun([cat, UtteranceResult(DOG, 1.0, (), failure)], 2.0, {"engine": 1.0})
    scored = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    places = [AlignedWord(word, 100, 400) for word in CAT.words]
    return Evaluation("pets.tsv", "the engine", {"step_ms": 320}, run, scored, {"cat.wav": places}, paced)
