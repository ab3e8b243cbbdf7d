"""The command `streamer FILE…`: finds the recordings, and the service that transcribes them.

Only light modules are imported at the top. The files are checked first. Then a server is spawned if one is needed, and
the rest is imported while it starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import PurePath
from typing import Final

from streamer.audio.recordings import STDIN, AudioError, ListedRecording, check_readable, list_recordings
from streamer.base.address import is_address
from streamer.base.options import ENCODINGS
from streamer.base.saved_transcript import ENDINGS
from streamer.base.timing import Timing
from streamer.bridge.triton import TritonError
from streamer.commands.arguments import (
    USAGE,
    add_key_argument,
    add_model_argument,
    add_output_arguments,
    add_server_argument,
    count,
    model_folder,
)
from streamer.commands.conversion import convert
from streamer.commands.recognition import add_form_arguments, add_recognition_arguments, option
from streamer.commands.service import chosen_service
from streamer.commands.terminal.transcript_output import OutputError, TranscriptOutput, output_of

CHANNELS: Final = ("mix", "separate")
# The service computes the streams that have audio as one batch. On two cores, eight at a time take about half as long
# as one after the other, and more than eight are hardly faster.
JOBS: Final = 8

EXAMPLES: Final = """\
examples:
  streamer talk.wav                        the words as they are recognised
  streamer lecture.mp4                     the sound of a video, if ffmpeg is installed
  streamer calls/ notes.wav                all recordings in a folder and below it, and one more
  streamer --format srt -o subs/ *.mp4     subtitles for each video, in a folder
  streamer --format srt,json -o out/ --skip-existing calls/
                                           two files for each; finished recordings are skipped
  streamer -o talk.srt talk.wav            subtitles: the ending says the format
  streamer --format srt,vtt,text -o out/ talk.json
                                           other formats of a saved transcript, also an edited one
  streamer --format json a.flac b.ogg      a JSON object for each recording, in this order
  streamer --jobs 32 --server example.org:8080 calls/        with a larger service elsewhere
  streamer --server wss://example.org --key-file ~/key a.wav   with a service that needs a key
  arecord -t raw -f S16_LE -r 16000 -c 1 | streamer -
                                           audio from another program: raw PCM, int16, mono, 16 kHz
  curl -s https://example.org/talk.mp3 | streamer -
                                           or any recording
  streamer https://example.org/talk.mp3    the same
  … | streamer --encoding mulaw --sample-rate 8000 -
                                           audio of a telephone
  streamer --channels separate call.wav    a speaker on each side: each line shows its channel, counted from 1
  streamer --hotword Kubernetes talk.wav   a name to listen for, written like this
  streamer --spoken talk.wav               the words as they were spoken, without marks and capitals
  streamer ./serve                         a recording with the name of a command

Transcripts go to standard output, everything else to standard error. The exit status is 0 only if every recording was
transcribed; 1 if one was not, 2 for a wrong command line, 130 after Ctrl-C."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer FILE…`."""
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="WAV, FLAC, OGG/Opus or MP3; a video or anything else that ffmpeg reads; a folder, for all recordings in "
        "it and below; a pipe; an address such as https://…; or - for standard input, with any of these or raw PCM. A "
        "transcript that was saved (.json, .jsonl) is written in another format, without any recognition",
    )
    add_output_arguments(
        parser,
        "a file, or a folder with a file for each recording, in the same subfolders; the folder is made if necessary",
        skip=True,
    )
    add("--times", action="store_true", help="text: each paragraph begins with its time")
    add("--no-headings", dest="headings", action="store_false", help="text: no heading for each of several recordings")
    add("--jobs", type=count, default=JOBS, metavar="N", help=f"how many recordings at the same time ({JOBS})")
    add("--paced", action="store_true", help="recognise as fast as it was spoken, not as fast as possible")
    add_server_argument(parser, "the service to use")
    add_key_argument(parser)
    add_model_argument(parser)
    add("--timing", action="store_true", help="print on standard error where the time goes")
    add(
        "--channels",
        choices=CHANNELS,
        default=CHANNELS[0],
        help="mix the channels, or recognise each separately and show its number (mix)",
    )
    group = parser.add_argument_group("recognition")
    add_form_arguments(group)
    add_recognition_arguments(group)
    add = parser.add_argument_group("raw PCM on standard input").add_argument
    add("--encoding", choices=ENCODINGS, help=f"encoding of the samples ({ENCODINGS[0]})")
    add("--sample-rate", type=option("sample_rate", int), metavar="HZ", help="samples per second (16000)")
    add("--input-channels", type=option("channels", int), metavar="N", help="how many channels are interleaved (1)")


def run(options: argparse.Namespace) -> int:
    """Transcribe all recordings that were named. Return the exit status."""
    timing = Timing()
    timing.mark("command line read")
    if complaint := _contradiction(options):
        print(f"streamer: {complaint}; see streamer --help.", file=sys.stderr)
        return USAGE
    if _saved(options.files):
        return convert(options)
    recordings, errors = _find_recordings(options.files)
    try:
        output = output_of(options, recordings, [str(error) for error in errors])
    except OutputError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return USAGE
    status = 1
    try:
        with closing(output):
            try:
                status = _transcribe(output, options, timing) if output.recordings else int(not recordings)
            except KeyboardInterrupt:
                output.tally.interrupted = True
                raise
    except (OutputError, TritonError) as error:
        output.say(f"streamer: {error}")
        status = status or 1
    if options.timing and output.recordings:
        timing.mark("everything stopped")
        output.say(timing.report())
    return status or int(bool(errors))


def _contradiction(options: argparse.Namespace) -> str | None:
    """Describe a contradiction of the arguments. None if there is none."""
    if not options.files:
        return "name a recording"
    if options.files.count(STDIN) > 1:
        return "standard input (-) can be read only once"
    if STDIN not in options.files and (options.encoding or options.sample_rate or options.input_channels):
        return "--encoding, --sample-rate and --input-channels are only for raw PCM on standard input: give - as FILE"
    saved = _saved(options.files)
    if saved and len(saved) < len(options.files):
        return f"{saved[0]} is a transcript, and others are recordings: give them in two commands"
    return None


def _saved(names: Sequence[str]) -> list[str]:
    """Return the names of transcripts that were saved."""
    return [name for name in names if not is_address(name) and PurePath(name).suffix.lower() in ENDINGS]


def _find_recordings(names: Sequence[str]) -> tuple[list[ListedRecording], list[AudioError]]:
    """Return the recordings that can be read, in the order of the command line, and the errors of the others."""
    recordings: list[ListedRecording] = []
    errors: list[AudioError] = []
    for name in names:
        listing, unread = list_recordings(name)
        errors += unread
        for recording in listing:
            try:
                _check(recording.name)
                recordings.append(recording)
            except AudioError as error:
                errors.append(error)
    return recordings, errors


def _check(name: str) -> None:
    if name != STDIN:
        check_readable(name)
    elif sys.stdin is None or sys.stdin.isatty():
        raise AudioError("standard input is a terminal: pipe a recording or raw PCM into it, or name a file.")


def _transcribe(output: TranscriptOutput, options: argparse.Namespace, timing: Timing) -> int:
    speakers = bool(options.speakers)
    with chosen_service(options.server, timing, model_folder(options), speakers=speakers) as ready_service:
        from streamer.commands.batch import Batch
        from streamer.commands.interrupt import run_until_signal

        timing.mark("client imported")
        batch = Batch(options, output, timing, ready_service)
        return run_until_signal(batch.run(), tell=batch.interrupt)
