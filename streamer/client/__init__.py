"""The client of the native protocol, asynchronous and blocking.

    for event in transcribe("talk.wav"):                # in asynchronous code: async for
        if event["type"] == "final":
            print(event["text"])

    transcript = transcribe("talk.wav").result()        # in asynchronous code: await transcribe("talk.wav")
    print(transcript.render("srt"))

    with connect() as session:                          # in asynchronous code: async with, await session.send(…)
        session.send(audio)

Events are the protocol's own objects as dicts. If the connection is lost, the client connects again and the session
goes on, even if the service itself was restarted. Each event comes once. Any other fault of the service or the
connection raises SessionError. docs/how-to/python.md has examples.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from streamer.audio.audio_file import AudioFile
from streamer.audio.recordings import AudioError as AudioError
from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT, SERVER_VARIABLE
from streamer.base.json_types import JsonObject
from streamer.base.text import either
from streamer.base.transcript import Transcript as Transcript
from streamer.client.blocking import BlockingEvents, BlockingSession, Inbox, refuse_in_loop
from streamer.client.connection import Addresses, Connection, OnStarting
from streamer.client.connection import SessionError as SessionError
from streamer.client.events import Event as Event
from streamer.client.recovery import PASSING
from streamer.client.recovery import REFUSED_FOR_NOW as REFUSED_FOR_NOW
from streamer.client.sending import Audio as Audio
from streamer.client.sending import behind, describe_audio, send_all
from streamer.client.session import Session as Session

if TYPE_CHECKING:
    from streamer.client.options import Options

Channels = Literal["mix", "separate"]
Source = str | os.PathLike[str] | Iterable[Audio] | AsyncIterable[Audio]

KEY_VARIABLE: Final = "STREAMER_KEY"


def connect(
    url: str | None = None,
    options: Options | Mapping[str, object] | None = None,
    key: str | None = None,
    *,
    resume: bool = True,
    restart: bool | None = None,
    on_starting: OnStarting | None = None,
) -> Opening:
    """Open a session: `with connect(url) as session`, or `async with`, or `session = await connect(url)`.

    `options`: the options of the protocol's `start`; their type is `streamer.client.options.Options`. `url` may also be
    `host:port`, or several of them with commas between, of bridges that serve the same: if one is away or refuses, the
    session begins or goes on at the next one. The default is what the environment variable STREAMER_SERVER has, or this
    machine. `key`: the default is the key in STREAMER_KEY, if it is set.
    `resume`: whether the session goes on when its connection is lost. `restart`: whether it goes on when the service
    itself was restarted; the default is the value of `resume`. `on_starting`: the client calls it with the name of the
    model if the service must load the model first, which takes seconds.
    """
    key = os.environ.get(KEY_VARIABLE, "") if key is None else key
    restart = resume if restart is None else restart
    return Opening(_address(url), options or {}, key, resume=resume, restart=restart, on_starting=on_starting)


def transcribe(
    source: Source,
    url: str | None = None,
    *,
    options: Options | Mapping[str, object] | None = None,
    paced: bool = False,
    channels: Channels = "mix",
    key: str | None = None,
    on_starting: OnStarting | None = None,
    after: Sequence[Mapping[str, Any]] | None = None,
) -> Transcription:
    """Return all events of one recording, from `ready` to `done`, or its transcript.

    `source`: the path of a file, or blocks of audio. A block is int16 mono 16 kHz (an array or bytes), or bytes in the
    encoding that `options` declare. An empty block means that there is no audio at present. `paced`: send the audio as
    fast as it was spoken. `channels`: whether the channels of a file are mixed or recognised separately; if separately,
    events have a `channel`. If the source fails, the audio before the failure is still recognised, and the exception
    follows after the last event. `on_starting`: as for `connect`.
    `after`: the finals that an earlier session gave of the same source, with the same options. The recognition goes on
    behind them, with the words that it would have had in one go. If this is not None, finals have a `context` for that.
    """
    if channels not in get_args(Channels):
        raise ValueError(f"'channels' must be {either(get_args(Channels))}, not {channels!r}")
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    events = _events(source, _address(url), dict(options or {}), paced, channels == "separate", key, on_starting, after)
    return Transcription(name, events)


class Transcription:
    """The recognition of one recording. The caller reads its events one by one, or its transcript.

    Use `async for event in …` or `for event in …`, or else `await …` or `….result()`. The session begins when the
    caller first reads.
    """

    def __init__(self, name: str, events: AsyncGenerator[Event, None]) -> None:
        self._name = name
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the recognition early, and close the session."""
        await self._events.aclose()

    def __await__(self) -> Generator[Any, None, Transcript]:
        return self._transcript().__await__()

    def __iter__(self) -> Iterator[Event]:
        refuse_in_loop("for event in transcribe(…)", "async for event in transcribe(…)")
        return _blocking(self._events)

    def result(self) -> Transcript:
        """Wait for the end of the recording and return its transcript."""
        refuse_in_loop("transcribe(…).result()", "await transcribe(…)")
        transcript = Transcript(self._name)
        for event in _blocking(self._events):
            transcript.add(event)
        return transcript

    async def _transcript(self) -> Transcript:
        transcript = Transcript(self._name)
        try:
            async for event in self._events:
                transcript.add(event)
        finally:
            await self._events.aclose()
        return transcript


class Opening:
    """A session that opens when the caller enters `with` or `async with`, or awaits this object."""

    def __init__(
        self,
        url: str,
        options: Mapping[str, object],
        key: str,
        *,
        resume: bool,
        restart: bool,
        on_starting: OnStarting | None,
    ) -> None:
        self._addresses = Addresses(url)
        self._on_starting = on_starting
        self._key = key
        self._resume = resume
        self._restart = restart
        self._options = dict(options)
        self.after: Sequence[Mapping[str, Any]] | None = None  # the finals behind which it goes on, see `transcribe`
        self._session: Session | None = None
        self._blocking: BlockingSession | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    def __enter__(self) -> BlockingSession:
        self._blocking = self.open()
        return self._blocking

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._blocking:
            self._blocking.close()

    def open(self) -> BlockingSession:
        """Open a blocking session. The caller must close it."""
        refuse_in_loop("with connect(…)", "async with connect(…)")
        return BlockingSession(self._open)

    async def _open(self) -> Session:
        for left in reversed(range(len(self._addresses))):
            session = Session(await self._dial())
            try:
                await session.start(
                    self._options,
                    self._dial,
                    resume=self._resume,
                    restart=self._restart,
                    after=self.after,
                    pass_over=self._addresses.pass_over,
                )
            except BaseException as error:
                await session.close()
                if not (left and isinstance(error, SessionError) and error.code in PASSING):
                    raise
                self._addresses.pass_over()
            else:
                break
        return session

    async def _dial(self) -> Connection:
        return await self._addresses.dial(self._key, self._on_starting)


def _address(url: str | None) -> str:
    return url or os.environ.get(SERVER_VARIABLE) or f"{DEFAULT_HOST}:{DEFAULT_PORT}"


async def _events(
    source: Source,
    url: str,
    options: JsonObject,
    paced: bool,
    separate: bool,
    key: str | None,
    on_starting: OnStarting | None,
    after: Sequence[Mapping[str, Any]] | None,
) -> AsyncGenerator[Event, None]:
    recording = AudioFile(source, separate=separate) if isinstance(source, (str, os.PathLike)) else None
    if recording and separate:
        options |= {"channels": recording.channels, "multichannel": True}
    chunks: Iterable[Audio] | AsyncIterable[Audio]
    chunks = recording.chunks() if recording else source  # type: ignore[assignment]
    try:
        opening = connect(url, options, key, on_starting=on_starting)
        opening.after = after
        async with opening as session:
            start = describe_audio(options)
            if after:
                chunks = behind(chunks, start, session.from_ms)
            sender = asyncio.create_task(send_all(session, chunks, start, paced))
            try:
                yield session.ready
                async for event in session:
                    yield event
                await sender
            finally:
                sender.cancel()
                await session.close()
                await asyncio.gather(sender, return_exceptions=True)
    finally:
        if recording:
            recording.close()


def _blocking(events: AsyncGenerator[Event, None]) -> Iterator[Event]:
    """Yield the events in this thread, while another thread receives them."""

    async def run(inbox: Inbox) -> None:
        try:
            await inbox.fill(events)
        finally:
            await events.aclose()

    with BlockingEvents(run) as reading:
        yield from reading
