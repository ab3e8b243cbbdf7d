"""Continues a session that has lost its connection or its service.

The service resumes the session over another connection. If the service does not know it any more, for example because
it was restarted, a new session begins at the last cut and recognises again what is not final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from streamer.client.connection import Connection, SessionError
from streamer.client.kept_audio import KeptAudio
from streamer.client.progress import Message, Progress

# How long attempts are repeated, with growing pauses between them.
REOPEN_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0
# If the recogniser fails on some audio again and again, that audio is not sent for ever.
MOST_RESTARTS: Final = 3

REFUSED_FOR_NOW: Final = ("full", "too_many_sessions")  # a refusal that passes, even for a session that is already open
# Other errors that pass: no service answers yet, a proxy answers for it, or the service is starting or shutting down.
PASSING: Final = (*REFUSED_FOR_NOW, "away", "refused", "no_service", "lost", "overdue", "not_ready", "shutting_down")
# Errors by which the service says that it does not know the session.
FORGOTTEN: Final = ("unknown_token", "bad_resume")

Dial = Callable[[], Awaitable[Connection]]


class Reopening:
    """Opens a session again at the point that it had reached."""

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
        """`resume`: whether the session may survive its connection. `restart`: whether it may survive the service."""
        self.unwanted = False  # the session was closed in the meantime
        self._dial = dial
        self._options = options
        self._token = token
        self._kept = kept
        self._progress = progress
        self._resume = resume
        self._restart = restart

    async def connection(self, error: SessionError, *, ended: bool) -> tuple[Connection, list[Message]]:
        """Return another connection that is ready for the kept audio, and the events of a restart if there was one.

        `error`: how the last connection ended. `ended`: whether the service ended its session too. If there is no other
        connection, this error is raised, or a later one.
        """
        if ended:
            self._token = ""
        allowed = self._resume if self._token else self._restart
        if not allowed or not (ended or error.code == "lost"):
            raise error
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + REOPEN_S, FIRST_PAUSE_S
        while not self.unwanted:
            try:
                return await self._attempt(until)
            except SessionError as refusal:
                if refusal.code in FORGOTTEN and self._token:
                    if not self._restart:
                        raise _forgotten(error) from refusal
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
            ready = await connection.open({"resume": resume} if self._token else self._again())
            if self.unwanted:
                raise SessionError("closed", "The session has been closed.")
            # No `await` from here on: other tasks that send or read must see either none of this change or all of it.
            return connection, self._resumed(ready) if self._token else self._restarted(ready)
        except BaseException:
            await connection.close()
            raise
        finally:
            timer.cancel()

    def _again(self) -> Mapping[str, Any]:
        """The options for another session, which goes on after the words that are final."""
        contexts = self._progress.contexts
        return {**self._options, "context": contexts} if contexts else self._options

    def _resumed(self, ready: Mapping[str, Any]) -> list[Message]:
        if not self._kept.resume(ready.get("from_sample", -1), ready.get("flushes", 0)):
            raise _lost_audio()
        return []

    def _restarted(self, ready: Mapping[str, Any]) -> list[Message]:
        from_ms = self._kept.restart(self._progress.cuts_ms)
        if from_ms is None:
            raise _lost_audio()
        self._token = ready.get("token", "")
        return self._progress.restart(from_ms)


def _forgotten(error: SessionError) -> SessionError:
    why = "it was restarted, or too much time has passed"
    return SessionError(error.code, f"{error} The service does not know the session any more: {why}.")


def _lost_audio() -> SessionError:
    return SessionError("lost_audio", "The service asks for audio that is not kept any more.")
