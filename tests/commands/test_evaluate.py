"""`streamer evaluate` as a user runs it, with the real service and the real engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from streamer.bridge.service import Service
from streamer.commands.accuracy.manifest import half
from tests.command_run import AWAY, streamer_here
from tests.project import SAMPLES
from tests.samples import FILES, reference

MANIFEST = str(SAMPLES / "samples.tsv")
# What is said in the cut recording.
TALK = reference(FILES[0]).partition(" the night")[0]
LIMIT_S = 100


@pytest.fixture(scope="module")
def manifest(talk: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recordings of the repository, the first of them cut."""
    texts = {name: reference(name) for name in FILES} | {FILES[0]: TALK}
    places = {name: SAMPLES / name for name in FILES} | {FILES[0]: Path(talk)}
    corpora = dict(zip(FILES, ["LibriSpeech dev-clean"] * 2 + ["Common Voice"], strict=True))
    path = tmp_path_factory.mktemp("manifest") / "samples.tsv"
    rows = ["file\ttext\tsource", *(f"{places[name]}\t{texts[name]}\t{corpora[name]}" for name in FILES)]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def evaluate(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [sys.executable, "-m", "streamer", "evaluate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=folder, check=False)
    assert "Traceback" not in done.stderr
    return done


def evaluate_here(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, which may have imported torch already: that takes seconds."""
    return streamer_here("evaluate", *arguments, folder=folder)


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.timeout(300)
def test_service_and_engine_give_the_same_words(service: Service, manifest: str, tmp_path: Path) -> None:
    """Service and engine recognise the same words and count the same errors; each reports its own speed."""
    through = {
        "service": (evaluate, ["--server", service.url, "--sessions", "2"]),
        "engine": (evaluate_here, ["--engine", "--reader", "off", "--sessions", "3"]),
    }
    texts = [TALK, *map(reference, FILES[1:])]
    reports, heard = {}, {}
    for way, (run, arguments) in through.items():
        report, hypotheses = tmp_path / f"{way}.json", tmp_path / f"{way}.jsonl"
        done = run(manifest, *arguments, "--json", str(report), "--hypotheses", str(hypotheses))
        assert (done.returncode, done.stderr) == (0, "")
        assert f"3 utterances of {manifest} through the {way}" in done.stdout
        reports[way], heard[way] = json.loads(report.read_text()), lines(hypotheses)
    assert [line["hypothesis"] for line in heard["service"]] == [line["hypothesis"] for line in heard["engine"]]
    assert [line["reference"] for line in heard["service"]] == texts
    assert all(line["hypothesis"] for line in heard["service"])
    for key in ("all", "corpora", "worst", "failed"):
        assert reports["service"][key] == reports["engine"][key]
    report = reports["engine"]
    assert report["all"]["utterances"] == 3
    assert {name: corpus["utterances"] for name, corpus in report["corpora"].items()} == {
        "Common Voice": 1,
        "LibriSpeech dev-clean": 2,
    }
    assert report["all"]["words"] == sum(len(text.split()) for text in texts)
    kinds = ("substitutions", "insertions", "deletions")
    for kind in kinds:
        assert report["all"][kind] == sum(line[kind] for line in heard["engine"])
    wrong = sum(report["all"][kind] for kind in kinds)
    assert report["all"]["wer"]["value"] == pytest.approx(100 * wrong / report["all"]["words"], abs=0.01)
    assert report["speed"]["audio_s"] == pytest.approx(16.4, abs=0.5)
    assert 0 < report["speed"]["cpu_per_audio_s"]["engine"] < 5
    assert reports["service"]["speed"]["cpu_per_audio_s"] == {}


def test_a_service_of_its_own(tmp_path: Path) -> None:
    """A service that is started for the command is measured too; live, it takes as long as the speech."""
    (tmp_path / "short.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\t{reference(FILES[2])}\n")
    command = ["short.tsv", "--server", "embedded", "--paced", "--json", "a.json"]
    done = evaluate(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    speed = json.loads((tmp_path / "a.json").read_text())["speed"]
    assert set(speed["cpu_per_audio_s"]) == {"recogniser", "bridge and client"}
    assert all(used > 0 for used in speed["cpu_per_audio_s"].values())
    assert speed["wall_s"] > 3


def test_delays_against_an_alignment(service: Service, tmp_path: Path) -> None:
    """Delays are measured against the recognised words, by the time of the audio and by the clock."""
    heard = tmp_path / "a.jsonl"
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\t{reference(FILES[2])}\n")
    done = evaluate_here("a.tsv", "--server", service.url, "--hypotheses", str(heard), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    [spoken] = lines(heard)
    words = spoken["hypothesis"].split()
    (tmp_path / "b.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\t{' '.join(words)}\n")
    ends = [{"name": str(SAMPLES / FILES[2]), "words": [[word, 0, 100] for word in words]}]
    (tmp_path / "b.jsonl").write_text("".join(f"{json.dumps(end)}\n" for end in ends))
    done = evaluate(
        "b.tsv", "--server", service.url, "--paced", "--alignment", "b.jsonl", "--json", "b.json", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "b.json").read_text())
    assert report["all"]["wer"]["value"] == 0
    assert report["delay"]["utterances_placed"] == 1
    audio, wall = report["delay"]["audio"]["b"], report["delay"]["wall"]["b"]
    assert audio["words"] == wall["words"] == len(words)
    assert 100 <= audio["shown_median_ms"] <= audio["stable_median_ms"] <= audio["final_median_ms"] <= 3200
    assert audio["shown_median_ms"] == pytest.approx(sorted(spoken["shown_ms"])[len(words) // 2] - 100, abs=320)
    # No word can be shown before its audio was there.
    assert wall["shown_median_ms"] >= audio["shown_median_ms"] - 1
    times, sure = report["times"]["b"], report["confidence"]["b"]
    assert times["words"] == sure["words"]["number"] == len(words)
    assert 100 < times["start"]["signed_ms"] < times["end"]["signed_ms"] < 3200
    assert sure["words"]["right"] == sure["finals"]["right"] == 1.0
    assert report["partials"]["b"]["shown"] >= len(words) // 2
    assert report["partials"]["b"]["broken"] == 0


def test_settings_are_compared(tmp_path: Path) -> None:
    """Each value gets a line and a whole report, for the chosen half only."""
    name = str(SAMPLES / FILES[2])
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{name}\t{reference(FILES[2])}\n")
    command = ["a.tsv", "--engine", "--half", half(name), "--compare", "step-ms=320,640", "--json", "a.json"]
    done = evaluate_here(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.split("\n\n")[1].splitlines() if line.startswith(("setting", "step-ms"))]
    assert [line.split("  ")[0] for line in table] == ["setting", "step-ms 320", "step-ms 640"]
    found = json.loads((tmp_path / "a.json").read_text())["settings"]
    assert [report["options"]["step_ms"] for report in found] == [320, 640]
    assert all(report["all"]["utterances"] == 1 for report in found)
    [difference] = json.loads((tmp_path / "a.json").read_text())["differences"]
    assert (difference["setting"], difference["against"]) == ("step-ms 640", "step-ms 320")
    assert "against step-ms 320" in done.stdout


def test_a_failed_utterance_fails_the_command(service: Service, tmp_path: Path) -> None:
    """A failed utterance is counted and named with its reason, and everything is written."""
    (tmp_path / "notes.wav").write_text("This is no sound.")
    (tmp_path / "a.tsv").write_text(f"file\ttext\nnotes.wav\tyes\n{SAMPLES / FILES[2]}\tno\n")
    command = ["a.tsv", "--server", service.url, "--json", "a.json", "--hypotheses", "a.jsonl"]
    done = evaluate_here(*command, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "streamer: 1 of 2 utterances failed; the report names them.\n"
    assert "FAILED: 1 of 2 utterances\n  notes.wav: " in done.stdout
    report = json.loads((tmp_path / "a.json").read_text())
    assert (report["all"]["failed"], report["all"]["utterances"], report["all"]["deletions"]) == (1, 2, 1)
    assert [failure["name"] for failure in report["failed"]] == ["notes.wav"]
    assert [bool(line["failure"]) for line in lines(tmp_path / "a.jsonl")] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "the following arguments are required: MANIFEST"),
        ([MANIFEST, "--limit", "0"], 2, "1 or more"),
        ([MANIFEST, "--step-ms", "100"], 2, "choose from 160, 320, 640"),
        ([MANIFEST, "--engine", "--server", AWAY], 2, "not allowed with"),
        ([MANIFEST, "--half", "third"], 2, "choose from"),
        ([MANIFEST, "--compare", "step-ms"], 2, "such as step-ms=160,320"),
        ([MANIFEST, "--compare", "step-ms=100"], 2, "choose from 160, 320, 640"),
        ([MANIFEST, "--compare", "size=1"], 2, "unknown option --size"),
        ([MANIFEST, "--compare", "reader=moonshine-tiny,off"], 2, "--reader is only for the bare engine"),
        ([MANIFEST, "--compare", "step-ms=160", "--hypotheses", "a"], 2, "--hypotheses needs a single setting"),
        ([MANIFEST, "--engine", "--paced"], 2, "--paced is only for a service"),
        ([MANIFEST, "--json", "missing/a.json"], 2, "the folder missing does not exist"),
        ([MANIFEST, "--corpus", "x"], 1, "there is no corpus 'x'"),
        ([MANIFEST, "--alignment", "missing"], 1, "the alignment missing cannot be read"),
        (["missing.tsv"], 1, "missing.tsv cannot be read: No such file"),
        (["empty.tsv"], 1, "empty.tsv lists no recording"),
        ([MANIFEST, "--server", AWAY], 1, "No service answers"),
        ([MANIFEST, "--engine", "--reader", "off", "--language", "de"], 1, "his model has no choice of languages"),
        ([MANIFEST, "--engine", "--reader", "off", "--translate", "on"], 1, "othing here translates"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: list[str], status: int, words: str) -> None:
    """The exit status is 2 for a wrong command line and 1 for wrong files; nothing is written."""
    (tmp_path / "empty.tsv").write_text("file\ttext\n")
    done = streamer_here("evaluate", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("streamer: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_order(service: Service, number: signal.Signals, status: int) -> None:
    """A signal ends it without a report; it says what it waits for, and its sessions end."""
    command = [sys.executable, "-m", "streamer", "evaluate", MANIFEST, "--server", service.url, "--paced"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while sessions(service) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        told = b"streamer: stopping: ending the sessions and what this command started."
        assert process.communicate(timeout=LIMIT_S) == (b"", told + b" Press Ctrl-C again to quit at once.\n")
        assert process.returncode == status
    while sessions(service):
        time.sleep(0.05)


def sessions(service: Service) -> int:
    """How many sessions the service has."""
    with urlopen(service.url.replace("ws://", "http://").replace("/v1/stream", "/readyz"), timeout=60) as answer:
        return int(json.load(answer)["sessions"])


def test_help_teaches() -> None:
    """--help explains manifests, and has examples and every option."""
    shown = streamer_here("evaluate", "--help").stdout
    for words in ("MANIFEST", "examples:", "--engine", "--alignment", "--hypotheses", "exit status"):
        assert words in shown
