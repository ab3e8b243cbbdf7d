"""`streamer FILE.json`: writes transcripts that were saved in other formats. No service is started or asked."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path, PurePath
from typing import Final

from streamer.audio.recordings import ListedRecording
from streamer.base.reading_page import Sound
from streamer.base.saved_transcript import ENDINGS, TranscriptError, read_transcripts
from streamer.base.transcript import Transcript
from streamer.commands.arguments import USAGE
from streamer.commands.terminal.transcript_output import OutputError, output_of

_LARGEST: Final = 1 << 30  # bytes; no transcript is longer


def convert(options: argparse.Namespace) -> int:
    """Write the transcripts that were named in other formats. Return the exit status."""
    transcripts: list[tuple[ListedRecording, Transcript]] = []
    errors: list[str] = []
    for name in options.files:
        try:
            transcripts += _read(name)
        except TranscriptError as error:
            errors.append(f"{name} {error}.")
    try:
        output = output_of(options, [recording for recording, _ in transcripts], errors)
    except OutputError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return USAGE
    texts = dict(transcripts)
    try:
        with closing(output):
            for index, recording in enumerate(output.recordings):
                with output.of_recording(index) as written:
                    written.begin(None)
                    if written.wants_sound:
                        written.sound = _sound_beside(recording, texts[recording])
                    written.write(texts[recording])
    except OutputError as error:
        output.say(f"streamer: {error}")
        return 1
    return int(bool(errors))


def _sound_beside(recording: ListedRecording, transcript: Transcript) -> Sound | None:
    """Return the sound of the recording that a transcript names, if it lies beside the transcript."""
    # Only there: anybody may have written the name, and the page may go to others.
    path = Path(recording.name).parent / PurePath(transcript.file).name
    if not path.is_file() or path.suffix.lower() in ENDINGS:
        print(f"streamer: the page has no sound, because {path} does not exist.", file=sys.stderr)
        return None
    from streamer.audio.playable import MP3, mp3_of
    from streamer.audio.recordings import AudioError

    try:
        return Sound(MP3, mp3_of(str(path)))
    except AudioError as error:
        print(f"streamer: the page has no sound: {error}", file=sys.stderr)
        return None


def _read(name: str) -> list[tuple[ListedRecording, Transcript]]:
    """Return the transcripts in a file. Several have the names of their recordings. Raise TranscriptError."""
    try:
        if Path(name).stat().st_size > _LARGEST:
            raise TranscriptError("is too long for a transcript")
        text = Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TranscriptError(f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise TranscriptError("is not UTF-8 text") from None
    transcripts = read_transcripts(text, name)
    if len(transcripts) == 1:
        return [(ListedRecording.of_name(name), transcripts[0])]
    return [(ListedRecording(each.file, PurePath(PurePath(each.file).name)), each) for each in transcripts]
