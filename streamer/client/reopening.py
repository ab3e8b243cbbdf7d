"""Continues a session that has lost its connection or its service.

The service resumes the session over another connection. If it does not know the session any more, for example because
it was restarted, a new session begins at the last cut and recognises the audio without a final again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from streamer.client.connection import Connection, SessionError
from streamer.client.kept_audio import KeptAudio
from streamer.client.progress import Message, Progress

# How long the client repeats its attempts, and the pauses between them, which grow.
REOPEN_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0
# If the recogniser fails on some audio again and again, the client gives up after this many new sessions.
MOST_RESTARTS: Final = 3

REFUSED_FOR_NOW: Final = ("full", "too_many_sessions")  # a refusal that passes, even for a session that is already open
# Errors that pass: also those of a service that is away, starts or shuts down, and those of a proxy in its place.
PASSING: Final = (*REFUSED_FOR_NOW, "away", "refused", "no_service", "lost", "overdue", "not_ready", "shutting_down")
# Error codes of a service that does not know the session.
FORGOTTEN: Final = ("unknown_token", "bad_resume")

Dial = Callable[[], Awaitable[Connection]]


class Reopening:
    """Opens a session again where it was interrupted."""

    def __init__(
        self,
        dial: Dial,
        options: Mapping[str, Any],
        token: str,
        kept: KeptAudio,
        progress: Progress,
        *,
        resume: bool,
        restart: bool,
    ) -> None:
        """`resume`: the session may go on over another connection. `restart`: it may go on in another session."""
        self.cancelled = False  # the client has closed the session
        self._dial = dial
        self._options = options
        self._token = token
        self._kept = kept
        self._progress = progress
        self._resume = resume
        self._restart = restart

    async def connection(self, error: SessionError, *, ended: bool) -> tuple[Connection, list[Message]]:
        """Return another connection that is ready for the kept audio, and the events of a restart if there was one.

        `error`: the error that ended the last connection. `ended`: whether the service ended its session too. Raise
        this error or a later one if there is no other connection.
        """
        if ended:
            self._token = ""
        allowed = self._resume if self._token else self._restart
        if not allowed or not (ended or error.code == "lost"):
            raise error
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + REOPEN_S, FIRST_PAUSE_S
        while not self.cancelled:
            try:
                return await self._attempt(until)
            except SessionError as refusal:
                if refusal.code in FORGOTTEN and self._token:
                    if not self._restart:
                        raise _forgotten_error(error) from refusal
                    self._token, pause = "", FIRST_PAUSE_S
                    continue
                if refusal.code not in PASSING:
                    raise
                if loop.time() + pause > until:
                    raise SessionError(error.code, f"{error} After {REOPEN_S:g} s of attempts: {refusal}") from refusal
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        raise error

    async def _attempt(self, until: float) -> tuple[Connection, list[Message]]:
        if not self._token and self._progress.restarts == MOST_RESTARTS:
            raise SessionError("failed", "The service fails again and again with this audio.")
        connection = await self._dial()
        timer = asyncio.get_running_loop().call_at(until, connection.abort)
        try:
            resume = {"token": self._token, "after": self._progress.after}
            ready = await connection.open({"resume": resume} if self._token else self._next_options())
            if self.cancelled:
                raise SessionError("closed", "The session has been closed.")
            # No `await` may follow: other tasks that send or read must see either none of this change or all of it.
            return connection, self._after_resume(ready) if self._token else self._after_restart(ready)
        except BaseException:
            await connection.close()
            raise
        finally:
            timer.cancel()

    def _next_options(self) -> Mapping[str, Any]:
        """Return the options of another session, which goes on after the words that are final."""
        contexts = self._progress.contexts
        return {**self._options, "context": contexts} if contexts else self._options

    def _after_resume(self, ready: Mapping[str, Any]) -> list[Message]:
        if not self._kept.resume(ready.get("from_sample", -1), ready.get("flushes", 0)):
            raise _lost_audio_error()
        return []

    def _after_restart(self, ready: Mapping[str, Any]) -> list[Message]:
        from_ms = self._kept.restart(self._progress.cuts_ms)
        if from_ms is None:
            raise _lost_audio_error()
        self._token = ready.get("token", "")
        return self._progress.restart(from_ms)


def _forgotten_error(error: SessionError) -> SessionError:
    why = "it was restarted, or too much time has passed"
    return SessionError(error.code, f"{error} The service does not know the session any more: {why}.")


def _lost_audio_error() -> SessionError:
    return SessionError("lost_audio", "The service asks for audio that is not kept any more.")
