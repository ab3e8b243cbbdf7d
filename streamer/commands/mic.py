"""The command `streamer mic`: what is said into a microphone, written down while it is said."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from streamer.chosen_service import chosen_service
from streamer.commands.arguments.key import add_key_argument
from streamer.commands.arguments.output import add_output_arguments
from streamer.commands.arguments.parser import USAGE, add_server_argument
from streamer.commands.arguments.recognition import add_recognition_arguments, option, session_options
from streamer.terminal.output_file import OutputError
from streamer.timing import Timing
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.audio.microphone import InputDevice
    from streamer.terminal.live_transcript import LiveTranscript

CHANNELS: Final = ("mix", "separate")

EXAMPLES: Final = """\
examples:
  streamer mic                             words as they are spoken; space pauses, Ctrl-C ends
  streamer mic --devices                   which microphones there are
  streamer mic --device usb                the one with this in its name; a number works as well
  streamer mic -o notes.txt                each sentence into a file, and on the terminal
  streamer mic -o notes.txt --append       behind what is in it already
  streamer mic --format srt -o talk.srt    subtitles that grow while somebody speaks
  streamer mic --server example.org:8080   a service that runs elsewhere does the work
  streamer mic --input-channels 2 --channels separate   two microphones, a speaker each

Ctrl-C ends it with the last words; a second one does not wait for them. Transcripts go to standard output,
everything else to standard error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `streamer mic` accepts."""
    add = parser.add_argument
    add("--devices", action="store_true", help="list the microphones, and do nothing else")
    add("--device", metavar="NUMBER|NAME", help="the microphone, or a part of its name (the system's default)")
    add_output_arguments(parser, "a file, or a folder (a new one with a / at its end), where it is called microphone")
    add_server_argument(parser, "the service to use")
    add_key_argument(parser)
    add("--input-channels", type=option("channels", int), default=1, metavar="N", help="of the microphone (1)")
    add(
        "--channels",
        choices=CHANNELS,
        default=CHANNELS[0],
        help="mix them, or recognise each on its own and say which one it was (mix)",
    )
    add_recognition_arguments(parser.add_argument_group("what is recognised, and how it is told"))


def run(options: argparse.Namespace) -> int:
    """Listens until it is told to stop; the exit status."""
    from streamer.audio.microphone import MicrophoneError, choose_device, input_devices, quiet_libraries

    with quiet_libraries():
        try:
            found = input_devices()
            if options.devices:
                return _list(found)
            device = choose_device(found, options.device)
            from streamer.terminal.live_transcript import LiveTranscript

            transcript = LiveTranscript(options.format, options.output, existing=options.existing)
        except MicrophoneError as error:
            print(f"streamer: {error}", file=sys.stderr)
            return 1
        except OutputError as error:
            print(f"streamer: {error}", file=sys.stderr)
            return USAGE
        with closing(transcript):
            try:
                return _listen(options, device, transcript)
            except TritonError as error:
                transcript.say(f"streamer: {error}")
                return 1


def _listen(options: argparse.Namespace, device: InputDevice, transcript: LiveTranscript) -> int:
    with chosen_service(options.server, Timing()) as ready_service:
        from streamer.audio.microphone import Microphone
        from streamer.commands.dictation import Dictation
        from streamer.commands.interrupt import run_until_signal

        separate = options.channels == "separate"
        session = session_options(options)
        if separate:
            session |= {"channels": options.input_channels, "multichannel": True}
        dictation = Dictation(
            lambda: Microphone(device, options.input_channels, separate=separate), transcript, session
        )
        return run_until_signal(dictation.run(ready_service), tell=dictation.stop)


def _list(found: Sequence[InputDevice]) -> int:
    from streamer.audio.microphone import NO_DEVICE, MicrophoneError

    if not found:
        raise MicrophoneError(NO_DEVICE)
    for device in found:
        mark = "*" if device.default else " "
        channels = "1 channel" if device.channels == 1 else f"{device.channels} channels"
        print(f"{mark} {device.number:2}  {device.name}  ({channels}, {device.sample_rate} Hz)")
    return 0
