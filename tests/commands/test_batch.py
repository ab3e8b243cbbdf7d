"""Many recordings, videos and pipes through the command: in order, in parallel, and interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from streamer.base.transcript import clock
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.command_run import PHRASE, Said, finals, streamer, streamer_here
from tests.pseudo_terminal import COMMAND, PATIENCE_S, Terminal, finals_on

LONGEST_S = 10
FINALS, HEARD = (f'streamer_messages_total{{type="{kind}"}}' for kind in ("final", "heard"))
RECEIVED_S = "streamer_received_seconds_total"


def counted(service: Service, name: str) -> float:
    """The value of one of the service's metrics."""
    lines = service.metrics.exposition().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def until(service: Service, name: str, least: float) -> None:
    """Wait until the metric is at least this high."""
    deadline = time.monotonic() + PATIENCE_S
    while counted(service, name) < least:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are not about the words of the shipped one."""
    return exact_triton


@pytest.fixture(scope="module")
def service(exact_service: Service) -> Service:
    """A service with it."""
    return exact_service


@pytest.fixture
def collection(tmp_path: Path, said: Said) -> Path:
    """A folder of recordings, the longest first, and one of them broken."""
    for name, source in {"2/a.flac": said.short, "2/b.flac": said.phrase, "3.flac": said.short}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(Path(source).read_bytes())
    soundfile.write(tmp_path / "1.flac", soundfile.read(said.talk, frames=LONGEST_S * 16_000)[0], 16_000)
    (tmp_path / "2.wav").write_text("This is no sound. " * 100)
    (tmp_path / "notes.txt").touch()
    return tmp_path


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_folders_are_all_recordings_in_them(service: Service, said: Said, collection: Path, jobs: str) -> None:
    """Transcripts come in order, however many recordings run at a time. A broken one is reported and stops nothing."""
    done = streamer_here(str(collection), said.phrase, "--jobs", jobs, "--format", "json", "--server", service.url)
    assert done.returncode == 1
    names = [str(collection / name) for name in ("1.flac", "3.flac", "2/a.flac", "2/b.flac")] + [said.phrase]
    contents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [content["file"] for content in contents] == names
    for content, source in zip(contents, (names[0], said.short, said.short, said.phrase, said.phrase), strict=True):
        assert content["text"] == " ".join(finals(service, source))
    assert done.stderr.startswith(f"streamer: {collection}/2.wav cannot be read as audio")
    assert done.stderr.splitlines()[1:] == ["streamer: 5 of 6 recordings; 1 failed."]


def test_a_folder_takes_the_folders_of_the_recordings(service: Service, collection: Path, tmp_path: Path) -> None:
    """The output has the same folders as the recordings, and no file for a failed one."""
    (tmp_path / "out").mkdir()
    done = streamer_here(str(collection), "-o", str(tmp_path / "out"), "--format", "vtt", "--server", service.url)
    assert (done.returncode, done.stdout) == (1, "")
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written == {"1.vtt", "3.vtt", "2/a.vtt", "2/b.vtt"}


async def test_more_at_a_time_than_the_service_takes(triton: TritonServer, collection: Path) -> None:
    """If the service is full because of our own sessions, a recording waits for one of them to end."""
    async with Service(triton.grpc_address, port=0, sessions=2) as service:
        arguments = (str(collection), "--jobs", "4", "--format", "json", "--server", service.url)
        done = await asyncio.to_thread(streamer, *arguments)
    assert len(done.stdout.splitlines()) == 4
    assert done.stderr.splitlines()[1:] == ["streamer: 4 of 5 recordings; 1 failed."]


def test_several_at_a_time_on_a_terminal(service: Service, said: Said, collection: Path) -> None:
    """The words come in order, with the progress of each recording below them; one line stays at the end."""
    terminal = Terminal(str(collection), "--paced", "--jobs", "3", "--server", service.url, width=100)
    terminal.watch("of 5 recordings; 1 failed")
    for name in ("1.flac", "a.flac", "3.flac"):
        assert re.search(rf"(\n|\x1b\[K){re.escape(name)} +█?", terminal.shown)
    assert terminal.status() == 1
    heading = f"{collection}/1.flac\r\n"
    assert heading in terminal.shown
    right = [
        text
        for source in (f"{collection}/1.flac", said.short, said.short, said.phrase)
        for text in finals(service, source)
    ]
    assert [text for _, text in finals_on(terminal.shown)] == right
    total_s = LONGEST_S + sum(soundfile.info(source).duration for source in (said.short, said.short, said.phrase))
    assert terminal.shown.splitlines()[-1].startswith(f"4 of 5 recordings; 1 failed; 0:{total_s:02.0f}"[:-1])


def test_the_sound_of_a_video(service: Service, said: Said, tmp_path: Path) -> None:
    """A video gives the words of its audio, and Ctrl-C leaves no ffmpeg behind."""
    if shutil.which("ffmpeg") is None and not os.environ.get("CI"):
        pytest.skip("ffmpeg is not installed: make system")
    picture = ("-f", "lavfi", "-i", "color=size=64x48:rate=5:duration=25", "-c:v", "mpeg4")
    command = ["ffmpeg", "-v", "error", *picture, "-i", said.talk, "-c:a", "flac", str(tmp_path / "talk.mkv")]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    done = streamer(str(tmp_path / "talk.mkv"), "--server", service.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == " ".join(finals(service, said.talk)).split()
    command = [*COMMAND, str(tmp_path / "talk.mkv"), "--paced", "--format", "jsonl", "--server", service.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["type"] != "partial":
            pass
        family = psutil.Process(process.pid).children(recursive=True)
        assert [each.name() for each in family] == ["ffmpeg"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert psutil.wait_procs(family, timeout=60)[1] == []


def test_words_on_a_terminal_are_those_of_one_recording(service: Service, said: Said, tmp_path: Path) -> None:
    """If standard error goes elsewhere, only the present words are shown, and the next recording waits."""
    command = f'"{said.short}" "{said.phrase}" --server {service.url} 2> {tmp_path}/errors'
    command = f'exec "{sys.executable}" -m streamer {command}'
    terminal = Terminal(command=["/bin/sh", "-c", command], width=40)
    assert terminal.status() == 0
    kept = [text for _, text in finals_on(terminal.shown)]
    assert kept == [*finals(service, said.short), *finals(service, said.phrase)]
    assert (tmp_path / "errors").read_text().splitlines() == [said.short, said.phrase]


@pytest.mark.parametrize(("format", "ending"), [("json", "json"), ("text", "txt")])
def test_ctrl_c_keeps_what_is_final(service: Service, said: Said, tmp_path: Path, format: str, ending: str) -> None:
    """After Ctrl-C the command says what it waits for; an incomplete file is called partial; an earlier one stays."""
    (tmp_path / f"talk.{ending}").write_text("finished")
    paced = (*COMMAND, said.talk, "--paced", "--server", service.url, "--overwrite")
    before = counted(service, FINALS)
    with subprocess.Popen([*paced, "--format", format, "-o", tmp_path], stderr=subprocess.PIPE, text=True) as process:
        until(service, FINALS, before + 1)
        until(service, HEARD, counted(service, HEARD) + 1)  # a later message: the final has arrived
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        partial = tmp_path / f"talk.partial.{ending}"
        assert process.stderr.read().splitlines() == [
            "streamer: stopping: saving what was recognised so far, and ending what this command started. "
            "Press Ctrl-C again to quit at once.",
            f"streamer: {said.talk} was not transcribed to its end: the text so far is in {partial}.",
            "streamer: the same command goes on there.",
        ]
    assert (tmp_path / f"talk.{ending}").read_text() == "finished"
    kept = partial.read_text()
    text = json.loads(kept)["text"] if format == "json" else kept.strip().replace("\n", " ")
    assert text.startswith(finals(service, said.talk)[0])


def test_a_second_run_goes_on_where_the_first_ended(service: Service, collection: Path, tmp_path: Path) -> None:
    """--skip-existing continues where a run ended; without it existing transcripts are safe. Formats count together."""
    command = (str(collection), "--format", "srt,json", "-o", str(tmp_path / "out"), "--server", service.url)
    (tmp_path / "2.wav").unlink()
    (tmp_path / "out" / "2").mkdir(parents=True)
    (tmp_path / "out" / "1.srt").write_text("mine")
    done = streamer_here(*command)
    assert done.returncode == 2
    assert f"{tmp_path}/out/1.srt exists already: --skip-existing skips it" in done.stderr
    (tmp_path / "out" / "1.json").write_text("mine")
    done = streamer_here(*command, "--skip-existing")
    assert (done.returncode, done.stderr) == (0, "streamer: 3 of 4 recordings; 1 already there.\n")
    assert (tmp_path / "out" / "1.srt").read_text() == "mine"
    for name in ("3", "2/a", "2/b"):
        assert json.loads((tmp_path / "out" / f"{name}.json").read_text())["text"]
        assert "-->" in (tmp_path / "out" / f"{name}.srt").read_text()
    assert streamer_here(*command, "--skip-existing").stderr == "streamer: 0 of 4 recordings; 4 already there.\n"


def test_what_can_be_heard_of_a_cut_recording(
    service: Service, shipped_service: Service, said: Said, tmp_path: Path
) -> None:
    """A WAV file that is too short fails after its words; an Ogg file without an end mark gives a warning."""
    soundfile.write(tmp_path / "talk.wav", *soundfile.read(said.talk))
    (tmp_path / "talk.wav").write_bytes((tmp_path / "talk.wav").read_bytes()[: 44 + 5 * 32_000])
    done = streamer_here("talk.wav", "--format", "json", "--server", service.url, folder=tmp_path)
    assert done.returncode == 1
    whole_s = soundfile.info(said.talk).duration
    assert done.stderr == f"streamer: talk.wav is damaged: only 5.0 of {whole_s:.1f} s can be read.\n"
    assert json.loads(done.stdout)["text"].startswith(finals(service, said.talk)[0])
    done = streamer_here("talk.wav", "--format", "srt,text", "-o", "out/", "--server", service.url, folder=tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"talk.partial.{ending}" for ending in ("journal", "srt", "txt")
    ]
    assert (tmp_path / "out" / "talk.partial.txt").read_text().endswith(f" of {clock(round(whole_s * 1000))}]\n")
    (tmp_path / "cut.ogg").write_bytes(Path(PHRASE).read_bytes()[:-1])
    done = streamer_here("cut.ogg", "--server", shipped_service.url, folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr == "streamer: cut.ogg has no end mark: its end may be missing.\n"


def test_silence_is_told(service: Service, tmp_path: Path) -> None:
    """A recording without words is not a failure, but is reported."""
    soundfile.write(tmp_path / "still.wav", np.zeros(16_000), 16_000)
    soundfile.write(tmp_path / "noise.wav", np.random.default_rng(1).normal(0, 0.01, 16_000), 16_000)
    done = streamer_here("still.wav", "noise.wav", "--jobs", "1", "--server", service.url, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "streamer: no words were recognised in still.wav: it is silent.",
        "streamer: no words were recognised in noise.wav.",
    ]


def test_a_full_disk(service: Service, said: Said, tmp_path: Path) -> None:
    """A full disk gives one sentence. If one file does not fit, the others go on, and nothing is half-written."""
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, said.phrase, "--server", service.url]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert done.stderr == "streamer: standard output cannot be written: No space left on device.\n"
    # A full folder for one process: no file may be longer than the transcript of the short recording.
    arguments = [said.talk, said.phrase, "--format", "json", "-o", f"{tmp_path}/", "--jobs", "1"]
    command = [sys.executable, "-c", LIMITED, *arguments]
    # Coverage has no room for its figures in this process, so it does not measure it.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [*command, "--server", service.url],
        env=unmeasured,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"streamer: {tmp_path}/talk.json cannot be written: File too large.",
        "streamer: 1 of 2 recordings; 1 failed.",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phrase.json", "talk.partial.journal"]


LIMITED = """
import resource, runpy, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
runpy.run_module("streamer", run_name="__main__")
"""


def test_what_is_no_file(service: Service, said: Said, tmp_path: Path) -> None:
    """Named pipes, addresses and encoded audio on standard input are transcribed like files."""
    words = finals(service, said.phrase)
    for command in (f'"{said.phrase}" > pipe.flac & streamer pipe.flac', f'"{said.phrase}" | streamer -'):
        (tmp_path / "pipe.flac").unlink(missing_ok=True)
        os.mkfifo(tmp_path / "pipe.flac")
        script = f'streamer() {{ "{sys.executable}" -m streamer --server {service.url} "$@"; }}; cat {command}'
        done = subprocess.run(
            ["/bin/sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == words
    address = service.url.replace("ws:", "http:").replace("/v1/stream", "/nothing.mp3")
    done = streamer(address, "--server", service.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"streamer: {address} cannot be fetched: HTTP status 404 (Not Found).\n"


def test_ctrl_c_ends_standard_input(service: Service, said: Said) -> None:
    """Ctrl-C ends standard input as if the pipe had ended, and the last words still come."""
    command = [*COMMAND, "-", "--format", "json", "--server", service.url]
    audio = soundfile.read(said.short, dtype="int16")[0].tobytes()
    before = counted(service, RECEIVED_S)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(audio)
        process.stdin.flush()
        until(service, RECEIVED_S, before + len(audio) / 32_000 - 0.001)
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.readline())["text"] == " ".join(finals(service, said.short))
        assert process.wait(60) == 130
        assert process.stderr is not None
        told = (
            b"streamer: stopping: waiting for the last words of standard input. Press Ctrl-C again to quit at once.\n"
        )
        assert process.stderr.read() == told


def test_words_of_a_pipe_come_while_they_are_said(service: Service, said: Said) -> None:
    """Words of piped audio come as soon as possible; no buffer delays them."""
    samples, rate = soundfile.read(said.phrase, dtype="int16")
    command = [*COMMAND, "-", "--format", "jsonl", "--server", service.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        assert json.loads(stdout.readline())["type"] == "ready"
        partials: list[int] = []

        def speak(begin_ms: int, end_ms: int) -> None:
            for place in range(begin_ms * rate // 1000, end_ms * rate // 1000, rate // 10):
                stdin.write(samples[place : place + rate // 10].tobytes())
                stdin.flush()

        def listen(until_ms: int) -> None:
            while not partials or partials[-1] < until_ms:
                event = json.loads(stdout.readline())
                if event["type"] == "partial":
                    partials.append(event["audio_ms"])

        # More is only spoken when the words so far have come, except those of the last step or two.
        for begin_ms in range(0, 3500, 500):
            speak(begin_ms, begin_ms + 500)
            if begin_ms >= 1000:
                listen(begin_ms - 250)
        speak(3500, 6000)
        stdin.close()
        kinds = [json.loads(line)["type"] for line in stdout]
    assert process.returncode == 0
    assert len(partials) + kinds.count("partial") > 10
