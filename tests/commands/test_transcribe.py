"""`streamer FILE…` as a user runs it: in its own process, with a real service."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.bridge.service import Service
from streamer.testing import say
from tests.bridge.service_client import SPOKEN
from tests.command_run import AWAY, PHRASE, SHORT, Said, finals, streamer, streamer_here
from tests.engine.speakers.talks import conversation
from tests.pseudo_terminal import COMMAND, PATIENCE_S


@pytest.fixture(scope="session")
def service(exact_service: Service) -> Service:
    """A service with an exact model: most of these tests are not about the words of the shipped one."""
    return exact_service


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four seconds of speech for an exact model as raw PCM in a file."""
    path = tmp_path_factory.mktemp("pcm") / "speech.raw"
    path.write_bytes(SPOKEN[: 4 * 32_000])
    return str(path)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A folder with typical wrong files."""
    (tmp_path / "empty.wav").touch()
    (tmp_path / "notes.wav").write_text("This is no sound. " * 100)
    (tmp_path / "folder.wav").mkdir()
    soundfile.write(tmp_path / "nothing.wav", np.zeros(0), 16_000)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.wav", "there is no such file"),
        ("--missing.wav", "there is no such file"),
        ("empty.wav", "is empty"),
        ("folder.wav", "is a folder"),
        ("./serve", "there is no such file"),
    ],
)
def test_a_file_that_is_not_there_starts_nothing(recordings: Path, name: str, words: str) -> None:
    """One sentence names the missing file, and no server is started or asked."""
    done = streamer_here("--timing", "--server", AWAY, "--", name, folder=recordings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"streamer: {name}")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "words"), [("notes.wav", "cannot be read as audio"), ("nothing.wav", "no audio")])
def test_what_is_no_sound_asks_nobody(recordings: Path, name: str, words: str) -> None:
    """A file without audio is reported as such, even if the service is away."""
    done = streamer_here("--server", AWAY, name, folder=recordings)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{name} " in done.stderr
    assert words in done.stderr
    assert "service" not in done.stderr


def test_a_service_that_is_away_is_said_once() -> None:
    """A service that is away is reported once, not for every file."""
    done = streamer_here(SHORT, PHRASE, "--server", AWAY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("No service answers") == 1
    assert AWAY in done.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--model", "slow"), 'There is no model "slow" here'), (("--language", "de"), "language")],
)
def test_a_refused_option_is_said_once(service: Service, said: Said, option: tuple[str, str], words: str) -> None:
    """An option that the service refuses is reported once, as it is the same for every file."""
    done = streamer_here(said.short, said.phrase, "--jobs", "1", *option, "--server", service.url)
    assert (done.returncode, done.stdout) == (1, "")
    refused, counted = done.stderr.splitlines()
    assert words in refused
    assert counted == "streamer: 0 of 2 recordings; 2 failed."


def test_one_bad_file_among_good_ones(service: Service, said: Said, recordings: Path) -> None:
    """The other files are transcribed in order; each bad one is reported, and the exit status is 1."""
    bad = [str(recordings / name) for name in ("notes.wav", "missing.wav", "empty.wav")]
    done = streamer_here(bad[0], said.short, bad[1], "--server", service.url, bad[2], said.phrase, "--format", "json")
    assert done.returncode == 1
    assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == [said.short, said.phrase]
    *complaints, counted = done.stderr.splitlines()
    assert sorted(line.split()[1].rstrip(":") for line in complaints) == sorted(bad)
    assert counted == "streamer: 2 of 5 recordings; 3 failed."


def test_text_is_the_finals_and_nothing_else(shipped_service: Service, talk: str) -> None:
    """Standard output has the finals in paragraphs, standard error is empty, and a second run gives the same."""
    done = streamer("--server", shipped_service.url, talk)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == " ".join(finals(shipped_service, talk)).split() != []
    assert all(line == "" or line[0].isupper() for line in done.stdout.splitlines())


def test_json_has_the_documented_shape(shipped_service: Service, talk: str) -> None:
    """The output is one object on one line, with growing times within the recording."""
    done = streamer_here(talk, "--format", "json", "--server", shipped_service.url)
    content = json.loads(done.stdout)
    assert list(content) == ["file", "text", "duration_ms", "complete", "duration_s", "segments"]
    assert (content["complete"], content["duration_s"]) == (True, content["duration_ms"] / 1000)
    assert content["duration_ms"] == pytest.approx(soundfile.info(talk).duration * 1000, abs=1)
    assert content["text"] == " ".join(segment["text"] for segment in content["segments"])
    times = [time for segment in content["segments"] for time in (segment["start_ms"], segment["end_ms"])]
    assert times == sorted(times)
    assert times[-1] <= content["duration_ms"]
    for segment in content["segments"]:
        assert list(segment) == ["start_ms", "end_ms", "text", "confidence", "words", "spoken"]
        assert [word["word"] for word in segment["words"]] == segment["text"].split()


def test_jsonl_is_the_protocol(service: Service, said: Said) -> None:
    """The lines go from `ready` to `done`, numbered without a gap."""
    done = streamer_here(said.short, "--format", "jsonl", "--server", service.url, "--step-ms", "160")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["type"] == "ready"
    assert events[-1]["type"] == "done"
    assert {"partial", "final"} <= {event["type"] for event in events}
    assert [event["n"] for event in events] == list(range(events[0]["n"], events[0]["n"] + len(events)))


def test_subtitles_into_a_folder(service: Service, said: Said, tmp_path: Path) -> None:
    """Each recording has its file with cues, and standard output is empty."""
    done = streamer_here("--format", "vtt", "--output", str(tmp_path), said.talk, said.phrase, "--server", service.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("talk.vtt", "phrase.vtt"):
        lines = (tmp_path / name).read_text().splitlines()
        assert lines[0] == "WEBVTT"
        assert sum("-->" in line for line in lines) >= 1
        assert max(map(len, lines)) <= 42


def test_a_page_for_reading_has_the_sound(service: Service, said: Said, tmp_path: Path) -> None:
    """A page has the sound of its recording; with other formats it is in a folder, and each recording needs its own."""
    streamer_here("--server", service.url, "--format", "html,srt", "-o", "out/", said.short, folder=tmp_path)
    page = (tmp_path / "out" / "short.html").read_text()
    assert "<title>short.flac</title>" in page
    assert len(re.findall("data-to=", page)) >= 4
    assert len(page.partition('data-type="audio/mpeg">')[2].partition("<")[0]) > 10_000
    assert (tmp_path / "out" / "short.srt").exists()
    refused = streamer_here("--server", service.url, "-o", "all.html", said.short, said.phrase, folder=tmp_path)
    assert (refused.returncode, "only one recording" in refused.stderr) == (2, True)


def test_raw_sound_on_standard_input(service: Service, speech: str) -> None:
    """Standard input (-) is transcribed like a file; half a sample at its end is an error after the words."""
    sound = Path(speech).read_bytes()
    whole = streamer("-", "--server", service.url, "--format", "json", given=sound)
    assert whole.returncode == 0
    assert json.loads(whole.stdout)["file"] == "-"
    assert json.loads(whole.stdout)["duration_ms"] == 4000
    odd = streamer("-", "--server", service.url, given=sound + b"\0")
    assert odd.returncode == 1
    assert odd.stdout.endswith("\n\n[stopped at 0:03]\n")
    assert json.loads(whole.stdout)["text"].startswith(odd.stdout.splitlines()[0])
    assert "128001 bytes do not divide by 2" in odd.stderr
    assert "is empty" in streamer("-", "--server", service.url).stderr


def test_raw_sound_of_another_kind(service: Service, speech: str) -> None:
    """Encoding, rate and channels of standard input can be given; channels are mixed or transcribed separately."""
    sound = np.frombuffer(Path(speech).read_bytes(), "<i2").astype("<f4") / 32768
    told = ("--encoding", "pcm_f32le", "--sample-rate", "16000", "-", "--server", service.url)
    whole = streamer(*told, given=sound.tobytes())
    assert whole.returncode == 0
    assert (
        whole.stdout.split() == streamer("-", "--server", service.url, given=Path(speech).read_bytes()).stdout.split()
    )
    both = np.stack([sound, 0 * sound], axis=1).tobytes()
    apart = streamer(*told, "--input-channels", "2", "--channels", "separate", given=both)
    assert apart.stdout == f"[1] {whole.stdout}"
    cut = streamer(*told, "--input-channels", "2", given=both + bytes(4))
    assert cut.returncode == 1
    assert "do not divide by 8" in cut.stderr


def test_channels_of_a_file(service: Service, said: Said, tmp_path: Path) -> None:
    """Separate channels have the words of each channel alone, in all formats; by default channels are mixed."""
    left, right = (soundfile.read(name, frames=3 * 16_000)[0] for name in (said.phrase, said.talk))
    for name, samples in {"left": left, "right": right, "call": np.stack([left, right], axis=1)}.items():
        soundfile.write(tmp_path / f"{name}.wav", samples, 16_000)
    alone = [finals(service, str(tmp_path / f"{name}.wav")) for name in ("left", "right")]
    command = (str(tmp_path / "call.wav"), "--channels", "separate", "--server", service.url, "--format")
    content = json.loads(streamer_here(*command, "json").stdout)
    for channel in (0, 1):
        own = [segment["text"] for segment in content["segments"] if segment["channel"] == channel]
        assert own == alone[channel] != []
    lines = streamer_here(*command, "text").stdout.splitlines()
    assert {line[:4] for line in lines if line} == {"[1] ", "[2] "}
    said_apart = [[line[4:] for line in lines if line.startswith(f"[{side}] ")] for side in (1, 2)]
    assert [" ".join(texts).split() for texts in said_apart] == [" ".join(texts).split() for texts in alone]
    assert "<v 2>" in streamer_here(*command, "vtt").stdout
    mixed = json.loads(streamer_here(*command[:1], *command[3:], "json").stdout)
    assert not any("channel" in segment for segment in mixed["segments"])


def test_what_is_asked_of_the_recogniser(shipped_service: Service) -> None:
    """Options for the recogniser can be given on the command line, and the transcript shows their effect."""
    arguments = ("--alternatives", "2", "--written", "--stability", "high", "--settle-ms", "1000", "--endpoint", "off")
    done = streamer_here(
        PHRASE, *arguments, "--hotword", "quilter", "--server", shipped_service.url, "--format", "json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    [segment] = json.loads(done.stdout)["segments"]
    assert segment["text"][0].isupper()
    assert segment["spoken"].split()[0] == segment["words"][0]["spoken"].split()[0]
    assert 1 <= len(segment["alternatives"]) <= 2


@pytest.mark.parametrize("format", ["text", "srt", "json", "jsonl"])
def test_swear_words_are_masked(service: Service, tmp_path: Path, format: str) -> None:
    """All formats show them in the same way, written and spoken."""
    soundfile.write(tmp_path / "a.flac", say("what the fuck is that"), 16_000)
    asked = ("--profanity", "mask", "--alternatives", "2")
    done = streamer_here("a.flac", *asked, "--format", format, "--server", service.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "What the f*** is that" in done.stdout
    assert "fuck" not in done.stdout


def test_a_hotword_with_figures(shipped_service: Service, tmp_path: Path) -> None:
    """Letters and digits of a hotword are pronounced, and it is written as given."""
    sentence = "We run our services on K 8 s, and in the morning it is down."
    command = ["espeak-ng", "-v", "en-us", "-s", "140", "-w", str(tmp_path / "run.wav"), sentence]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    (tmp_path / "names").write_text("K8s\t2\nGPT-4\n")
    done = streamer_here("run.wav", "--hotwords", "names", "--server", shipped_service.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "K8s" in done.stdout


def test_a_pipe_is_a_live_source(service: Service, speech: str) -> None:
    """Words come while the pipe is still open."""
    command = [*COMMAND, "-", "--format", "jsonl", "--server", service.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(Path(speech).read_bytes())
        process.stdin.flush()
        while json.loads(process.stdout.readline())["type"] != "partial":
            pass
        process.stdin.close()
        assert json.loads(process.stdout.readlines()[-1])["type"] == "done"
    assert process.returncode == 0


def test_paced_takes_as_long_as_the_recording(service: Service, said: Said) -> None:
    """With --paced, three seconds of speech take three seconds, with the same words."""
    began = time.monotonic()
    done = streamer("--paced", said.short, "--server", service.url)
    assert time.monotonic() - began >= soundfile.info(said.short).duration
    assert done.stdout.split() == " ".join(finals(service, said.short)).split()


def test_timing_tells_where_the_time_goes(service: Service, said: Said) -> None:
    """The table goes to standard error, and its times grow."""
    done = streamer("--timing", said.short, "--server", service.url)
    lines = [line.split(maxsplit=2) for line in done.stderr.splitlines()[1:]]
    names = [name for _, _, name in lines]
    assert names == [
        "command line read",
        "client imported",
        "session open",
        "first partial",
        "first final",
        "done",
        "everything stopped",
    ]
    assert sorted(lines, key=lambda line: float(line[0])) == lines
    assert done.stdout.split() == " ".join(finals(service, said.short)).split()


def test_english_is_a_language_of_an_english_model(service: Service, said: Said) -> None:
    """Who says what the model speaks anyway is right; another language is refused."""
    plain = streamer_here(said.short, "--server", service.url)
    for language in ("en", "en-US", "EN_gb"):
        assert streamer_here(said.short, "--language", language, "--server", service.url).stdout == plain.stdout != ""
    refused = streamer_here(said.short, "--language", "de", "--server", service.url)
    assert refused.returncode == 1
    assert "this model has no choice of languages: leave out 'language' (de)" in refused.stderr


def test_a_call_is_recognised_as_one(service: Service, tmp_path: Path) -> None:
    """With a voice on each channel, the command says how to keep them apart; apart, or in a room, it says nothing."""
    first, second = say("somebody asks something here"), say("and another one answers after that")
    left, right = (np.zeros(4 * (len(first) + len(second)), np.int16) for _ in range(2))
    for turn in range(4):
        begin = turn * (len(first) + len(second))
        left[begin : begin + len(first)] = first
        right[begin + len(first) : begin + len(first) + len(second)] = second
    soundfile.write(tmp_path / "call.wav", np.stack([left, right], 1), 16_000)
    soundfile.write(tmp_path / "room.wav", np.stack([left + right, left + right], 1), 16_000)
    done = streamer_here("call.wav", "--server", service.url, folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr == (
        "streamer: call.wav has a voice on each of its two channels, which were mixed: "
        "--channels separate writes who says what.\n"
    )
    apart = streamer_here("call.wav", "--channels", "separate", "--server", service.url, folder=tmp_path)
    assert (apart.stderr, streamer_here("room.wav", "--server", service.url, folder=tmp_path).stderr) == ("", "")


def test_speakers_are_told_apart_in_all_formats(tmp_path: Path) -> None:
    """With --speakers the command's own service has the model for it, and every format says who speaks."""
    samples, _ = conversation()
    soundfile.write(tmp_path / "talk.wav", samples, 16_000)
    formats = "text,json,srt,vtt,jsonl"
    done = streamer(
        "--server", "embedded", "--speakers", "2", "--format", formats, "-o", "out/", "talk.wav", folder=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    text, srt, vtt = ((tmp_path / "out" / f"talk.{ending}").read_text() for ending in ("txt", "srt", "vtt"))
    assert [paragraph[:4] for paragraph in text.strip().split("\n\n")] == ["[1] ", "[2] ", "[1] ", "[2] "]
    assert "\n[1] " in srt
    assert "\n[2] " in srt
    assert vtt.count("<v 1>") >= 2
    transcript = json.loads((tmp_path / "out" / "talk.json").read_text())
    assert {word["speaker"] for segment in transcript["segments"] for word in segment["words"]} == {0, 1}
    events = [json.loads(line) for line in (tmp_path / "out" / "talk.jsonl").read_text().splitlines()]
    assert [event["type"] for event in events[-2:]] == ["speakers", "done"]

    transcript["speaker_names"] = ["Ada", "Mister Q"]
    (tmp_path / "named.json").write_text(json.dumps(transcript))
    for ending in ("json", "jsonl"):
        name = "named.json" if ending == "json" else "out/talk.jsonl"
        label = "[Ada] " if ending == "json" else "[1] "
        again = streamer_here("--format", "text", name, folder=tmp_path)
        assert again.stdout.startswith(label), again.stderr
        assert again.stdout.count("\n\n") == 3
