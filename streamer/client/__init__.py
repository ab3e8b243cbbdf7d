"""The client of the native protocol, asynchronous and blocking.

    for event in transcribe("talk.wav"):                # in asynchronous code: async for
        if event["type"] == "final":
            print(event["text"])

    transcript = transcribe("talk.wav").result()        # in asynchronous code: await transcribe("talk.wav")
    print(transcript.render("srt"))

    with connect() as session:                          # in asynchronous code: async with, await session.send(…)
        session.send(audio)

Events are the protocol's own objects as dicts. A connection that is lost is made again, and the session goes on: each
event comes once. It also goes on where the service itself was started anew. Whatever else goes wrong with the service
is one exception, SessionError. docs/how-to/python.md has examples.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Literal

from streamer.address import DEFAULT_HOST, DEFAULT_PORT, SERVER_VARIABLE
from streamer.audio.audio_file import AudioFile
from streamer.client.blocking import BlockingEvents, BlockingSession, Inbox, refuse_in_loop
from streamer.client.connection import Connection, dial
from streamer.client.connection import SessionError as SessionError
from streamer.client.events import Event as Event
from streamer.client.reopening import REFUSED_FOR_NOW as REFUSED_FOR_NOW
from streamer.client.sending import Audio as Audio
from streamer.client.sending import declared, send_all
from streamer.client.session import Session as Session
from streamer.transcript import Transcript as Transcript

Source = str | os.PathLike[str] | Iterable[Audio] | AsyncIterable[Audio]

KEY_VARIABLE: Final = "STREAMER_KEY"


def connect(
    url: str | None = None,
    options: Mapping[str, Any] | None = None,
    key: str | None = None,
    *,
    resume: bool = True,
    restart: bool | None = None,
) -> Opening:
    """Opens a session: `with connect(url) as session`, or `async with`, or `session = await connect(url)`.

    `options` are those of the protocol's `start`; `url` may also be `host:port`. Without it the environment variable
    STREAMER_SERVER says where the service is, or it is on this machine. Without a `key` that in STREAMER_KEY is shown
    to the service, if there is one. `resume`: whether the session goes on when its connection is lost, and `restart`
    (as `resume` if it is not given) when the service itself is started anew.
    """
    key = os.environ.get(KEY_VARIABLE, "") if key is None else key
    return Opening(_address(url), options or {}, key, resume=resume, restart=resume if restart is None else restart)


def transcribe(
    source: Source,
    url: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    paced: bool = False,
    channels: Literal["mix", "separate"] = "mix",
    key: str | None = None,
) -> Transcription:
    """All events of one recording, from `ready` to `done`, or its transcript.

    The source is a file's path, or blocks of audio: int16 mono 16 kHz (arrays or bytes), or bytes of what `options`
    declare; an empty block says that there is none at present. `paced` sends it as fast as it was spoken. The channels
    of a file are mixed, or recognised each on its own: then events have a `channel`. If the source fails, what
    came before it is still recognised; its exception comes after the last event.
    """
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    return Transcription(name, _events(source, _address(url), dict(options or {}), paced, channels == "separate", key))


class Transcription:
    """A recording on its way through a session: its events, or all of them as a transcript. It begins when it is read.

    `async for event in …` or `for event in …`; `await …` or `….result()`.
    """

    def __init__(self, name: str, events: AsyncGenerator[Event, None]) -> None:
        self._name = name
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Ends it early, in order."""
        await self._events.aclose()

    def __await__(self) -> Generator[Any, None, Transcript]:
        return self._gathered().__await__()

    def __iter__(self) -> Iterator[Event]:
        refuse_in_loop("for event in transcribe(…)", "async for event in transcribe(…)")
        return _blocking(self._events)

    def result(self) -> Transcript:
        """Waits for the whole of it."""
        refuse_in_loop("transcribe(…).result()", "await transcribe(…)")
        transcript = Transcript(self._name)
        for event in _blocking(self._events):
            transcript.add(event)
        return transcript

    async def _gathered(self) -> Transcript:
        transcript = Transcript(self._name)
        try:
            async for event in self._events:
                transcript.add(event)
        finally:
            await self._events.aclose()
        return transcript


class Opening:
    """A session that is being opened: to be entered with `with` or `async with`, or awaited."""

    def __init__(self, url: str, options: Mapping[str, Any], key: str, *, resume: bool, restart: bool) -> None:
        self._url = url
        self._key = key
        self._resume = resume
        self._restart = restart
        self._options = dict(options)
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
        """A blocking session, which has to be closed."""
        refuse_in_loop("with connect(…)", "async with connect(…)")
        return BlockingSession(self._open)

    async def _open(self) -> Session:
        session = Session(await self._dial())
        try:
            await session.start(self._options, self._dial, resume=self._resume, restart=self._restart)
        except BaseException:
            await session.close()
            raise
        return session

    async def _dial(self) -> Connection:
        return await dial(self._url, self._key)


def _address(url: str | None) -> str:
    return url or os.environ.get(SERVER_VARIABLE) or f"{DEFAULT_HOST}:{DEFAULT_PORT}"


async def _events(
    source: Source, url: str, options: dict[str, Any], paced: bool, separate: bool, key: str | None
) -> AsyncGenerator[Event, None]:
    recording = AudioFile(source, separate=separate) if isinstance(source, (str, os.PathLike)) else None
    if recording and separate:
        options |= {"channels": recording.channels, "multichannel": True}
    chunks: Iterable[Audio] | AsyncIterable[Audio]
    chunks = recording.chunks() if recording else source  # type: ignore[assignment]
    try:
        async with connect(url, options, key) as session:
            sender = asyncio.create_task(send_all(session, chunks, declared(options), paced))
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
    """The events in this thread, while another one gathers them."""

    async def life(inbox: Inbox) -> None:
        try:
            await inbox.fill(events)
        finally:
            await events.aclose()

    with BlockingEvents(life) as reading:
        yield from reading
