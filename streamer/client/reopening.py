"""How a session goes on that has lost its connection or its service.

Over another connection the service resumes it. A service that does not know it, because it was started anew, gets
another session, which begins at the last cut and hears again what is not final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from streamer.client.connection import Connection, SessionError
from streamer.client.kept_audio import KeptAudio
from streamer.client.progress import Message, Progress

# For so long it is tried, with pauses that grow.
REOPEN_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0
# Audio on which the recogniser fails again and again is not played to it for ever.
MOST_RESTARTS: Final = 3

REFUSED_FOR_NOW: Final = ("full", "too_many_sessions")  # which passes, also for a session that is there already
# What else passes: nobody answers yet, or something on the way does, or a service that starts or ends.
PASSING: Final = (*REFUSED_FOR_NOW, "away", "refused", "no_service", "lost", "overdue", "not_ready", "shutting_down")
# With these the service says that it does not know the session.
FORGOTTEN: Final = ("unknown_token", "bad_resume")

Dial = Callable[[], Awaitable[Connection]]


class Reopening:
    """Opens a session again, where it was."""

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
        """`resume`: whether the session may outlive its connection, and `restart`: the service."""
        self.unwanted = False  # nobody waits for it any more
        self._dial = dial
        self._options = options
        self._token = token
        self._kept = kept
        self._progress = progress
        self._resume = resume
        self._restart = restart

    async def connection(self, error: SessionError, *, ended: bool) -> tuple[Connection, list[Message]]:
        """Another connection, ready for what is kept, and the events that tell of another session.

        The error says how the last connection ended, and `ended` whether the service has ended its session with it.
        That is raised, or what has followed from it, if there is no other connection.
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
            ready = await connection.open({"resume": resume} if self._token else self._options)
            if self.unwanted:
                raise SessionError("closed", "The session has been closed.")
            # From here on nobody else may come between: whoever sends or reads finds all of it changed, or nothing.
            return connection, self._resumed(ready) if self._token else self._restarted(ready)
        except BaseException:
            await connection.close()
            raise
        finally:
            timer.cancel()

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
    why = "it was started anew, or too much time has passed"
    return SessionError(error.code, f"{error} The service does not know the session any more: {why}.")


def _lost_audio() -> SessionError:
    return SessionError("lost_audio", "The service asks for audio that is not kept any more.")
