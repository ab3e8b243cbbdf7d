"""Transcribes recordings, several at the same time, each in a session. A failed one does not stop the others."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, closing, suppress
from typing import Final

from streamer.audio.audio_file import AudioFile, Int16Samples
from streamer.audio.incoming import PipedAudio, TemporaryRecording, fetch
from streamer.audio.playable import MP3, mp3_of
from streamer.audio.recordings import STDIN, AudioError, ListedRecording, must_be_fetched
from streamer.base.codes import ClientCode, ErrorCode
from streamer.base.reading_page import Sound
from streamer.base.timing import Timing
from streamer.client import REFUSED_FOR_NOW, SessionError, transcribe
from streamer.commands.arguments import error_text
from streamer.commands.interrupt import AGAIN, off_signal, on_signal
from streamer.commands.recognition import options_with_second_pass
from streamer.commands.service import ReadyService
from streamer.commands.terminal.journal import identity_of, journal_options
from streamer.commands.terminal.transcript_output import OutputError, RecordingOutput, TranscriptOutput

# After these errors no other recording can succeed either: they concern the service, or the options of all sessions.
_HOPELESS: Final = (
    ClientCode.AWAY,
    ClientCode.BAD_ADDRESS,
    ClientCode.NO_SERVICE,
    ClientCode.REFUSED,
    ClientCode.UNTRUSTED,
    ErrorCode.BAD_OPTION,
    ErrorCode.BAD_ORIGIN,
    ErrorCode.UNAUTHORIZED,
    ErrorCode.UNKNOWN_MODEL,
    ErrorCode.UNKNOWN_OPTION,
)

# If the service is full because of our own sessions, we ask again after _AGAIN_S. For _LEAVING_S after its end, a
# session of ours may still count in the service.
_AGAIN_S: Final = 0.2
_LEAVING_S: Final = 5.0

INTERRUPTED: Final = 130
_MOMENTS: Final = {"ready": "session open", "partial": "first partial", "final": "first final"}

# Audio that is never louder than this (about -60 dB of full scale) contains no speech.
_SILENT: Final = 32
# A wait that is longer than this is explained to the user.
_SOON_S: Final = 2.0


class _Audio:
    """An open recording, and its length if that is known."""

    def __init__(
        self,
        chunks: Iterator[Int16Samples],
        channels: int,
        duration_ms: int | None,
        file: AudioFile | None = None,
        path: str | None = None,
        sound_path: str | None = None,
    ) -> None:
        self.channels = channels
        self.duration_ms = duration_ms
        self._file = file
        self.path = path  # of the file that can be read again
        self.sound_path = sound_path or path  # the same while it is open: also one that was fetched
        self.loudest = 0  # the highest amplitude so far
        self._chunks = chunks

    @property
    def has_two_voices(self) -> bool:
        return self._file is not None and self._file.has_two_voices

    def chunks(self) -> Iterator[Int16Samples]:
        for chunk in self._chunks:
            if len(chunk):
                self.loudest = max(self.loudest, int(chunk.max()), -int(chunk.min()))
            yield chunk


class Batch:
    """The recordings of one command line, and the service for them."""

    def __init__(
        self, options: argparse.Namespace, output: TranscriptOutput, timing: Timing, ready_service: ReadyService
    ) -> None:
        self._output = output
        self._timing = timing
        self._ready_service = ready_service
        self._jobs: int = options.jobs
        self._paced: bool = options.paced
        self._separate: bool = options.channels == "separate"
        self._piped = {
            "encoding": options.encoding,
            "sample_rate": options.sample_rate,
            "channels": options.input_channels,
            "separate": self._separate,
        }
        self._options = {"partials": output.wants_partials or options.timing, **options_with_second_pass(options)}
        self._url = ""
        self._opening = asyncio.Lock()
        self._next = 0  # index of the recording that begins next
        self._speaking = 0  # the number of recordings that have a session or ask for one
        self._ended_at = float("-inf")  # the time when the last session ended
        self._changed = asyncio.Event()  # set when a recording has ended
        self._input_ended = threading.Event()
        self._failed = 0
        self._reported_errors: set[str] = set()  # the errors that concern all recordings and were reported
        self._loading: set[str] = set()  # the models whose loading was reported
        self._hopeless = False

    async def run(self) -> int:
        """Transcribe all recordings. Return 0 if every recording was transcribed, else 1."""
        recordings = self._output.recordings
        async with AsyncExitStack() as service:
            workers = [
                asyncio.create_task(self._work(recordings, service)) for _ in range(min(self._jobs, len(recordings)))
            ]
            signals = self._end_input_on_interrupt(recordings)
            measuring = asyncio.create_task(self._measure(recordings))
            try:
                await asyncio.gather(*workers)
            except OutputError as error:
                self._output.say(f"streamer: {error}")
                return 1
            finally:
                signals.close()
                for task in (measuring, *workers):
                    task.cancel()
                await asyncio.gather(measuring, *workers, return_exceptions=True)
            self._timing.mark("done")
        if self._input_ended.is_set():
            return INTERRUPTED
        return int(self._failed > 0)

    def interrupt(self) -> None:
        """Tell the user what the program waits for after Ctrl-C or SIGTERM."""
        self._output.tally.interrupted = True
        waits = "saving what was recognised so far, and ending what this command started"
        self._output.say(f"streamer: stopping: {waits}. {AGAIN}")

    def _end_input_on_interrupt(self, recordings: list[ListedRecording]) -> ExitStack:
        """Make Ctrl-C end standard input, if that is the only recording. A second one does not wait for the words."""
        stack = ExitStack()
        if [recording.name for recording in recordings] == [STDIN]:

            def end() -> None:
                off_signal(signal.SIGINT)
                self._input_ended.set()
                self._output.say(f"streamer: stopping: waiting for the last words of standard input. {AGAIN}")

            on_signal(signal.SIGINT, end)
            stack.callback(off_signal, signal.SIGINT)
        return stack

    async def _work(self, recordings: list[ListedRecording], service: AsyncExitStack) -> None:
        """Transcribe one recording after the other."""
        while self._next < len(recordings) and not self._hopeless:
            index = self._next
            if not self._output.may_begin(index):
                self._changed.clear()
                await self._changed.wait()
                continue
            self._next += 1
            with self._output.of_recording(index) as transcript:
                await self._try(recordings[index], transcript, service)
            self._changed.set()

    async def _try(self, recording: ListedRecording, transcript: RecordingOutput, service: AsyncExitStack) -> None:
        """Transcribe a recording, or print why that is not possible."""
        try:
            async with self._open(recording.name) as audio:
                transcript.begin(audio.duration_ms)
                if await self._is_done(audio, transcript):
                    await self._add_sound(audio, transcript)
                    transcript.repeat()
                    return
                # Only now: a file that is not audio needs no service.
                url = await self._service(service)
                while not await self._transcribe(audio, transcript, url):
                    await self._wait_for_room()
                if not transcript.words:
                    silent = ": it is silent" if audio.loudest < _SILENT else ""
                    self._output.say(f"streamer: no words were recognised in {recording.name}{silent}.")
        except asyncio.CancelledError:
            transcript.break_off()
            raise
        except AudioError as error:
            self._failed += 1
            self._output.say(f"streamer: {error}")
            transcript.break_off()  # keeps the words before the damage
        except OutputError as error:
            if self._output.files.shared:
                raise
            self._failed += 1
            self._output.say(f"streamer: {error}")
        except SessionError as error:
            self._failed += 1
            if error.code not in self._reported_errors:
                self._output.say(f"streamer: {recording.name}: {error_text(error.code, str(error))}")
            if error.code in _HOPELESS:
                self._reported_errors.add(error.code)
                self._hopeless = True
            transcript.break_off()

    async def _is_done(self, audio: _Audio, transcript: RecordingOutput) -> bool:
        """Find out where an earlier command stopped. Return whether it had recognised the whole recording."""
        if audio.path is None:
            return False
        try:
            recording = await asyncio.to_thread(identity_of, audio.path)
        except OSError:
            return False  # the error is reported when it is read
        options = journal_options(self._options, channels="separate" if self._separate else "mix")
        return transcript.continue_from(recording, options)

    async def _add_sound(self, audio: _Audio, transcript: RecordingOutput) -> None:
        """Give a page for reading the sound of its recording."""
        if not transcript.wants_sound:
            return
        if audio.sound_path is None:
            self._output.say("streamer: the page has no sound, because standard input can be read only once.")
            return
        transcript.sound = Sound(MP3, await asyncio.to_thread(mp3_of, audio.sound_path))

    async def _service(self, stack: AsyncExitStack) -> str:
        async with self._opening:
            self._url = self._url or await stack.enter_async_context(self._ready_service())
        return self._url

    async def _transcribe(self, audio: _Audio, transcript: RecordingOutput, url: str) -> bool:
        """Transcribe in a session. Return False if our other sessions leave no room for it in the service."""
        options = self._options
        if self._separate:
            options = {**options, "channels": audio.channels, "multichannel": True}
        events = transcribe(
            audio.chunks(),
            url,
            options=options,
            paced=self._paced,
            on_starting=self._report_loading,
            after=transcript.after,
        )
        loop, opened = asyncio.get_running_loop(), False
        self._speaking += 1
        try:
            async with aclosing(events):
                async for event in events:
                    if event["type"] in _MOMENTS:
                        self._timing.mark(_MOMENTS[event["type"]])
                    opened = True
                    if event["type"] == "ready" and not transcript.continues(str(event.get("triton_model", ""))):
                        return False
                    transcript.take(event)
        except SessionError as error:
            ours = self._speaking > 1 or loop.time() - self._ended_at < _LEAVING_S
            if not opened and ours and error.code in REFUSED_FOR_NOW:
                return False
            raise
        finally:
            self._speaking -= 1
            if opened:
                self._ended_at = loop.time()
        await self._add_sound(audio, transcript)
        transcript.end()
        if audio.has_two_voices:
            self._output.say(
                f"streamer: {transcript.name} has a voice on each of its two channels, which were mixed: "
                "--channels separate writes who says what."
            )
        return True

    def _report_loading(self, model: str) -> None:
        if model not in self._loading:  # all sessions wait for the same load
            self._loading.add(model)
            self._output.say(f"streamer: the model {model} is being loaded …")

    async def _wait_for_room(self) -> None:
        """Wait until one of our sessions has ended, and a moment longer, because the service may notice that later."""
        if self._speaking:
            self._changed.clear()
            await self._changed.wait()
        await asyncio.sleep(_AGAIN_S)

    async def _measure(self, recordings: list[ListedRecording]) -> None:
        """Tell the display the lengths of the recordings that have not begun."""
        if not self._output.display.shows_all:
            return
        for index, recording in enumerate(recordings):
            if index >= self._next and recording.name != STDIN and not must_be_fetched(recording.name):
                with suppress(AudioError):  # reported when it is transcribed
                    if (length := await asyncio.to_thread(_length_of, recording.name)) is not None:
                        self._output.display.expect(index, length)

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncIterator[_Audio]:
        if name == STDIN:
            piped = PipedAudio(sys.stdin.fileno(), end=self._input_ended, **self._piped)
            yield _Audio(piped.chunks(), piped.streams, None)
        elif must_be_fetched(name):
            with closing(TemporaryRecording(name)) as fetched:
                await self._fetch(name, fetched)
                with AudioFile(fetched.path, separate=self._separate, display_name=name, listen=True) as recording:
                    yield self._audio_of(recording, fetched.path)
        else:
            with AudioFile(name, separate=self._separate, listen=True) as recording:
                yield self._audio_of(recording)

    def _audio_of(self, recording: AudioFile, sound_path: str | None = None) -> _Audio:
        if recording.may_be_cut:
            self._output.say(f"streamer: {recording.name} has no end mark: its end may be missing.")
        path = None if must_be_fetched(recording.name) else recording.name
        return _Audio(recording.chunks(), recording.channels, _length_ms(recording), recording, path, sound_path)

    async def _fetch(self, name: str, recording: TemporaryRecording) -> None:
        """Fetch from an address or a pipe, in a thread that does not delay the end of the program."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        outcome: asyncio.Future[Exception | None] = loop.create_future()

        def tell(result: Exception | None) -> None:
            if not outcome.done():
                outcome.set_result(result)

        def work() -> None:
            result = None
            try:
                fetch(name, recording, stop)
            except Exception as error:
                result = error
            with suppress(RuntimeError):  # the program ends
                loop.call_soon_threadsafe(tell, result)

        threading.Thread(target=work, daemon=True).start()
        try:
            await asyncio.wait({outcome}, timeout=_SOON_S)
            if not outcome.done():
                self._output.say(f"streamer: fetching {name}")
            if error := await outcome:
                raise error
        finally:
            stop.set()


def _length_ms(recording: AudioFile) -> int | None:
    return None if recording.duration_s is None else round(recording.duration_s * 1000)


def _length_of(name: str) -> int | None:
    with AudioFile(name) as recording:
        return _length_ms(recording)
