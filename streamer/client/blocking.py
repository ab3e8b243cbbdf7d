"""The client for programs that are not asynchronous. Its session runs in its own thread.

`streamer.client` opens it. Any thread may send and read. Only one reader gets each event.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamer.base.codes import ClientCode
from streamer.client.connection import SessionError
from streamer.client.events import Event, Ready

if TYPE_CHECKING:
    from streamer.client.sending import Audio
    from streamer.client.session import Session

T = TypeVar("T")
P = TypeVar("P", bound="BlockingEvents")
Run = Callable[["Inbox"], Coroutine[Any, Any, None]]

# A slow reader still gets every final. From FEW_UNREAD waiting events on, a new partial or `heard` replaces an older
# one of the same segment. At MOST_UNREAD waiting events, the client stops reading from the service.
FEW_UNREAD: Final = 64
MOST_UNREAD: Final = 10_000
_MOST_COMPARED: Final = 16
END_S: Final = 5.0
_CHECK_S: Final = 1.0


class Inbox:
    """A queue of events from the thread of the session to the threads that read them."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = asyncio.Event()
        self._ended = False
        self._failure: BaseException | None = None

    async def fill(self, events: AsyncIterable[Event]) -> None:
        """Put all events into the queue, and the error that ends them if there is one. Runs in the session's thread."""
        self._loop = asyncio.get_running_loop()
        try:
            async for event in events:
                if self._put(event) >= MOST_UNREAD:
                    self._room.clear()
                    await self._room.wait()
        except asyncio.CancelledError:
            self.end()
            raise
        except BaseException as error:
            self.end(error)
        else:
            self.end()

    def end(self, failure: BaseException | None = None) -> None:
        """Note that no more events come. A reader gets the failure after it has read all waiting events."""
        with self._changed:
            if not self._ended:
                self._ended, self._failure = True, failure
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event, or None at the end. Raise TimeoutError if none comes in time."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._events:
                if self._ended:
                    if self._failure is not None:
                        raise self._failure
                    return None
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("No event has arrived in time.")
                self._changed.wait(left)
            event = self._events.popleft()
        if self._loop is not None and not self._room.is_set():
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._room.set)
        return event

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the events too early, or None."""
        return self._failure

    def _put(self, event: Event) -> int:
        with self._changed:
            if len(self._events) >= FEW_UNREAD:
                self._drop_older(event)
            self._events.append(event)
            self._changed.notify()
            return len(self._events)

    def _drop_older(self, event: Event) -> None:
        """Drop the waiting event that this new one replaces."""
        if event["type"] not in ("partial", "heard"):
            return
        for index in range(len(self._events) - 1, len(self._events) - 1 - _MOST_COMPARED, -1):
            if _subject(self._events[index]) == _subject(event):
                del self._events[index]
                return


class Thread:
    """A thread with an event loop. It runs one coroutine until that ends or somebody stops it."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = threading.Lock()  # the first call of `stop` takes it
        # A daemon, because a session that was never closed must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, args=(work,), name="streamer session", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this work in that thread, and return its result."""
        try:
            future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise _closed_error() from None
        # Ctrl-C ends only the wait. The work goes on to its end, so no message is sent by half.
        while not wait([future], _CHECK_S).done:
            if not self._thread.is_alive():  # the loop was closed just after it got the work
                raise _closed_error()
        try:
            return future.result()
        except CancelledError:
            raise _closed_error() from None

    def stop(self) -> None:
        """Stop the work and the thread, and wait for its end, unless the thread itself calls."""
        if self._stopping.acquire(blocking=False):  # only once: a second stop would interrupt the clean-up
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(END_S)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(work)
        try:
            loop.run_forever()
            loop.run_until_complete(_cancel(task))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


class BlockingEvents:
    """The events of a coroutine that runs in its own thread."""

    def __init__(self, run: Run) -> None:
        self._closed = False
        self._inbox = Inbox()
        self._thread = Thread(run(self._inbox))
        # Callers may forget to close this object. The thread has no reference to it, so Python can collect it.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self._inbox.get()
        if event is None:
            raise StopIteration
        return event

    def receive(self, timeout: float | None = None) -> Event | None:
        """Return the next event, or None after the last one. Raise TimeoutError after `timeout` seconds."""
        return self._inbox.get(timeout)

    def waiting(self) -> Iterator[Event]:
        """Yield the events that have already arrived."""
        with suppress(TimeoutError):
            while (event := self._inbox.get(0)) is not None:
                yield event

    def close(self) -> None:
        """Close the session at once, even if messages are still on their way. A second call does nothing."""
        self._closed = True
        self._inbox.end()
        self._finalizer.detach()
        self._thread.stop()

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingSession(BlockingEvents):
    """An open session: send audio and iterate over its events, in one thread or in several.

    The client receives events even while nobody reads them, so a program may first send a whole recording. Any use
    after `close` raises SessionError.
    """

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        """Wait until the session is open. Raise SessionError if it cannot be opened."""
        opened: Future[Session] = Future()

        async def run(inbox: Inbox) -> None:
            try:
                session = await opening()
            except BaseException as error:
                opened.set_exception(error)
                return
            async with session:
                opened.set_result(session)
                await inbox.fill(session)
                await asyncio.Event().wait()  # until `close` stops this thread

        super().__init__(run)
        try:
            self._session = opened.result()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._session.url

    @property
    def ready(self) -> Ready:
        """The event `ready`, with which the service opened the session."""
        return self._session.ready

    def send(self, audio: Audio) -> None:
        """Send audio: int16 mono 16 kHz, or as the options declare. Wait while the service does not read."""
        self._do(self._session.send(audio))

    def flush(self) -> None:
        """Ask for the final of all audio so far. The event `flushed` is the answer."""
        self._do(self._session.flush())

    def keepalive(self) -> None:
        """Keep the session open while there is no audio to send."""
        self._do(self._session.keepalive())

    def stop(self) -> None:
        """Say that there is no more audio. The remaining events follow."""
        self._do(self._session.stop())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            raise _closed_error()
        try:
            self._thread.call(work)
        except SessionError as error:
            # The service may have sent the reason before it closed the session. That error says more than "closed".
            raise (self._inbox.failure or error) from None


def refuse_in_loop(name: str, instead: str) -> None:
    """Raise RuntimeError if this thread has an event loop, because a blocking wait would stop the loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would block the event loop of this thread. Use `{instead}` in asynchronous code.")


def _subject(event: Event) -> tuple[object, ...]:
    if event["type"] == "partial":
        return "partial", event.get("channel"), event["segment"]
    return (event["type"],)


def _closed_error() -> SessionError:
    return SessionError(ClientCode.CLOSED, "The session has been closed.")


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel the task and all other tasks of this loop, and wait until they have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others | {task}:
        each.cancel()
    await asyncio.gather(task, *others, return_exceptions=True)
