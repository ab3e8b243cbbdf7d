"""What an operator sees and ends: the sessions of all processes of the service, and what keys have used.

Each process knows its own sessions. The one that is asked asks the others: the workers of its bridge over their
sockets, and the processes of other bridges through the store. What does not answer is named, and what is known is
answered nevertheless. No word and no audio of a session is in an answer, and no address of a caller.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from datetime import date, datetime, timezone
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.request import HttpError, Request, Response, as_json
from streamer.bridge.http.routes import Route, denial
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.usage import UsageError, of_day_and_month, read_usage, sum_of
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours, Reply
from streamer.wire.errors import quote

log = Log("streamer.bridge")

SESSIONS: Final = "/v1/admin/sessions"
USAGE: Final = "/v1/admin/usage"
KIND: Final = "admin"  # of questions to other workers
_NUMBER: Final = re.compile(r"[0-9a-f]{16}")  # of a session


class Wish(Enum):
    """What an operator asks for."""

    SESSIONS = "sessions"
    END = "end"
    USAGE = "usage"


class NotPossible(Exception):
    """What an operator asked for cannot be had. The message is a sentence."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Administration:
    """Answers an operator, over HTTP or through the socket of the service."""

    def __init__(
        self, access: AccessRules, sessions: Sessions, neighbours: Neighbours | None, usage_path: Path | None
    ) -> None:
        """`usage_path`: the file in which the service keeps what keys use, if there is one."""
        self._usage_path = usage_path
        self._access, self._others = access, access.others
        self._sessions, self._neighbours = sessions, neighbours
        self._others.on_question(self._answer_here)

    # The operator's side

    async def administer(self, question: JsonObject) -> JsonObject:
        """Answer {"admin": …} with {"done": …} or {"failed": sentence}. ValueError or KeyError if it is no question."""
        wish = Wish(question["admin"])
        try:
            if wish is Wish.SESSIONS:
                return {"done": await self.sessions()}
            if wish is Wish.END:
                return {"done": await self.end(str(question["id"]))}
            return {"done": await self.usage(date.fromisoformat(str(question["day"])))}
        except NotPossible as why:
            return {"failed": str(why)}

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        yield SESSIONS, Route({"GET": self._list})
        yield f"{SESSIONS}/{{id}}", Route({"DELETE": self._end})
        yield USAGE, Route({"GET": self._show_usage})

    async def sessions(self) -> JsonObject:
        """Return all sessions, the oldest first, and in `problems` why some may be missing."""
        question: JsonObject = {"wish": Wish.SESSIONS.value}
        (answers, problems), beyond = await asyncio.gather(self._ask_workers(question), self._others.ask(question))
        answers, problems = [*answers, *beyond.answers], [*problems, *beyond.problems]
        rows: list[JsonObject] = []
        for answer in answers:
            sessions = answer["sessions"]
            assert isinstance(sessions, list)
            rows += sessions
        return {"sessions": sorted(rows, key=lambda row: -float(str(row["age_s"]))), "problems": problems}

    async def end(self, number: str, by: str = "") -> JsonObject:
        """End the session with this number. NotPossible if there is none. `by`: the name of an admin key, for the log.

        The session is told at once, and ends when its client has its finals.
        """
        problems: list[str] = []
        if _NUMBER.fullmatch(number):
            log.info("an operator ends a session", id=number, by=by)
            question: JsonObject = {"wish": Wish.END.value, "id": number}
            answers, problems = await self._ask_workers(question)
            if not any(answer["ended"] for answer in answers):
                answers, more = await self._others.ask(question)
                problems += more
            if any(answer["ended"] for answer in answers):
                return {"id": number}
        if problems:
            why = f"None of the processes that answer has a session {number}. {' '.join(problems)} Try again later."
            raise NotPossible(ErrorCode.NOT_READY, why)
        raise NotPossible(ErrorCode.NOT_FOUND, f"There is no session {number[:40]!r}; it may have ended.")

    async def usage(self, day: date) -> JsonObject:
        """Return what each key used on a day and in its month, at all bridges. NotPossible if nobody knows it.

        `problems` says what may be missing.
        """
        days = await self._others.usage_of_month(f"{day:%Y-%m}")
        if days is not None:
            return {**of_day_and_month(f"{day}", days.get(f"{day}", {}), sum_of(days.values())), "problems": []}
        has_store = self._others.bridges is not None
        if self._usage_path is None:
            if has_store:
                raise NotPossible(ErrorCode.NOT_READY, "The store, which has what keys use, is away; try again later.")
            why = "This service does not keep what keys use: start it with --usage-file, or with --store."
            raise NotPossible(ErrorCode.NOT_FOUND, why)
        try:
            record = await asyncio.to_thread(read_usage, self._usage_path)
        except UsageError as error:
            raise NotPossible(ErrorCode.NOT_READY, str(error)) from error
        of_day, of_month = record.days.get(f"{day}", {}), record.months.get(f"{day:%Y-%m}", {})
        problems = ["The store is away, so this is what this bridge has in its file."] if has_store else []
        return {**of_day_and_month(f"{day}", of_day, of_month), "problems": problems}

    # The side of other processes

    async def answer(self, question: JsonObject, _: socket.socket | None) -> Reply:
        """Answer another worker of this bridge."""
        return Reply(self._answer_here(question))

    def _answer_here(self, question: JsonObject) -> JsonObject:
        """Answer with what this process has."""
        if question["wish"] == Wish.END.value:
            return {"ended": self._sessions.expel(str(question["id"]))}
        worker = 0 if self._neighbours is None else self._neighbours.number
        where = {"worker": worker, "bridge": self._others.bridge}
        return {"sessions": [{**facts, **where} for facts in self._sessions.facts()]}

    async def _ask_workers(self, question: JsonObject) -> tuple[list[JsonObject], list[str]]:
        """Ask all processes of this bridge. Return their answers, and a sentence for each that does not answer."""
        answers, problems = [self._answer_here(question)], list[str]()
        neighbours = self._neighbours

        async def ask_worker(number: int) -> None:
            assert neighbours is not None
            try:
                answers.append((await neighbours.ask_briefly(number, KIND, question)).head)
            except NeighbourAway:
                problems.append(f"Worker {number} does not answer.")

        await asyncio.gather(*(ask_worker(number) for number in ([] if neighbours is None else neighbours.others)))
        return answers, sorted(problems)

    # HTTP

    async def _list(self, request: Request) -> Response:
        self._admin(request)
        return as_json(HTTPStatus.OK, await self.sessions())

    async def _end(self, request: Request) -> Response:
        by = self._admin(request)
        try:
            return as_json(HTTPStatus.OK, await self.end(request.path.rpartition("/")[2], by))
        except NotPossible as why:
            raise _http_error(why) from None

    async def _show_usage(self, request: Request) -> Response:
        self._admin(request)
        text = parse_qs(request.query).get("day", [f"{datetime.now(timezone.utc).date()}"])[0]
        try:
            return as_json(HTTPStatus.OK, await self.usage(date.fromisoformat(text)))
        except ValueError:
            why = f"'day' must be a day such as 2026-10-31, not {quote(text)}."
            raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, why) from None
        except NotPossible as why_not:
            raise _http_error(why_not) from None

    def _admin(self, request: Request) -> str:
        """Return the name of the admin key of a request. Raise HttpError if it has none."""
        try:
            return self._access.check_admin(request)
        except Denied as denied:
            raise denial(denied) from None


def _http_error(why: NotPossible) -> HttpError:
    if why.code is ErrorCode.NOT_FOUND:
        return HttpError(HTTPStatus.NOT_FOUND, why.code, str(why))
    return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, why.code, str(why), {"Retry-After": str(RETRY_S)})
