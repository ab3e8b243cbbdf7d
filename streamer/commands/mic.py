"""The command `streamer mic`: transcribes what somebody says into a microphone while they speak."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Final

from streamer.base.limits import MOST_CHANNELS
from streamer.base.text import counted
from streamer.base.timing import Timing
from streamer.bridge.triton import TritonError
from streamer.commands.arguments import (
    USAGE,
    add_key_argument,
    add_model_argument,
    add_output_arguments,
    add_server_argument,
    model_folder,
)
from streamer.commands.hotkey import Chord, HotkeyError
from streamer.commands.keyboard import DesktopError
from streamer.commands.mic_control import ControlError, Request, ask
from streamer.commands.recognition import (
    add_form_arguments,
    add_recognition_arguments,
    option,
    options_with_second_pass,
)
from streamer.commands.service import chosen_service
from streamer.commands.terminal.printing import make_output_printable
from streamer.commands.terminal.transcript_files import OutputError, formats_for

if TYPE_CHECKING:
    from streamer.audio.microphone import InputDevice, Inputs
    from streamer.commands.desk import Desk
    from streamer.commands.terminal.live_transcript import LiveTranscript
    from streamer.commands.typist import Place

CHANNELS: Final = ("mix", "separate")
CAPTION_LISTENERS: Final = 16  # of an embedded service, which only this machine can reach

EXAMPLES: Final = """\
examples:
  streamer mic                             words as they are spoken; space pauses, Ctrl-C ends
  streamer mic --devices                   a list of the microphones, and of what the machine itself plays
  streamer mic --device usb                the microphone with this in its name; a number works as well
  streamer mic --device hdmi.monitor       what an output plays, such as a meeting (docs/how-to/meetings.md)
  streamer mic --device usb --device hdmi.monitor       both sides of a meeting: [1] is you, [2] are the others
  streamer mic -o notes.txt                each sentence into a file, and on the terminal
  streamer mic -o notes.txt --append       the same, at the end of the existing file
  streamer mic -o talk.srt                 subtitles that grow while somebody speaks
  streamer mic --dictation                 "comma", "full stop", "new paragraph" and others become marks
  streamer mic --captions                  the address of a page with large lines, for a second screen or OBS
  streamer mic --type --hotkey F9          types what you say into the window that has the focus, while you hold F9
  streamer mic --type --paused             the same, with a key of your window manager that runs the next line
  streamer mic --control toggle            begins or ends listening of the running streamer mic
  streamer mic --server example.org:8080   with a service that runs elsewhere
  streamer mic --input-channels 2 --channels separate   two microphones, with a speaker at each

Ctrl-C ends the session after the last words; a second Ctrl-C does not wait for them. Transcripts go to standard
output, everything else to standard error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer mic`."""
    add = parser.add_argument
    add(
        "--devices",
        action="store_true",
        help="list the microphones, and the sources of PulseAudio or PipeWire, and exit",
    )
    add(
        "--device",
        dest="devices_wanted",
        action="append",
        metavar="NUMBER|NAME",
        help="its number, or its name or a part of it (the system's default). May be repeated: then each device is a "
        "channel",
    )
    add_output_arguments(parser, "a file, or a folder (new ones end with /) in which the file is called microphone")
    add_server_argument(parser, "the service to use")
    add_key_argument(parser)
    add_model_argument(parser)
    add("--input-channels", type=option("channels", int), default=1, metavar="N", help="its number of channels (1)")
    add(
        "--channels",
        choices=CHANNELS,
        help="mix the channels, or recognise each separately and show its number (mix; of several devices: separate)",
    )
    add(
        "--captions",
        action="store_true",
        help="print the address of a page that shows the words in large lines, for a second screen or OBS "
        "(docs/how-to/captions.md)",
    )
    _add_desk_arguments(parser.add_argument_group("dictation into other windows (docs/how-to/dictation.md)"))
    group = parser.add_argument_group("recognition")
    add_form_arguments(group)
    group.add_argument(
        "--dictation",
        action="store_const",
        const=True,
        help="write spoken marks as marks: comma, full stop or period, question mark, exclamation mark or point, "
        "colon, semicolon, new line, new paragraph",
    )
    add_recognition_arguments(group)


def _add_desk_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--type",
        action="store_true",
        help="type the words into the window that has the focus, as soon as nothing can change them any more (on macOS "
        "and Windows: not tried)",
    )
    add("--clipboard", action="store_true", help="put the words into the clipboard, from each pause on anew")
    add(
        "--hotkey",
        type=_chord,
        metavar="KEY",
        help="the key that begins and ends listening in every window, such as F9 or ctrl+alt+d; while it is held, the "
        "microphone listens as long (X11)",
    )
    add("--paused", action="store_true", help="do not listen before a key or --control asks for it")
    add("--tone", action="store_true", help="play a tone when listening begins and when it ends")
    add("--notify", action="store_true", help="show a notification then (notify-send)")
    add(
        "--control",
        choices=[each.value for each in Request],
        help="ask the running streamer mic for this, print its state, and exit",
    )


def _chord(text: str) -> Chord:
    try:
        return Chord.parse(text)
    except HotkeyError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    """Transcribe until a signal ends it. Return the exit status."""
    if options.control:
        return _control(Request(options.control))
    wanted = options.devices_wanted or [None]
    options.channels = options.channels or CHANNELS[len(wanted) > 1 and not options.type]
    if problem := _contradiction(options, len(wanted)):
        print(f"streamer: {problem}; see streamer mic --help.", file=sys.stderr)
        return USAGE
    from streamer.audio.microphone import MicrophoneError, input_devices, quiet_libraries

    with quiet_libraries():
        make_output_printable()  # standard error is another stream now
        try:
            inputs = input_devices()
            if options.devices:
                return _list(inputs)
            devices = [inputs.choose(each) for each in wanted]
            if twice := [device for number, device in enumerate(devices) if device in devices[:number]]:
                raise MicrophoneError(f"{twice[0].name} was chosen twice.")
            from streamer.commands.terminal.live_transcript import LiveTranscript

            places = _places(options)
            formats = formats_for(options.format, options.output)
            transcript = LiveTranscript(formats, options.output, existing=options.existing)
        except DesktopError as error:
            print(f"streamer: {error}.", file=sys.stderr)
            return 1
        except MicrophoneError as error:
            print(f"streamer: {error}", file=sys.stderr)
            return 1
        except OutputError as error:
            print(f"streamer: {error}", file=sys.stderr)
            return USAGE
        with closing(transcript):
            try:
                return _listen(options, devices, transcript, places)
            except TritonError as error:
                transcript.say(f"streamer: {error}")
                return 1


def _contradiction(options: argparse.Namespace, devices: int) -> str:
    if devices > 1 and options.input_channels > 1:
        return "--input-channels cannot be used with several devices"
    if devices > MOST_CHANNELS:
        return f"at most {MOST_CHANNELS} devices can be used at the same time"
    if options.type and options.channels != CHANNELS[0]:
        # The words of two channels would be typed between each other.
        return "--type cannot be used with --channels separate"
    if options.dictation and not options.written:
        return "--dictation cannot be used with --spoken"
    return ""


def _places(options: argparse.Namespace) -> list[Place]:
    """Return where the words go besides the transcript. DesktopError if the desktop has no such place."""
    from streamer.commands.keyboard import find_clipboard, find_keyboard
    from streamer.commands.typist import ClipboardText, FocusedWindow

    places: list[Place] = [FocusedWindow(find_keyboard())] if options.type else []
    return places + ([ClipboardText(find_clipboard())] if options.clipboard else [])


def _desk(options: argparse.Namespace, places: list[Place], transcript: LiveTranscript) -> Desk | None:
    if not (places or options.hotkey or options.paused or options.tone or options.notify):
        return None
    from streamer.commands.desk import Desk, show_listening, sound_listening
    from streamer.commands.typist import Typist

    dictated = bool(options.dictation)
    typist = Typist(places, lambda why: transcript.say(f"streamer: {why}."), dictated=dictated) if places else None
    signals = [*([sound_listening] if options.tone else []), *([show_listening] if options.notify else [])]
    # With a key, nobody wants what is said before it is pressed.
    paused = options.paused or bool(options.hotkey)
    return Desk(typist=typist, chord=options.hotkey, signals=signals, paused=paused)


def _control(request: Request) -> int:
    try:
        print(ask(request))
    except ControlError as error:
        print(f"streamer: {error}.", file=sys.stderr)
        return 1
    return 0


def _listen(
    options: argparse.Namespace, devices: list[InputDevice], transcript: LiveTranscript, places: list[Place]
) -> int:
    listeners, speakers = CAPTION_LISTENERS if options.captions else 0, bool(options.speakers)
    service = chosen_service(options.server, Timing(), model_folder(options), listeners=listeners, speakers=speakers)
    with service as ready_service:
        from streamer.audio.joined_microphones import JoinedMicrophones
        from streamer.audio.microphone import Microphone, Recorder
        from streamer.commands.dictation import Dictation
        from streamer.commands.interrupt import run_until_signal

        separate = options.channels == "separate"
        session = options_with_second_pass(options)
        if separate:
            session |= {"channels": max(options.input_channels, len(devices)), "multichannel": True}

        def make_recorder() -> Recorder:
            if len(devices) > 1:
                return JoinedMicrophones([Microphone(each) for each in devices], separate=separate)
            return Microphone(devices[0], options.input_channels, separate=separate)

        dictation = Dictation(
            make_recorder,
            transcript,
            session,
            captions=options.captions,
            desk=_desk(options, places, transcript),
        )
        return run_until_signal(dictation.run(ready_service), tell=dictation.stop)


def _list(inputs: Inputs) -> int:
    from streamer.audio.microphone import NO_DEVICE, MicrophoneError

    if inputs.incomplete:
        reason = f"sources of PulseAudio and PipeWire cannot be listed: {inputs.no_server}."
        print(f"streamer: {reason}", file=sys.stderr)
    if not inputs.devices:
        raise MicrophoneError(NO_DEVICE)
    for device in inputs.devices:
        mark = "*" if device.default else " "
        number = "" if device.number is None else device.number
        name = f"{device.name}  {device.description}" if device.description else device.name
        channels = counted(device.channels, "channel")
        print(f"{mark} {number:2}  {name}  ({channels}, {device.sample_rate} Hz)")
    return 0
