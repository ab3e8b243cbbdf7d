"""Sends segments to the model `reader` of the same Triton, from the process of a recogniser.

The calls of Triton block, so each has a thread. A recogniser has few of them at a time: what waits for a place waits in
the recogniser's queue, where callers get equal shares.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from streamer.base.limits import READER
from streamer.engine.reader.reading import Reading, ReadingOptions
from streamer.engine.reader.segment_reader import PendingReading, ReaderError
from streamer.models.whisper_folder import ENGLISH

PLACES: Final = 2  # one segment is read while the next one travels
# A reader that is not there, or whose process has died, is not asked again for this time. Meanwhile a bridge reloads
# it. The time doubles with each failure, because a Triton may have no reader at all.
ABSENT_S: Final = 2.0
LONGEST_ABSENT_S: Final = 60.0
# A reader that takes longer for a segment hangs, or is too busy. Meanwhile the recogniser reads segments itself.
OVERDUE_S: Final = 3.0


class ReaderCalls:
    """The calls of one recogniser."""

    def __init__(self, languages: Sequence[str] = (ENGLISH,)) -> None:
        """`languages`: the codes of those that the reader has."""
        self.languages = tuple(languages)
        self._threads = ThreadPoolExecutor(PLACES, thread_name_prefix="reader call")
        self._begun_at: dict[Future[Reading], float] = {}  # of the calls under way
        self._absent_until = float("-inf")
        self._pause_s = ABSENT_S  # after the next failure

    @property
    def present(self) -> bool:
        """Whether there was a reader a moment ago, as far as is known."""
        now = time.monotonic()
        overdue = any(now - begun_at > OVERDUE_S for begun_at in list(self._begun_at.values()))
        return now >= self._absent_until and not overdue

    def ready(self) -> bool:
        """Return whether there is a place for another segment."""
        return len(self._begun_at) < PLACES

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        """Send a segment. There must be a place."""
        # A reader of an earlier version has no options, and one of English needs none.
        future = self._threads.submit(_read, samples, pauses, words, options if self._choosy(options) else None)
        self._begun_at[future] = begun_at = time.monotonic()
        future.add_done_callback(self._end)
        return _Call(future, begun_at)

    def _choosy(self, options: ReadingOptions) -> bool:
        return self.languages != (ENGLISH,) or bool(options.prompt) or options.times

    def close(self) -> None:
        """Wait for no call any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _end(self, future: Future[Reading]) -> None:
        del self._begun_at[future]
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._pause_s = ABSENT_S
        elif time.monotonic() >= self._absent_until:  # several calls may fail together
            if self._pause_s == ABSENT_S:
                pb_utils.Logger.log_warn(f"there is no reader now: {error}")
            self._absent_until = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_ABSENT_S)


class _Call:
    """A segment that is being read."""

    def __init__(self, future: Future[Reading], begun_at: float) -> None:
        self._future, self._begun_at, self._ended_at = future, begun_at, begun_at
        future.add_done_callback(self._end)

    def ready(self) -> bool:
        return self._future.done()

    def result(self) -> Reading:
        return self._future.result(timeout=0)

    @property
    def used_s(self) -> float:
        """The time that it took, divided by the calls that share the reader."""
        return (self._ended_at - self._begun_at) / PLACES

    def _end(self, _: Future[Reading]) -> None:
        self._ended_at = time.monotonic()


def _read(
    samples: NDArray[np.int16],
    pauses: Sequence[tuple[int, int]],
    words: Sequence[str],
    options: ReadingOptions | None,
) -> Reading:
    inputs = [pb_utils.Tensor("AUDIO", samples.reshape(1, -1))]
    if pauses:
        inputs.append(pb_utils.Tensor("PAUSES", np.array([pauses], np.int32)))
    if words:
        inputs.append(pb_utils.Tensor("WORDS", np.array([[" ".join(words).encode()]], np.object_)))
    if options is not None:
        inputs.append(pb_utils.Tensor("OPTIONS", np.array([[options.as_json().encode()]], np.object_)))
    try:
        request = pb_utils.InferenceRequest(model_name=READER, requested_output_names=["READING"], inputs=inputs)
        response = request.exec()
    except Exception as error:  # Triton has no such model
        raise ReaderError(str(error)) from error
    if response.has_error():
        raise ReaderError(response.error().message())
    try:
        return Reading.from_json(pb_utils.get_output_tensor_by_name(response, "READING").as_numpy().item())
    except ValueError as error:
        raise ReaderError(str(error)) from error
