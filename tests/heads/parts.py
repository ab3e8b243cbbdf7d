"""The recogniser in parts, connected in this process as an ensemble connects them in Triton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.base.events import Again, Flushed, StreamEvent
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.heads.activity_head import Energies
from streamer.heads.loading import load_activity_head, load_speech_encoder, load_transcript_head
from streamer.heads.passage import Passage, activity_of
from streamer.heads.speech_encoder import Sound
from streamer.heads.transcript_head import EncodedChunk
from tests.project import ROOT

BUNDLE = ROOT / "asr_repo" / "streaming_asr" / "1"
Answers = list[list[StreamEvent] | StreamError]


class Parts:
    """An encoder, an activity head and a transcript head."""

    def __init__(self, slots: int = 4) -> None:
        self.encoder = load_speech_encoder(BUNDLE, slots=slots)
        self.activity = load_activity_head(BUNDLE, slots=slots)
        self.transcript = load_transcript_head(BUNDLE, slots=slots)

    def step(self, sounds: Sequence[Sound]) -> Answers:
        """Compute one request of each of these streams."""
        encoded = self.encoder.encode(sounds)
        followed = self.activity.follow(
            [
                Energies(sound.stream, part.passage, part.energies, start=sound.start, end=sound.end)
                for sound, part in zip(sounds, encoded, strict=True)
            ]
        )
        answers: Answers = [[] for _ in sounds]
        chunks: dict[int, Chunk] = {}
        for index, (sound, part, found) in enumerate(zip(sounds, encoded, followed, strict=True)):
            passage = Passage.from_json(part.passage.to_json())
            activity = activity_of(found.to_json())
            try:
                Passage(failure=activity.failure).check()
                if sound.start:
                    given = {name: value for name, value in sound.options.items() if name != "flush"}
                    options = StreamOptions.from_dict(given, self.encoder.model.step_ms, ["lexicon", "greedy"])
                    self.transcript.open(sound.stream, options)
            except StreamError as error:
                answers[index] = error
                continue
            heard = EncodedChunk(passage, part.frames, activity.readings, len(sound.samples), activity.pieces)
            flush = bool(sound.options.get("flush"))
            chunks[index] = Chunk(sound.stream, heard, flush=flush, end=sound.end)
        places = list(chunks)
        for place, answer in self.transcript.step(list(chunks.values())):
            answers[places[place]] = answer
        return answers

    def ask(
        self,
        stream: int,
        samples: NDArray[np.int16] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        start: bool = False,
        end: bool = False,
    ) -> list[StreamEvent]:
        """Send one request, and the requests that its events make necessary. Return the events."""
        given, told = dict(options or {}), list[StreamEvent]()
        sound = np.zeros(0, np.int16) if samples is None else samples
        while True:
            [answer] = self.step([Sound(stream, sound, given, start, end)])
            if isinstance(answer, StreamError):
                raise answer
            told += answer
            last = told[-1]
            if not isinstance(last, Again) or end:
                return told
            del told[-2:]  # how much was heard comes again
            flush = given.get("flush") and not any(isinstance(event, Flushed) for event in answer)
            given = {"again": {"sample": last.sample, "run": last.run, "speaking": last.speaking}}
            given |= {"flush": True} if flush else {}
            sound, start = sound[:0], False
