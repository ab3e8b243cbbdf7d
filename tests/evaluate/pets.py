"""An evaluation made by hand: "the cat sat" was heard as "the bat sat", and "dogs run" as nothing."""

from __future__ import annotations

from pathlib import Path

from streamer.evaluate.emission import Emission, Final, Moment, Span
from streamer.evaluate.hearing import Hearing, Run
from streamer.evaluate.manifest import AudioLocation, Utterance
from streamer.evaluate.measures.alignment import Placed
from streamer.evaluate.measures.partials import Showings
from streamer.evaluate.measures.scores import scored
from streamer.evaluate.reports.report import Evaluation

CAT = Utterance("cat.wav", "pets", "s1", ("the", "cat", "sat"), AudioLocation(Path("unused")))
DOG = Utterance("dog.wav", "pets", None, ("dogs", "run"), AudioLocation(Path("unused")))


def evaluation(failure: str = "", paced: bool = False) -> Evaluation:
    """Both right words end at 400 ms and are told 20 ms late; `failure` is that of the second session."""
    moments = Moment(500, 600.0), Moment(700, 900.0), Moment(1000, 1200.0)
    words = tuple(Emission(word, *moments, Span(120, 410), 2 / 3) for word in ("the", "bat", "sat"))
    cat = Hearing(CAT, 3.0, (Final(words, 2 / 3),), showings=Showings(4, 1))
    run = Run([cat, Hearing(DOG, 1.0, (), failure)], 2.0, {"engine": 1.0})
    results = [scored(hearing.utterance, hearing.words, hearing.failure) for hearing in run.hearings]
    places = [Placed(word, 100, 400) for word in CAT.words]
    return Evaluation("pets.tsv", "the engine", {"step_ms": 320}, run, results, {"cat.wav": places}, paced)
