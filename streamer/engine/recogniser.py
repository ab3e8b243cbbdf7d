"""The recogniser. It takes the audio of many streams, computes them together in slots, and gives their events."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.codes import FailureCode
from streamer.base.limits import LANGUAGE, SETTLE_MS, STEPS_MS
from streamer.base.names import is_english
from streamer.engine.acoustics.acoustics import Acoustics, Detector, model_acoustics
from streamer.engine.acoustics.activity import ActivityReading
from streamer.engine.acoustics.streaming_model import Concurrent, Emissions, Multilingual, StreamingModel, TwoPass
from streamer.engine.endpointing import TurnRule, TurnWatch
from streamer.engine.reader.growing import Growing, GrowingSegment
from streamer.engine.reader.reader_pass import ReaderPass
from streamer.engine.reader.reading import ReadingOptions
from streamer.engine.search.search import NO_WORDS, Hypothesis, LikelyWords, Search
from streamer.engine.segment_audio import TimeScale
from streamer.engine.slots import OpenStreams, SlotLease
from streamer.engine.stream import Handling, StepHandling, Stream
from streamer.engine.stream_events import StreamAnswer, StreamError
from streamer.engine.stream_options import StreamOptions, step_for
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.result_builder import ResultBuilder
from streamer.engine.text.sentence_marks import SentenceMarks
from streamer.engine.threads import Parallel, Threads
from streamer.engine.waiting import NotNow, Shares, Wait, WaitingWork, Work
from streamer.models.whisper_folder import ENGLISH, language_code

if TYPE_CHECKING:
    from streamer.engine.text.punctuation_model import PunctuationModel


__all__ = ["LONGEST_CHUNK_S", "Answer", "Chunk", "Recogniser", "StreamError"]

# A request with more audio than this would delay its batch and take too much memory.
LONGEST_CHUNK_S = 30
PHONES: Final = "phones"  # the head that a reader pass needs
_CHARACTER_S = 0.00004  # the approximate time to prepare one character of a hotword


@dataclass(frozen=True)
class Chunk:
    """Audio of one stream (int16, of any length). `flush` makes everything final; `end` also closes the stream.

    With other acoustics than `ModelAcoustics`, `samples` is the content that their supply takes. Its length also counts
    samples. `rest`: this is the rest of a chunk, whose samples its stream has got already.
    """

    stream: int
    samples: NDArray[np.int16] | Sized
    flush: bool = False
    end: bool = False
    rest: bool = False

    @property
    def awaited(self) -> bool:
        """Whether the answer has the last words of somebody who waits for them."""
        return self.flush or self.end

    @property
    def left(self) -> Chunk:
        """The rest of this chunk after its stream has got the samples."""
        return replace(self, samples=np.zeros(0, dtype=np.int16), rest=True)


Answer = tuple[int, StreamAnswer]
AnswerOrRest = tuple[int, StreamAnswer | Chunk]


class Recogniser:
    """Owns the slots: opens and closes streams, computes batches of them, and drops those that get no audio."""

    def __init__(
        self,
        model: StreamingModel,
        searches: Mapping[str, Search],
        *,
        slots: int,
        calibration: Calibration | None = None,
        punctuation: PunctuationModel | None = None,
        acoustics: Acoustics | None = None,
        detector: Detector | None = None,
        second_searches: Mapping[str, Search] | None = None,
        reader_pass: ReaderPass | None = None,
        reads_alone: bool = False,
        idle_limit_s: float = 20.0,
        threads: int = 1,
        pipelined: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`searches` are the searches from which streams may choose. Each has room for all slots.

        `second_searches` replace them in the second pass, under the same names, and use their hotwords. `reader_pass`
        reads the segments of streams that want a reader, with `reads_alone` those of all streams: they have no other
        words.

        Without `punctuation`, the written form has no marks, and capitals only where rules give them, and the words do
        not help to find the end of a turn. Without `acoustics`, the model computes the audio, with this `detector` of
        speech if there is one. The streams of a batch are divided over this many `threads`.

        `pipelined`: while a batch is searched, the networks may compute another one, but neither has two at a time.
        """
        self.model = model
        self._threads = Threads(threads)
        self._count = _Count()
        self.pipelined = pipelined
        # What computes a batch holds the first one, and then the second one.
        self._networks: AbstractContextManager[object] = threading.Lock() if pipelined else nullcontext()
        self._search: AbstractContextManager[object] = threading.Lock() if pipelined else nullcontext()
        self._meanwhile: Callable[[], AbstractContextManager[object]] = nullcontext
        self._networks_free: Callable[[], object] = lambda: None
        self._computing: set[int] = set()  # the streams of which a step is computed now
        self.searches = searches
        self._second_searches = second_searches or {}
        self.reader_pass, self._reads_alone = reader_pass, reads_alone
        self._acoustics = acoustics or model_acoustics(model, slots, detector)
        # These are asked once, because Python compares an object with a protocol slowly.
        self._parallel = self._acoustics if isinstance(self._acoustics, Parallel) else None
        self._parallel_searches = {name: search for name, search in searches.items() if isinstance(search, Parallel)}
        self._calibration = calibration or Calibration()
        self._punctuation = punctuation
        self._time_scale = TimeScale(model.sample_rate, model.frame_samples)
        self._streams: OpenStreams[Stream] = OpenStreams(slots, idle_limit_s, clock, self._release)
        self.shares = Shares()
        self._waiting = WaitingWork(shares=self.shares)
        self._growing = Growing()
        self._handling = StepHandling(self._waiting, punctuation, self._start_afresh)

    @property
    def threads(self) -> int:
        """How many threads compute a batch."""
        return self._threads.number

    @property
    def steps(self) -> int:
        """How many steps of all streams this thread has computed."""
        return self._count.steps

    @property
    def concurrent(self) -> bool:
        """Whether several batches may be computed at a time, so that `meanwhile` has an effect."""
        return self.pipelined or (isinstance(self.model, Concurrent) and self.model.concurrent)

    def meanwhile(
        self,
        others: Callable[[], AbstractContextManager[object]],
        networks_free: Callable[[], object] = lambda: None,
    ) -> None:
        """Compute within contexts that this returns. Others may use the recogniser then, but not the same streams.

        Only if it is `concurrent`. Nobody may use it while a context begins or ends. `networks_free` is called within
        such a context when the networks have computed a step of a batch, which the search reads now.
        """
        self._meanwhile, self._networks_free = others, networks_free

    @property
    def live(self) -> int:
        """How many streams are open."""
        return self._streams.live

    @property
    def expired(self) -> int:
        """How many streams were dropped because they got no audio."""
        return self._streams.expired

    def open(self, stream: int, options: StreamOptions | None = None, *, at_once: bool = True) -> None:
        """Open a stream under this number. If one is open already, it is closed first.

        A usual step becomes that of the model. Without `at_once`, `work` prepares options for which that takes long.
        """
        self.close(stream)
        self.expire()
        options = options or StreamOptions()
        options = replace(options, step_ms=step_for(options.step_ms, self.model.step_ms))
        if self._acoustics.two_pass is None:
            options = replace(options, second_pass=False)
        if options.search not in self.searches:
            names = ", ".join(self.searches)
            raise StreamError(FailureCode.BAD_OPTIONS, f"there is no search {options.search!r}; known are {names}")
        alone = self._alone(options)
        if alone is None:
            self._check_language(options.language)
        else:
            options = replace(options, second_pass=True, reader=True, settle_ms=SETTLE_MS, hotwords=())
        # A stream without events of speech needs no pieces.
        detects = self._acoustics.detects and options.speech
        supply = self._acoustics.supply(self._time_scale, self._time_scale.samples(options.step_ms), pieces=detects)

        def make(lease: SlotLease, now: float) -> Stream:
            results, watch = (
                self._results(options, alone=alone is not None),
                self._watch(options, alone=alone is not None),
            )
            return Stream(
                stream,
                lease,
                options,
                results,
                self._time_scale,
                supply,
                now,
                detects=detects,
                watch=watch,
                reader_pass=self.reader_pass if options.second_pass and options.reader else None,
                alone=alone,
                growing=self._growing_segment(options, alone),
            )

        slot = self._streams.open(stream, make).lease.slot
        estimate_s = _CHARACTER_S * sum(len(hotword.text) for hotword in options.hotwords)
        self._waiting.add(stream, Wait.PREPARATION, self._preparation(slot, options), options.caller, estimate_s)
        if at_once or not options.hotwords:
            self.hurry(stream)

    def waits_for(self, stream: int) -> Wait | None:
        """Return what an open stream must wait for before it can be computed; None if it can be computed now."""
        return self._waiting.find(stream)

    def caller(self, stream: int) -> str:
        """Return the caller of a stream; empty if it has none or is not open."""
        entry = self._streams.find(stream)
        return "" if entry is None else entry.options.caller

    @property
    def callers(self) -> int:
        """How many callers have open streams."""
        return len({stream.options.caller for stream in self._streams})

    @property
    def next_second_pass(self) -> str | None:
        """The caller of the second pass that `work` would go on with; None if there is none now."""
        return self._waiting.next_second_pass

    def piece_ms(self, stream: int) -> int | None:
        """Return the length of the pieces in which speech is detected in a stream; None without such pieces."""
        entry = self._streams.find(stream)
        return None if entry is None else entry.piece_ms

    def own_step_ms(self, stream: int) -> int | None:
        """Return the step of a stream if its model has only unusual steps, or reads more than a step; otherwise None.

        Whoever sends audio then sends it in such portions, so that no part of it waits for the next one.
        """
        entry, steps = self._streams.find(stream), self.model.step_ms
        unusual = self.ahead_ms is not None or not set(steps) & set(STEPS_MS)
        return entry.options.step_ms if entry is not None and unusual and min(steps) <= 2 * max(STEPS_MS) else None

    @property
    def ahead_ms(self) -> int | None:
        """How much audio after each step the model reads with it; None if steps do not overlap."""
        return -(-self.model.ahead_samples * 1000 // self.model.sample_rate) or None

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages from which a stream may choose; none if there is no choice."""
        if isinstance(self.model, Multilingual):
            return self.model.languages
        languages = () if self.reader_pass is None else self.reader_pass.reader.languages
        return (LANGUAGE, *languages) if len(languages) > 1 else ()

    @property
    def unprepared(self) -> int:
        """How many streams are being prepared."""
        return self._waiting.count(Wait.PREPARATION)

    @property
    def pause_s(self) -> float | None:
        """The time after which `work` may have something to do; None if no stream waits."""
        return self._waiting.pause_s

    def work(self, second_passes_s: float | None = 0.0) -> list[tuple[int, StreamError | None]]:
        """Work for a slice of time, and at second passes for this long. Return the streams that are ready or failed.

        None: no second pass goes on.
        """
        results: list[tuple[int, StreamError | None]] = []
        for stream, error in self._waiting.advance(second_passes_s):
            if error is None:
                self._streams.use(stream)
            else:
                self.close(stream)
            results.append((stream, None if error is None else _stream_error(error)))
        return results

    def hurry(self, stream: int) -> None:
        """Do the work that this stream waits for now, if any. If it fails, close the stream and raise StreamError."""
        try:
            self._waiting.finish(stream)
        except Exception as error:
            self.close(stream)
            raise _stream_error(error) from error

    def close(self, stream: int) -> None:
        """Close a stream and free its slot. Do nothing if no stream with this number is open."""
        self._streams.close(stream)

    def keep(self, stream: int) -> None:
        """Note that a stream, if it is open, has a request that waits for its turn. So it does not expire."""
        self._streams.keep(stream)

    def expire(self) -> list[int]:
        """Close the streams that got no request for longer than the idle limit. Return their numbers."""
        for stream in self._computing:
            self.keep(stream)  # it may take long, if this process is suspended
        return self._streams.expire(self._waiting)

    def step(self, chunks: Sequence[Chunk]) -> Iterator[Answer]:
        """Compute a batch. Yield the index of each chunk with its events or its error, as soon as they are complete."""
        left = list(enumerate(chunks))
        while left:
            places, left = [place for place, _ in left], []
            for index, answer in self.step_without_waiting(chunks):
                if isinstance(answer, Chunk):
                    left.append((places[index], answer))  # the next call does the work that its stream waits for
                else:
                    yield places[index], answer
            chunks = [chunk for _, chunk in left]

    def step_without_waiting(
        self, chunks: Sequence[Chunk], late: Callable[[], bool] = lambda: False
    ) -> Iterator[AnswerOrRest]:
        """Compute a batch like `step`, but leave second passes to `work`.

        For a stream that has to wait for one, yield the rest of its chunk instead of an answer. The rest must be given
        to this method when the stream waits no longer. The same goes for streams that have further steps when `late`
        returns True, after at least one step of each.
        """
        stepped = False
        running: dict[int, Stream] = {}
        for index, chunk in enumerate(chunks):
            try:
                running[index] = self._take(chunk, running)
            except StreamError as error:
                yield index, error
        while running:
            for index in [index for index in running if self.waits_for(chunks[index].stream)]:
                del running[index]
                yield index, chunks[index].left
            failed = self._hear(running)
            glances = self._glances(running) if not failed else {}
            failed += self._glance(glances)
            for index, failure in failed:
                del running[index]
                self.close(chunks[index].stream)
                yield index, failure
            if failed or glances:
                continue  # pieces that end before the next steps come first
            due: dict[int, list[tuple[int, Stream, Any]]] = {}
            finished: dict[int, Stream] = {}
            for index, stream in running.items():
                # A stream that was closed between two answers of this batch is finished: its slot may have a new owner.
                step = stream.next_step() if self._streams.holds(stream) else None
                if step is None:
                    finished[index] = stream
                else:
                    due.setdefault(stream.step_samples, []).append((index, stream, step))
            if finished:
                running = {index: stream for index, stream in running.items() if index not in finished}
                yield from self._answers(chunks, finished)
                continue  # the caller may have closed other streams meanwhile
            if stepped and late():
                for index in running:
                    yield index, chunks[index].left
                return
            stepped = True
            for group in due.values():
                group.sort(key=lambda entry: entry[1].lease.slot)  # neighbouring slots are read without a copy
                try:
                    failures = self._compute([stream for _, stream, _ in group], [step for _, _, step in group])
                except Exception as error:
                    # The state of the buffers is not known now, so none of these streams can go on.
                    failures = {stream.number: error for _, stream, _ in group}
                for index, stream, _ in group:
                    if stream.number in failures:
                        del running[index]
                        self.close(stream.number)
                        why = f"the model could not compute this step: {failures[stream.number]}"
                        yield index, StreamError(FailureCode.FAILED, why)

    def _hear(self, running: Mapping[int, Stream]) -> list[tuple[int, StreamError]]:
        """Detect speech in the pieces of these streams that end before their next steps. Return the failures."""
        due: dict[int, list[tuple[int, Stream, list[Any]]]] = {}
        for index, stream in running.items():
            pieces = stream.next_pieces() if self._streams.holds(stream) else []
            if pieces:
                due.setdefault(len(pieces[0]), []).append((index, stream, pieces))
        failed: list[tuple[int, StreamError]] = []
        for group in due.values():
            slots = [stream.lease.slot for _, stream, _ in group]
            try:
                with self._others_meanwhile([stream for _, stream, _ in group]), self._networks:
                    by_slot = self._detect(slots, [pieces for _, _, pieces in group])
                for (_, stream, _), probabilities in zip(group, by_slot, strict=True):
                    stream.hear(probabilities)
            except Exception as error:
                failure = StreamError(FailureCode.FAILED, f"the model could not detect speech: {error}")
                failed += [(index, failure) for index, _, _ in group]
        return failed

    def _glances(self, running: Mapping[int, Stream]) -> dict[int, tuple[Stream, Any]]:
        """Return the beginnings of steps in which the turn of a stream would end."""
        beginnings = {
            index: (stream, stream.next_glance()) for index, stream in running.items() if self._streams.holds(stream)
        }
        return {index: (stream, part) for index, (stream, part) in beginnings.items() if part is not None}

    def _glance(self, glances: Mapping[int, tuple[Stream, Any]]) -> list[tuple[int, StreamError]]:
        """Look at these beginnings of steps, and end the turns that end there. Return the failures."""
        try:
            # Each is computed alone, so that the bits of its result do not depend on the other streams.
            results = [(stream, self._acoustics.glance(stream.lease.slot, part)) for stream, part in glances.values()]
            failures = self._failures(
                (stream, stream.read_glance(probabilities, self._search_of(stream)))
                for stream, probabilities in results
            )
        except Exception as error:
            failures = {stream.number: error for stream, _ in glances.values()}
        why = "the model could not detect the end of a turn"
        return [
            (index, StreamError(FailureCode.FAILED, f"{why}: {failures[stream.number]}"))
            for index, (stream, _) in glances.items()
            if stream.number in failures
        ]

    def _take(self, chunk: Chunk, running: dict[int, Stream]) -> Stream:
        stream = self._streams.use(chunk.stream)
        if any(other is stream for other in running.values()):
            raise StreamError(FailureCode.BUSY_STREAM, "a batch can contain only one chunk of each stream")
        if len(chunk.samples) > LONGEST_CHUNK_S * self.model.sample_rate:
            raise StreamError(FailureCode.TOO_LONG, f"a request must have at most {LONGEST_CHUNK_S} s of audio")
        self.hurry(chunk.stream)
        if not chunk.rest:
            stream.supply.append(chunk.samples)
            stream.flushing = chunk.flush or chunk.end
        return stream

    def _alone(self, options: StreamOptions) -> ReadingOptions | None:
        """Return how the reader reads for a stream that has only its words; None for other streams."""
        languages = () if self.reader_pass is None else self.reader_pass.reader.languages
        if options.translate and len(languages) < 2:
            raise StreamError(FailureCode.BAD_OPTIONS, "nothing here translates: that needs a reader of many languages")
        english = options.language == LANGUAGE or is_english(options.language)
        if english and not options.translate and not self._reads_alone:
            return None
        if not self._reads_alone and len(languages) < 2:
            return None
        if options.language != LANGUAGE and language_code(options.language, languages) is None:
            names = ", ".join(languages)
            raise StreamError(
                FailureCode.BAD_OPTIONS, f"the reader has no language {options.language!r}; it has {names}"
            )
        hotwords = ", ".join(dict.fromkeys(hotword.written or hotword.text for hotword in options.hotwords))
        prompt = " ".join(filter(None, (hotwords, options.prompt)))
        return ReadingOptions(options.language, options.translate, prompt, times=True)

    def _growing_segment(self, options: StreamOptions, alone: ReadingOptions | None) -> GrowingSegment | None:
        """Return the readings of a running segment, for a stream whose partials have the words of a reader."""
        beside = options.growing and options.second_pass and options.reader and not options.dictation
        wanted = options.partials if alone else beside
        if self.reader_pass is None or not wanted:
            return None
        return GrowingSegment(self.reader_pass, alone or ReadingOptions(ENGLISH, prompt=options.prompt))

    def _check_language(self, language: str) -> None:
        if language == LANGUAGE:
            return
        model = self.model
        if not isinstance(model, Multilingual) or not model.languages:
            # A model without a choice counts as English, so whoever says what it speaks anyway is right.
            if is_english(language):
                return
            raise StreamError(
                FailureCode.BAD_OPTIONS, f"this model has no choice of languages: leave out 'language' ({language})"
            )
        if not model.has_language(language):
            names = ", ".join(self.languages)
            raise StreamError(FailureCode.BAD_OPTIONS, f"this model has no language {language!r}; it has {names}")

    def _release(self, number: int, stream: Stream) -> None:
        self._waiting.drop(number)
        self.searches[stream.options.search].release(stream.lease.slot)

    def _results(self, options: StreamOptions, *, alone: bool) -> ResultBuilder:
        if alone:  # the reader writes marks and capitals of any language
            return ResultBuilder(options, Calibration(), options.begins, None, untouched=True)
        marks = None
        if options.written and self._punctuation is not None and not self.model.writes:
            marks = SentenceMarks(self._punctuation.behind, self._punctuation.ahead, options.context)
        return ResultBuilder(options, self._calibration, options.begins, marks, untouched=self.model.writes)

    def _watch(self, options: StreamOptions, *, alone: bool) -> TurnWatch | None:
        rule = options.endpoint
        if not rule.turn:
            return None
        # The punctuation model does not know the marks and capitals in the words of a model that writes.
        judge = None if self._punctuation is None or self.model.writes or alone else self._punctuation.over
        return TurnWatch(TurnRule(rule.eagerness, rule.longest_pause_ms), judge)

    def _preparation(self, slot: int, options: StreamOptions) -> Work[None]:
        settle = math.ceil(options.settle_ms / self._time_scale.frame_ms)
        for name, search in self.searches.items():
            chosen = name == options.search
            hotwords = options.hotwords if chosen else ()
            yield from search.prepare(slot, hotwords, settle if chosen else 0, options.caller)
        self._acoustics.begin([slot], options.language)
        self._start_afresh([slot])

    def _compute(self, streams: Sequence[Stream], steps: Sequence[Any]) -> dict[int, Exception]:
        """Compute the next step of these streams. Return the failures of single streams, by their numbers."""
        self._count.steps += len(steps)
        began = time.perf_counter()
        slots = [stream.lease.slot for stream in streams]
        speaking = [stream.speaking for stream in streams]
        with self._others_meanwhile(streams):
            with self._networks:
                emissions, activity = self._emissions(slots, steps, speaking)
            self._networks_free()
            with self._search:
                searched = list(self._searched(streams, emissions))
        for stream, phones in zip(streams, emissions.get(PHONES, ()), strict=False):
            if stream.reader_pass is not None:
                stream.keep(phones)
        failures = self._failures(
            (stream, stream.read(hypothesis, activity.get(stream.lease.slot), self._search_of(stream)))
            for stream, hypothesis in searched
        )
        share_s = (time.perf_counter() - began) / len(streams)
        well = [stream for stream in streams if stream.number not in failures]
        self._growing.go_on(well, self._streams, waiting=self._waiting.count(Wait.SECOND_PASS) > 0)
        for stream in streams:
            self.shares.charge(stream.options.caller, share_s)
        return failures

    @contextmanager
    def _others_meanwhile(self, streams: Sequence[Stream]) -> Iterator[None]:
        """Let others use the recogniser while these streams are computed."""
        numbers = {stream.number for stream in streams}
        self._computing |= numbers
        try:
            with self._meanwhile():
                yield
        finally:
            self._computing -= numbers

    def _failures(self, handlings: Iterable[tuple[Stream, Handling[bool]]]) -> dict[int, Exception]:
        """Let these streams handle a step. Return the exceptions of those that failed, by their numbers."""
        return {stream.number: error for stream, error in self._handling.run(handlings)}

    def _searched(self, streams: Sequence[Stream], emissions: Emissions) -> Iterator[tuple[Stream, Hypothesis]]:
        """Yield the hypothesis of each of these streams, from the search of the stream."""
        for name, search in self.searches.items():
            rows = [row for row, stream in enumerate(streams) if stream.options.search == name]
            if not rows:
                continue
            mixed = len(rows) < len(streams)
            own = {head: values[rows] for head, values in emissions.items()} if mixed else emissions
            hypotheses = self._advance(name, search, [streams[row].lease.slot for row in rows], own)
            yield from zip((streams[row] for row in rows), hypotheses, strict=True)

    def _detect(self, slots: Sequence[int], pieces: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Detect speech in the next pieces of these slots, in parts if that is possible."""
        if self._parallel is None:
            return self._acoustics.detect(slots, pieces)
        parts = self._threads.divide(len(slots), lambda part: self._acoustics.detect(slots[part], pieces[part]))
        return [probabilities for part in parts for probabilities in part]

    def _emissions(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """Compute these steps, in parts if that is possible."""
        if self._parallel is None:
            return self._acoustics.compute(slots, steps, speaking)
        self._parallel.reserve(slots, 0)
        parts = self._threads.divide(
            len(slots), lambda part: self._acoustics.compute(slots[part], steps[part], speaking[part])
        )
        if len(parts) == 1:
            return parts[0]
        emissions = {head: np.concatenate([own[head] for own, _ in parts]) for head in parts[0][0]}
        return emissions, {slot: reading for _, activity in parts for slot, reading in activity.items()}

    def _advance(self, name: str, search: Search, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Let this search read these emissions, in parts if that is possible."""
        parallel = self._parallel_searches.get(name)
        if parallel is None:
            return search.advance(slots, emissions)
        parallel.reserve(slots, len(next(iter(emissions.values()))[0]))
        parts = self._threads.divide(
            len(slots),
            lambda part: search.advance(slots[part], {head: values[part] for head, values in emissions.items()}),
        )
        return [hypothesis for part in parts for hypothesis in part]

    def _search_of(self, stream: Stream) -> SlotSearch:
        name, slot = stream.options.search, stream.lease.slot
        first = self.searches[name]
        return SlotSearch(first, slot, self._second_searches.get(name, first), self._acoustics.two_pass)

    def _answers(self, chunks: Sequence[Chunk], finished: Mapping[int, Stream]) -> Iterator[AnswerOrRest]:
        """Yield the answers for streams that have no whole step left. Streams with a flush are concluded together."""
        valid = {index: stream for index, stream in finished.items() if self._streams.holds(stream)}
        failures = self._failures(
            (stream, stream.conclude(self._search_of(stream)))
            for stream in valid.values()
            if stream.flushing and stream.supply.again is None
        )
        for number in failures:
            self.close(number)
        waiting = {index for index in valid if self.waits_for(chunks[index].stream)}
        for index in valid.keys() - waiting:
            if chunks[index].end:
                self.close(chunks[index].stream)
        for index, stream in finished.items():
            if stream.number in failures:
                why = f"the end of the audio could not be computed: {failures[stream.number]}"
                yield index, StreamError(FailureCode.FAILED, why)
            elif index in waiting:
                yield index, chunks[index].left
            elif index in valid:
                yield index, stream.take_events(ended=chunks[index].end)
            else:
                yield (
                    index,
                    StreamError(FailureCode.UNKNOWN_STREAM, "the stream was closed while its audio was computed"),
                )

    def _start_afresh(self, slots: Sequence[int]) -> None:
        if slots:
            self._acoustics.reset(slots)
            for search in (*self.searches.values(), *self._second_searches.values()):
                search.reset(slots)


class _Count(threading.local):
    """How many steps each thread has computed."""

    steps = 0


def _stream_error(error: Exception) -> StreamError:
    """Return the error of a stream for an exception in the work that it waits for."""
    if isinstance(error, StreamError):
        return error
    if isinstance(error, NotNow):
        return StreamError(FailureCode.FULL, str(error))
    if isinstance(error, ValueError):
        return StreamError(FailureCode.BAD_OPTIONS, str(error))
    return StreamError(FailureCode.FAILED, f"the stream could not be prepared: {error}")


# The searches of one stream for its first and second pass, as the stream uses them at the end of a segment.

_STEP_FRAMES = 8  # a whole segment is searched in steps of this many frames, after which words are rescored


@dataclass(frozen=True)
class SlotSearch:
    """The search of one slot. `second` is the search that reads whole segments."""

    search: Search
    slot: int
    second: Search
    two_pass: TwoPass | None  # computes whole segments; without it there is no second pass

    def again(self, segment: NDArray[np.int16]) -> Work[tuple[Hypothesis, SlotSearch]]:
        """Search a whole segment again. Return the hypothesis of the last step, and the search for its alternatives."""
        assert self.two_pass is not None
        # A segment is computed alone, so its bits depend on no other stream.
        emissions, hypothesis = (yield from self.two_pass.whole(segment)), NO_WORDS
        yield
        self.second.reset([self.slot])
        frames = len(next(iter(emissions.values()))[0])
        for first in range(0, frames, _STEP_FRAMES):
            step = {head: values[:, first : first + _STEP_FRAMES] for head, values in emissions.items()}
            [hypothesis] = self.second.advance([self.slot], step)
            yield
        return hypothesis, replace(self, search=self.second)

    def finish(self) -> Hypothesis:
        """Return the hypothesis if the segment ended here."""
        return self.search.finish([self.slot])[0]

    def alternatives(self, number: int) -> list[LikelyWords]:
        """Return the likeliest hypotheses if the segment ended here."""
        return self.search.alternatives(self.slot, number)
