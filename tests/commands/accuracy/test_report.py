"""The report as text and as JSON, from hand-made results."""

from __future__ import annotations

import json
from dataclasses import replace

from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.report import (
    hypothesis_line,
    report_json,
    report_text,
    side_by_side,
)
from streamer.commands.accuracy.word_errors import score_utterance
from streamer.commands.accuracy.word_sections import table
from tests.commands.accuracy.handmade_evaluation import CAT, evaluation


def test_text() -> None:
    """The sections of the report come in this order."""
    shown = report_text(evaluation(), 1)
    wanted = [
        "2 utterances of pets.tsv through the engine (step_ms 320)",
        "pets 2 1 5 60.0 [33.3, 100.0]",
        "pets 1 (20.0 %) 2 (40.0 %) 0 (0.0 %)",
        "4 s of audio in 2.0 s, 2.0 times real time",
        "engine 0.250",
        "pets 4 1 (25.0 %) 0",
        "pets 3 66.7 66.7 0.444 0.500 1 66.7 66.7 0.000",
        "sure of words, % 66.7 66.7 66.7 right, % 0.0 100.0 100.0",
        "pets 2 100 100 300 300 600 600 0",
        "pets 2 20 20 20 10 10 10",
        "in the 1 of 2 utterances",
        "dog.wav (pets): 2 errors in 2 words",
    ]
    plain = " ".join(shown.split())
    places = [plain.find(words) for words in wanted]
    assert -1 not in places, (wanted[places.index(-1)], shown)
    assert places == sorted(places)
    assert "cat.wav" not in shown
    assert "FAILED" not in shown
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_a_single_utterance() -> None:
    """A single utterance, error or word is written in the singular."""
    both = evaluation()
    cat, score = both.run.results[0], both.scored[0]
    one = replace(both, run=replace(both.run, results=[cat]), scored=[score])
    plain = " ".join(report_text(one, 1).split())
    assert plain.startswith("1 utterance of pets.tsv through the engine")
    assert "in the 1 of 1 utterance that the alignment places" in plain
    assert "cat.wav (pets): 1 error in 3 words" in plain


def test_failures_are_named() -> None:
    """Failed sessions are listed with the reason; their audio does not count."""
    shown = report_text(evaluation("The connection was lost."), 0)
    assert "FAILED: 1 of 2 utterances\n  dog.wav: The connection was lost.\n" in shown
    assert "3 s of audio" in shown


def test_real_delays_only_when_paced() -> None:
    """Delays by the wall clock are left out for audio that was sent at once."""
    assert "wall clock" not in report_text(evaluation(), 0)
    assert "wait for the last final" not in report_text(evaluation(), 0)
    paced = report_text(evaluation(paced=True), 0)
    assert "pets, by the wall clock" in paced
    assert "stop to final 1 120 120 120" in " ".join(paced.split())


def test_json() -> None:
    """The JSON has the same figures, and only values that JSON supports."""
    report = report_json(evaluation("Lost.", paced=True), 1)
    found = json.loads(json.dumps(report, allow_nan=False))
    assert found == report
    assert found["all"]["wer"]["value"] == found["corpora"]["pets"]["wer"]["value"] == 60.0
    assert found["speed"] == {
        "audio_s": 3.0,
        "wall_s": 2.0,
        "times_real_time": 1.5,
        "cpu_per_audio_s": {"engine": 0.3333},
    }
    assert found["delay"]["audio"]["pets"] == {
        "words": 2,
        "at_end": 0,
        "shown_median_ms": 100.0,
        "shown_p90_ms": 100.0,
        "stable_median_ms": 300.0,
        "stable_p90_ms": 300.0,
        "final_median_ms": 600.0,
        "final_p90_ms": 600.0,
    }
    assert found["times"]["pets"] == {
        "words": 2,
        "start": {"median_ms": 20.0, "p90_ms": 20.0, "signed_ms": 20.0},
        "end": {"median_ms": 10.0, "p90_ms": 10.0, "signed_ms": 10.0},
    }
    assert found["partials"]["pets"] == {"shown": 4, "changed": 1, "broken": 0, "changed_share": 0.25}
    sure = found["confidence"]["pets"]["words"]
    assert (sure["number"], sure["confidence"], sure["right"]) == (3, 0.6667, 0.6667)
    assert [each["right"] for each in sure["bins"]] == [0, 1, 1]
    assert found["confidence"]["pets"]["finals"]["calibration_error"] == 0.0
    assert found["delay"]["wall"]["pets"]["shown_median_ms"] == 200.0
    assert found["ends"] == {"stop": {"number": 1, "median_ms": 120.0, "p95_ms": 120.0, "longest_ms": 120.0}}
    assert found["failed"] == [{"name": "dog.wav", "reason": "Lost."}]
    assert [line["name"] for line in found["worst"]] == ["dog.wav"]


def test_a_hypothesis_for_programs() -> None:
    """A line for a hypothesis has its reference, errors, and the time of each word."""
    made = evaluation()
    line = hypothesis_line(made.scored[0], made.run.results[0].timed_words)
    assert (line["reference"], line["hypothesis"], line["failure"]) == ("the cat sat", "the bat sat", None)
    assert (line["words"], line["substitutions"], line["character_errors"]) == (3, 1, 1)
    assert (line["shown_ms"], line["final_ms"]) == ([500] * 3, [1000] * 3)


def test_words_stand_over_words() -> None:
    """Right words are in small letters, wrong ones in capitals, missing ones are stars; long texts are in rows."""
    wrong = score_utterance(CAT, ["a", "the", "cat"])
    assert side_by_side(wrong).splitlines()[1:] == ["    said: *** the cat SAT", "    text: A   the cat ***"]
    long = Utterance("long", "c", None, tuple(f"word{number}" for number in range(50)), CAT.location)
    rows = side_by_side(score_utterance(long, long.words[:49])).splitlines()[1:]
    assert len(rows) > 2
    assert {len(rows[place]) - len(rows[place + 1]) for place in range(0, len(rows) - 2, 2)} == {0}
    assert " ".join(row[10:] for row in rows[::2]).lower().split() == list(long.words)


def test_tables_have_straight_columns() -> None:
    """The first column is aligned left, the others right."""
    assert table(["a", "bb"], [["ccc", "1"], ["d", "22222"]]) == "a       bb\nccc      1\nd    22222"
