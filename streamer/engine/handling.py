"""Lets streams handle the results of a step, and gives them the second passes and marks that they request for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streamer.engine.slots import SlotLease
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.sentence_marks import Window
from streamer.engine.work.parts import Work
from streamer.engine.work.waiting import Wait, WaitingWork

if TYPE_CHECKING:
    from streamer.engine.punctuation.punctuation_model import PunctuationModel  # needs torch, which not all models need

T = TypeVar("T")
_REREAD = 0.015  # the approximate time in seconds to read one second of a segment again


@dataclass(frozen=True)
class Reread:
    """The request for the second pass of a segment with this many seconds. Its answer is the result of `work`."""

    seconds: float
    work: Work[Any]


Handling = Generator[Sequence[Window] | Reread, Any, T]
"""The work of a stream after a step. It requests at most one second pass, and then at most once marks for windows."""


class Handler(Protocol):
    """A stream that handles a step."""

    number: int
    lease: SlotLease
    options: StreamOptions


class StepHandling:
    """Runs the handlings of streams, and answers their requests."""

    def __init__(
        self,
        waiting: WaitingWork,
        punctuation: PunctuationModel | None,
        start_afresh: Callable[[Sequence[int]], None],
    ) -> None:
        """`start_afresh` is called with the slots of streams whose handling returns True."""
        self._waiting, self._punctuation, self._start_afresh = waiting, punctuation, start_afresh

    def run(self, handlings: Iterable[tuple[Handler, Handling[bool]]]) -> None:
        """Let these streams handle a step. A stream that requests a second pass goes on after it.

        The punctuation model is called once for all other streams.
        """
        self._go_on([(stream, handling, None) for stream, handling in handlings])

    def _go_on(self, answered: Iterable[tuple[Handler, Handling[bool], Any]]) -> None:
        """Go on with these answers to the requests of the streams."""
        with_windows: list[tuple[Handler, Handling[bool], Sequence[Window]]] = []
        ended_slots: list[int] = []
        for stream, handling, answer in answered:
            try:
                request = handling.send(answer)
            except StopIteration as end:
                ended_slots += [stream.lease.slot] if end.value else []
                continue
            if isinstance(request, Reread):
                work, estimate_s = self._second_pass(stream, handling, request), _REREAD * request.seconds
                self._waiting.add(stream.number, Wait.SECOND_PASS, work, stream.options.caller, estimate_s)
            else:
                with_windows.append((stream, handling, request))
        self._start_afresh(ended_slots)
        if with_windows and self._punctuation is not None:
            marks = iter(self._punctuation.read([window for _, _, windows in with_windows for window in windows]))
            self._go_on(
                [(stream, handling, [next(marks) for _ in request]) for stream, handling, request in with_windows]
            )

    def _second_pass(self, stream: Handler, handling: Handling[bool], request: Reread) -> Work[None]:
        try:
            result = yield from request.work
            self._go_on([(stream, handling, result)])
        except Exception as error:
            raise StreamError("failed", f"a segment could not be read again: {error}") from error
