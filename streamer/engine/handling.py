"""What streams do after a step, and what they ask for meanwhile: second passes and marks."""

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
    from streamer.engine.punctuation.punctuation_model import PunctuationModel  # needs torch, which a model need not

T = TypeVar("T")
_REREAD = 0.015  # about how much of a second it takes to read a second of a segment again


@dataclass(frozen=True)
class Reread:
    """Asks for the second pass of a segment of so many seconds. The answer is the result of this work."""

    seconds: float
    work: Work[Any]


Handling = Generator[Sequence[Window] | Reread, Any, T]
"""What a stream does after a step. It asks at most once for a second pass, and then at most once for marks."""


class Handler(Protocol):
    """The stream that handles a step."""

    number: int
    lease: SlotLease
    options: StreamOptions


class StepHandling:
    """Gives streams what they ask for."""

    def __init__(
        self,
        waiting: WaitingWork,
        punctuation: PunctuationModel | None,
        start_afresh: Callable[[Sequence[int]], None],
    ) -> None:
        """`start_afresh` is called with the slots of streams whose handling returns True."""
        self._waiting, self._punctuation, self._start_afresh = waiting, punctuation, start_afresh

    def run(self, handlings: Iterable[tuple[Handler, Handling[bool]]]) -> None:
        """Let these streams handle a step. Those that ask for a second pass wait for it, and go on then.

        The punctuation model is called once for all the others.
        """
        self._go_on([(stream, handling, None) for stream, handling in handlings])

    def _go_on(self, answered: Iterable[tuple[Handler, Handling[bool], Any]]) -> None:
        """Go on with these answers to what was asked for."""
        asking: list[tuple[Handler, Handling[bool], Sequence[Window]]] = []
        ended: list[int] = []
        for stream, handling, answer in answered:
            try:
                asked = handling.send(answer)
            except StopIteration as end:
                ended += [stream.lease.slot] if end.value else []
                continue
            if isinstance(asked, Reread):
                work, estimate_s = self._second_pass(stream, handling, asked), _REREAD * asked.seconds
                self._waiting.add(stream.number, Wait.SECOND_PASS, work, stream.options.caller, estimate_s)
            else:
                asking.append((stream, handling, asked))
        self._start_afresh(ended)
        if asking and self._punctuation is not None:
            marks = iter(self._punctuation.read([window for _, _, windows in asking for window in windows]))
            self._go_on([(stream, handling, [next(marks) for _ in asked]) for stream, handling, asked in asking])

    def _second_pass(self, stream: Handler, handling: Handling[bool], asked: Reread) -> Work[None]:
        try:
            found = yield from asked.work
            self._go_on([(stream, handling, found)])
        except Exception as error:
            raise StreamError("failed", f"a segment could not be read again: {error}") from error
