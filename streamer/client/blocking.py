"""The client for programs that are not asynchronous: a session in a thread of its own, read and fed by others.

`streamer.client` opens it. Any thread may send and read; each event goes to one reader.
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

from streamer.client.connection import SessionError
from streamer.client.events import Event, Ready

if TYPE_CHECKING:
    from streamer.client.sending import Audio
    from streamer.client.session import Session

T = TypeVar("T")
P = TypeVar("P", bound="BlockingEvents")
Life = Callable[["Inbox"], Coroutine[Any, Any, None]]

# Who reads slowly still gets each final. Of the events that say the same later and better, such as partials, only the
# newest is kept once so many wait; and once even so too many wait, the service is read no further.
FEW_UNREAD: Final = 64
MOST_UNREAD: Final = 10_000
_LOOKED_THROUGH: Final = 16
END_S: Final = 5.0
_LOOK_S: Final = 1.0


class Inbox:
    """Events on their way from the thread of the session to who reads them."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = asyncio.Event()
        self._over = False
        self._failure: BaseException | None = None

    async def fill(self, events: AsyncIterable[Event]) -> None:
        """Takes all events, in the thread of the session, and what ended them."""
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
        """No more events come; whoever has read all that are there is told why."""
        with self._changed:
            if not self._over:
                self._over, self._failure = True, failure
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None at the end, TimeoutError if none has come by then."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._events:
                if self._over:
                    if self._failure is not None:
                        raise self._failure
                    return None
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("No event has come.")
                self._changed.wait(left)
            event = self._events.popleft()
        if self._loop is not None and not self._room.is_set():
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._room.set)
        return event

    @property
    def failure(self) -> BaseException | None:
        """What ended the events too early, if something did."""
        return self._failure

    def _put(self, event: Event) -> int:
        with self._changed:
            if len(self._events) >= FEW_UNREAD:
                self._drop_replaced(event)
            self._events.append(event)
            self._changed.notify()
            return len(self._events)

    def _drop_replaced(self, event: Event) -> None:
        """Drops what the new event says again, better."""
        if event["type"] not in ("partial", "heard"):
            return
        for index in range(len(self._events) - 1, len(self._events) - 1 - _LOOKED_THROUGH, -1):
            if _subject(self._events[index]) == _subject(event):
                del self._events[index]
                return


class Thread:
    """An event loop in a thread of its own, which does one thing for as long as that is wanted."""

    def __init__(self, life: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._asked = threading.Lock()  # taken by the first who wants the end
        # A session that is forgotten must not keep a program from ending.
        self._thread = threading.Thread(target=self._run, args=(life,), name="streamer session", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of the work, which is done in that thread."""
        try:
            future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise _closed() from None
        # Ctrl-C ends the wait alone: the work, such as half a message, is done whole.
        while not wait([future], _LOOK_S).done:
            if not self._thread.is_alive():  # it was asked in the last moment
                raise _closed()
        try:
            return future.result()
        except CancelledError:
            raise _closed() from None

    def stop(self) -> None:
        """Ends what it does, and the thread; waits for that, unless it is this thread that asks."""
        if self._asked.acquire(blocking=False):  # once: a second stop would break the order of the end
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(END_S)

    def _run(self, life: Coroutine[Any, Any, None]) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(life)
        try:
            loop.run_forever()
            loop.run_until_complete(_ended(task))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


class BlockingEvents:
    """The events of something that goes on in a thread of its own."""

    def __init__(self, life: Life) -> None:
        self._closed = False
        self._inbox = Inbox()
        self._thread = Thread(life(self._inbox))
        # Also for who forgets to close it. The thread knows nothing of this object, so it can be forgotten.
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self._inbox.get()
        if event is None:
            raise StopIteration
        return event

    def receive(self, timeout: float | None = None) -> Event | None:
        """The next event, or None after the last; TimeoutError if none comes within so many seconds."""
        return self._inbox.get(timeout)

    def waiting(self) -> Iterator[Event]:
        """The events that are there already."""
        with suppress(TimeoutError):
            while (event := self._inbox.get(0)) is not None:
                yield event

    def close(self) -> None:
        """Ends it, whatever is still on its way; more than once does no harm."""
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
    """An open session: send audio, and iterate over its events, in one thread or in several.

    Events are gathered while nobody reads them: a whole recording can be sent first. What comes after a session was
    closed is a SessionError.
    """

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        """Waits until the session is open; SessionError if it cannot be."""
        opened: Future[Session] = Future()

        async def life(inbox: Inbox) -> None:
            try:
                session = await opening()
            except BaseException as error:
                opened.set_exception(error)
                return
            async with session:
                opened.set_result(session)
                await inbox.fill(session)
                await asyncio.Event().wait()  # until it is closed

        super().__init__(life)
        try:
            self._session = opened.result()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._session.url

    @property
    def ready(self) -> Ready:
        """What the service said when it opened the session."""
        return self._session.ready

    def send(self, audio: Audio) -> None:
        """Sends audio (int16 mono 16 kHz unless declared otherwise); waits while the service reads no more."""
        self._do(self._session.send(audio))

    def flush(self) -> None:
        """Asks that everything so far becomes final now; answered by a `flushed` event."""
        self._do(self._session.flush())

    def keepalive(self) -> None:
        """Keeps the session open while there is no audio."""
        self._do(self._session.keepalive())

    def stop(self) -> None:
        """Says that there is no more audio; the remaining events follow."""
        self._do(self._session.stop())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            raise _closed()
        try:
            self._thread.call(work)
        except SessionError as error:
            # The service may have said what was wrong before it closed, which tells more than that it did.
            raise (self._inbox.failure or error) from None


def refuse_in_loop(name: str, instead: str) -> None:
    """RuntimeError where a plain wait would hold up an event loop, and everything in it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would hold up the event loop of this thread; in asynchronous code it is `{instead}`.")


def _subject(event: Event) -> tuple[object, ...]:
    if event["type"] == "partial":
        return "partial", event.get("channel"), event["segment"]
    return (event["type"],)


def _closed() -> SessionError:
    return SessionError("closed", "The session has been closed.")


async def _ended(task: asyncio.Task[None]) -> None:
    """The task and all that it left behind are over."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others | {task}:
        each.cancel()
    await asyncio.gather(task, *others, return_exceptions=True)
