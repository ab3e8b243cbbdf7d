"""Speechmatics' format of voice agents, the websocket `/v2/agent`: turns, whose text comes in segments. Pure.

The service ends turns, or the client does, which then hears nothing of turns and asks for each segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, ServerMessage, Word
from streamer.base.json_types import JsonObject
from streamer.base.speakers import main_speaker
from streamer.base.text import joined
from streamer.wire.dialects.client_values import number, part
from streamer.wire.dialects.dialect import Step
from streamer.wire.dialects.speechmatics import PATH
from streamer.wire.dialects.speechmatics_config import Recognition
from streamer.wire.dialects.speechmatics_format import ENDS, SpeechmaticsFormat, speaker_label, write
from streamer.wire.dialects.turn_by_turn import Cause, SpokenTurn, TurnByTurn, whole_words, within
from streamer.wire.errors import bad

AGENT_PATH: Final = f"{PATH}/agent"
EXTERNAL: Final = "external"
_WIDE: Final = (0.0, 1e6)


class SpeechmaticsAgent(SpeechmaticsFormat, TurnByTurn):
    """One websocket of a voice agent."""

    protocol = "speechmatics_agent"
    path = AGENT_PATH
    other_paths = (f"{AGENT_PATH}/{{profile}}",)
    _external = False  # the client ends turns
    _partials = True
    _by_sentence = False

    def options_of(self, asked: Recognition) -> JsonObject:
        """Return the options of turns. If the client ends them, no silence does."""
        turns = TurnByTurn.options(self)
        return {**turns, "turns": False, "endpoint": {"silence": False}} if self._external else turns

    # What the client sends

    def begin(self, asked: Recognition) -> None:
        """Take the form of the audio, and who ends turns."""
        if asked.labels:
            raise bad(ErrorCode.UNSUPPORTED, "Voice agents have one channel; leave 'diarization' channel out.")
        super().begin(asked)
        config, turns = part(asked.start, "transcription_config"), part(asked.start, "turn_config")
        detection = part(config, "vad_config")  # of older clients
        self._external = turns.get("turn_detection_mode") == EXTERNAL or detection.get("enabled") is False
        self._partials = config.get("enable_partials") is not False
        self._by_sentence = config.get("emit_sentences") is True
        if window_s := number("window", turns.get("window") or detection.get("window") or 0, _WIDE):
            self.longest_pause_ms = within(1000 * window_s)

    def force(self, command: JsonObject) -> Iterator[Step]:
        """End the turn, because the client says so."""
        yield from self.end_turn()

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        yield from super().tell(message)
        if isinstance(message, Done):
            yield from self.last()
        elif isinstance(message, Error) and not message.fatal:
            yield write("Warning", type="speaker_id", reason=message.message)

    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield that a turn has begun, and its first words."""
        if not self._external:
            yield write("SpeechStarted", metadata={"start_time": turn.start_ms / 1000})
            yield write("StartOfTurn", metadata={"start_time": turn.start_ms / 1000})
        yield from self.grown(turn)

    def grown(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the text of the turn so far."""
        if self._partials:
            yield self._segment("AddPartialSegment", turn.whole, turn.start_ms, turn.end_ms, whole_words(turn))

    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield the segments of a turn, and that it is over."""
        for words in self._parts(turn.words):
            text = joined(word.word for word in words)
            yield self._segment("AddSegment", text, words[0].start_ms, words[-1].end_ms, words)
        if not self._external:
            yield write("SpeechEnded", metadata={"end_time": turn.end_ms / 1000})
            yield write("EndOfTurn", metadata={"end_time": turn.end_ms / 1000})

    # Inside

    def _parts(self, words: Iterable[Word]) -> Iterator[list[Word]]:
        """Yield the words of each speaker in a row, and perhaps of each sentence."""
        sentences = 0

        def place(word: Word) -> tuple[int | None, int]:
            nonlocal sentences
            before = sentences
            sentences += self._by_sentence and word.word.endswith(tuple(ENDS))
            return word.speaker if self.recognition.speakers else None, before

        for _, part_of_turn in groupby(words, place):
            yield list(part_of_turn)

    def _segment(self, kind: str, text: str, start_ms: int, end_ms: int, words: Iterable[Word]) -> str:
        segment: JsonObject = {"transcript": text}
        if self.recognition.speakers:
            segment["speaker"] = speaker_label(main_speaker(word.speaker for word in words))
        return write(kind, segment=segment, metadata={"start_time": start_ms / 1000, "end_time": end_ms / 1000})
