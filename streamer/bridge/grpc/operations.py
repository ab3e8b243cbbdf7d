"""Recordings that are recognised while their clients do not wait, as Google's clients of v1 ask for it.

An operation is the other end of a call: it gives the recording and takes the response. Its client asks for it by its
name. It is in memory of this process alone.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import grpc  # type: ignore[import-untyped]

from streamer.base.codes import ErrorCode
from streamer.bridge.access.quotas import Caller
from streamer.bridge.grpc.call import Call
from streamer.bridge.grpc.messages import message_class
from streamer.bridge.upstreams.admission import Refused
from streamer.wire.dialects.grpc_speech import Status
from streamer.wire.errors import bad

KEPT_S: Final = 600.0  # how long a result is kept
MOST: Final = 200  # at a time, those with a result too
MOST_OF_CALLER: Final = 10
_METADATA: Final = "google.cloud.speech.v1.LongRunningRecognizeMetadata"
_RESPONSE: Final = "google.cloud.speech.v1.LongRunningRecognizeResponse"


class Operation:
    """One recording. For its call this is what gRPC is for the others."""

    def __init__(self, caller: Caller) -> None:
        self.name = uuid.uuid4().hex
        self.caller = caller
        self.call: Call | None = None
        self.begun_at = time.time()
        self.changed_at = self.begun_at
        self.done_at: float | None = None  # by a clock that only grows
        self._status: tuple[int, str] = (Status.OK, "")
        self._response = b""

    def peer(self) -> str:
        """Return nothing: the call of the client has ended."""
        return ""

    async def read(self) -> Any:
        """Return that there are no more requests."""
        return grpc.aio.EOF

    async def write(self, data: bytes) -> None:
        """Take the response."""
        self._response = data

    def end(self, status: int, details: str, now: float) -> None:
        """Note the end of the recognition, at this time of the clock."""
        self._status, self.done_at, self.changed_at, self.call = (status, details), now, time.time(), None

    def describe(self) -> bytes:
        """Return the operation as its client gets it."""
        done = self.done_at is not None
        times = {"start_time": _timestamp(self.begun_at), "last_update_time": _timestamp(self.changed_at)}
        metadata = message_class(_METADATA)(progress_percent=100 if done else 0, **times)
        fields: dict[str, object] = {"name": self.name, "metadata": _packed(_METADATA, metadata.SerializeToString())}
        status, details = self._status
        if done:
            failed = status != Status.OK
            result = {"error": {"code": status, "message": details}}
            fields |= {"done": True, **(result if failed else {"response": _packed(_RESPONSE, self._response)})}
        return bytes(message_class("google.longrunning.Operation")(**fields).SerializeToString())


class Operations:
    """All operations of a port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, Operation] = {}

    def begin(self, caller: Caller) -> Operation:
        """Make the operation of a caller. Its oldest result goes if it has many; raise Refused if there are too many.

        A key, or an address without one, has at most MOST_OF_CALLER.
        """
        self._forget()
        own = [each for each in self._kept.values() if _same(each.caller, caller)]
        if len(own) >= MOST_OF_CALLER:
            oldest = next((each for each in own if each.done_at is not None), None)
            if oldest is None:
                raise Refused(ErrorCode.TOO_MANY_SESSIONS, f"At most {MOST_OF_CALLER} operations may run at a time.")
            del self._kept[oldest.name]
        if len(self._kept) >= MOST:
            raise Refused(ErrorCode.BUSY, "Too many operations are kept; try again later, or use Recognize.")
        operation = Operation(caller)
        self._kept[operation.name] = operation
        return operation

    def end(self, operation: Operation, status: int, details: str) -> None:
        """Note the end of the recognition."""
        operation.end(status, details, self._clock())

    def find(self, name: str, caller: Caller) -> Operation:
        """Return the operation of this name. Raise WireError if its caller has none."""
        self._forget()
        operation = self._kept.get(name)
        if operation is None or operation.caller.key != caller.key:
            why = f"There is no such operation: results are kept for {KEPT_S:g} s, by the process that took them."
            raise bad(ErrorCode.NOT_FOUND, why)
        return operation

    def cancel(self, operation: Operation) -> None:
        """End the recognition, if it still runs."""
        if operation.call is not None:
            operation.call.close(Status.CANCELLED, "The operation was cancelled.")

    def delete(self, operation: Operation) -> None:
        """Forget the result. Recognition that still runs goes on, and nobody gets its result."""
        self._kept.pop(operation.name, None)

    def _forget(self) -> None:
        """Forget what is too old."""
        now = self._clock()
        for operation in list(self._kept.values()):
            if operation.done_at is not None and now - operation.done_at >= KEPT_S:
                del self._kept[operation.name]


def _same(one: Caller, other: Caller) -> bool:
    return one.key == other.key and (bool(one.key) or one.address == other.address)


def _packed(kind: str, data: bytes) -> dict[str, object]:
    return {"type_url": f"type.googleapis.com/{kind}", "value": data}


def _timestamp(seconds: float) -> dict[str, int]:
    return {"seconds": int(seconds), "nanos": int(seconds % 1 * 1e9)}
