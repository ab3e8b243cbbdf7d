"""Records sessions: the events that a model sends for its sequences, and the messages that the client gets for them.

    python scripts/data/record_sessions.py [--only exact_words …] [--to tests/wire/recorded_sessions]

A file has the steps of one session in order. Each step is one call of the session, or what the session gave then:
`request` for the model, `told` to the client. Only the size of the audio is kept, because no message depends on more.
tests/bridge/session/test_recorded_sessions.py plays the files back, which shows that no message has changed. So record
again only if the protocol or the contract with Triton changes on purpose; a new session may be added at any time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.base.events import as_json
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.session import Session, State
from streamer.bridge.session.stream import Request
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.punctuation_model import PunctuationModel
from streamer.testing.exact_model import exact_recogniser
from streamer.testing.exact_speech import say, silence
from streamer.wire.events import parse

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "tests" / "wire" / "recorded_sessions"
TALK: Final = ROOT / "audio_samples" / "talk.flac"
SLOTS: Final = 4
NEVER_S: Final = 1e9
EXCHANGE_BYTES: Final = 6400  # what the client sends between two requests
Value = dict[str, Any]


class Recording:
    """A session with its model, and the steps so far."""

    def __init__(self, recogniser: Recogniser, options: Mapping[str, Any], limits: Limits | None = None) -> None:
        self.now = 100.0
        self.steps: list[Value] = []
        self.session = Session("7", "secret", ["default", "other"], self.now, limits or Limits())
        self._recogniser = recogniser
        self._sequences: dict[int, int] = {}
        self._count = 0
        self._under_way: dict[int, Request] = {}
        self._last = 0
        self.text({"type": "start", **options})

    def text(self, message: Value) -> None:
        """Let the client send a message."""
        self._note("text", text=message)
        self.session.receive_text(json.dumps(message), self.now)

    def speak(self, *channels: np.ndarray[Any, np.dtype[np.int16]]) -> None:
        """Let the client send audio, and the model answer."""
        data = np.stack(channels, axis=1).tobytes()
        for start in range(0, len(data), EXCHANGE_BYTES):
            self.audio(data[start : start + EXCHANGE_BYTES])
            self.exchange()

    def audio(self, data: bytes) -> None:
        """Let the client send audio, without an answer."""
        self._note("audio", bytes=len(data))
        self.session.receive_audio(data, self.now)

    def exchange(self, *, leaving: bool = False, heads: tuple[Value, ...] = ()) -> None:
        """Let the model answer once for each stream. `heads`: the events of other heads in the answer."""
        self.ask()
        for stream in list(self._under_way):
            self._answer(stream, leaving=leaving, heads=heads)
        self.now = round(self.now + 0.2, 3)
        self._note("tick")
        self.session.tick(self.now)
        self.hear()

    def ask(self) -> None:
        """Take the next requests."""
        for stream, request in self.session.requests(self.now):
            size, again = len(request.pcm), json.loads(json.dumps(request.options))
            flags = {"start": request.start, "flush": request.flush, "end": request.end}
            self._note("request", stream=stream, bytes=size, options=again, **flags)
            self._under_way[stream] = request
            if request.start:
                self._recogniser.close(self._sequences.get(stream, 0))
                self._count += 1
                self._sequences[stream] = self._count

    def fail(self, stream: int = 0, code: str = "unavailable", *, lost: bool = True) -> None:
        """Let the request under way fail."""
        self._under_way.pop(stream)
        if lost:
            self._recogniser.close(self._sequences[stream])
        self._note("fail", stream=stream, code=code, message="it broke", lost=lost)
        self.session.fail(stream, code, "it broke", self.now, lost=lost)

    def leave(self) -> None:
        """Let the client lose its connection."""
        self._note("park")
        self.session.park(self.now)

    def come_back(self, missed: int) -> None:
        """Let the client resume the session, without its last messages."""
        self._note("resume", after=self._last - missed)
        assert self.session.resume(self._last - missed, self.now)
        self.hear()

    def call(self, name: str) -> None:
        """Call another method of the session with the time."""
        self._note(name)
        getattr(self.session, name)(self.now)

    def serve(self) -> None:
        """Say which model recognises the session, as the pool does before the first answer."""
        self._note("serve", model=MODEL)
        self.session.serve(MODEL)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.now = round(self.now + seconds, 3)

    def stop(self) -> None:
        """Let the client stop, and the model answer the rest."""
        self.text({"type": "stop"})
        self.finish()

    def finish(self) -> None:
        """Let the model answer until the session is over."""
        for _ in range(200):
            if self.session.over:
                break
            self.exchange()
        assert self.session.over
        assert self.session.state is State.CLOSED
        close = self.session.close
        assert close is not None
        self._note("close", code=int(close.code), reason=close.reason, ended_by=self.session.ended_by)

    def hear(self) -> None:
        """Let the client read its messages."""
        messages = [json.loads(message.text) for message in self.session.take_messages()]
        if messages:
            self._last = max(message["n"] for message in messages)
            self._note("told", messages=messages)

    def _answer(self, stream: int, *, leaving: bool, heads: tuple[Value, ...]) -> None:
        request, sequence = self._under_way.pop(stream), self._sequences[stream]
        events: list[Value] = []
        if request.start:
            given = {**self.session.start.model_options(), **request.options}
            read, recogniser = json.loads(json.dumps(given)), self._recogniser
            options = StreamOptions.from_dict(read, recogniser.model.step_ms, list(recogniser.searches))
            recogniser.open(sequence, options)
            piece_ms = recogniser.piece_ms(sequence)
            opened = {"type": "opened", "model": recogniser.model.name, "instance": f"{MODEL}_0_0"}
            events.append(opened if piece_ms is None else {**opened, "piece_ms": piece_ms})
        chunk = Chunk(sequence, np.frombuffer(request.pcm, np.int16), flush=request.flush, end=request.end)
        [(_, answer)] = self._recogniser.step([chunk])
        assert not isinstance(answer, StreamError), answer
        *others, last = (json.loads(as_json(event)) for event in answer)
        events += [*others, *heads]
        if request.end:
            events.append({"type": "closed", "model": self._recogniser.model.name, "instance": f"{MODEL}_0_0"})
        events.append(last)
        self._note("answer", stream=stream, events=events, leaving=leaving)
        self.session.answer(stream, [parse(json.dumps(event)) for event in events], self.now, leaving=leaving)

    def _note(self, deed: str, **details: object) -> None:
        self.steps.append({"do": deed, "now": self.now, **details})


def _begin(recogniser: Recogniser, **options: Any) -> Recording:
    recording = Recording(recogniser, options)
    recording.serve()
    recording.exchange()
    return recording


def _exact(punctuation: bool = False) -> Recogniser:
    marks = PunctuationModel.load(asr_repository() / MODEL / "1") if punctuation else None
    return exact_recogniser(SLOTS, NEVER_S, marks)


def _shipped() -> Recogniser:
    torch.set_num_threads(1)
    return load_recogniser(asr_repository() / MODEL / "1", slots=SLOTS, idle_limit_s=NEVER_S)


def _talk(begin_s: float, end_s: float) -> np.ndarray[Any, np.dtype[np.int16]]:
    return read_audio(TALK)[round(begin_s * SAMPLE_RATE) : round(end_s * SAMPLE_RATE)]


def exact_words() -> Recording:
    """Words, a flush within a segment, a flush without audio, and the end."""
    recording = _begin(_exact())
    recording.speak(say("hello world"))
    recording.speak(silence(1500))
    recording.speak(say("once more"))
    recording.text({"type": "flush"})
    recording.exchange()
    recording.text({"type": "flush"})
    recording.exchange()
    recording.speak(say("the end"))
    recording.stop()
    return recording


def exact_partial_words() -> Recording:
    """Short steps, words of partials, alternatives and stable text; the client may not wait long for a segment."""
    options = {"partial_words": True, "alternatives": 3, "step_ms": 160, "stability": "medium"}
    recording = _begin(_exact(), **options, endpoint={"longest_ms": 6000, "after_text_ms": 500})
    recording.speak(say("one two three four five six seven"))
    recording.speak(silence(800))
    recording.stop()
    return recording


def exact_channels() -> Recording:
    """Two channels with a flush and a second pass; one of them loses its sequence."""
    recording = _begin(_exact(), channels=2, multichannel=True, second_pass=True)
    left, right = say("left side"), say("right here")
    size = max(len(left), len(right)) + 16_000
    both = [np.concatenate([audio, silence(2000)])[:size] for audio in (left, right)]
    recording.speak(*both)
    recording.text({"type": "flush"})
    recording.exchange()
    recording.exchange()
    recording.audio(np.stack([say("again")] * 2, axis=1).tobytes())
    recording.ask()
    recording.fail(1)
    recording.later(1.0)
    for _ in range(8):
        recording.exchange()
    recording.stop()
    return recording


def exact_dictation() -> Recording:
    """Dictated marks in the written form; the sequence is lost after a cut, and another one goes on there."""
    recording = _begin(_exact(punctuation=True), written=True, dictation=True, partial_words=True)
    recording.speak(say("dear sir comma i have twenty one cats period"))
    recording.speak(silence(1500))
    recording.speak(say("they say hel"))
    recording.audio(say("lo").tobytes())
    recording.ask()
    recording.fail()
    recording.later(1.0)
    for _ in range(8):
        recording.exchange()
    recording.speak(say("question mark"))
    recording.stop()
    return recording


def exact_heads() -> Recording:
    """Events of another head, and a move to another instance at the next cut."""
    recording = _begin(_exact(), words=False)
    recording.speak(say("a zebra"))
    recording.audio(silence(400).tobytes())
    recording.exchange(heads=({"type": "head", "name": "keywords", "at_ms": 640, "content": {"keyword": "zebra"}},))
    recording.audio(silence(1500).tobytes())
    for _ in range(5):
        recording.exchange(leaving=True)
    recording.speak(say("in the zoo"))
    recording.stop()
    return recording


def exact_resume() -> Recording:
    """The client loses its connection twice: it has missed messages, and then nothing."""
    recording = _begin(_exact())
    recording.speak(say("before the loss"))
    recording.leave()
    recording.text({"type": "flush"})
    recording.exchange()
    recording.later(3.0)
    recording.come_back(2)
    recording.speak(say("and after it"))
    recording.leave()
    recording.come_back(0)
    recording.stop()
    return recording


def exact_failure() -> Recording:
    """The model has to be loaded first; later it fails for good."""
    recording = Recording(_exact(), {"model": "other"})
    recording.call("await_model")
    recording.hear()
    recording.serve()
    recording.later(2.0)
    recording.exchange()
    recording.speak(say("some words"))
    recording.audio(say("more").tobytes())
    recording.ask()
    recording.fail(code="bad_request", lost=False)
    recording.hear()
    recording.finish()
    return recording


def exact_complaint() -> Recording:
    """Samples of 48 kHz; the client sends audio after `stop`, and half a sample at the end."""
    recording = _begin(_exact(), encoding="pcm_f32le", sample_rate=48_000, live=True)
    recording.audio(bytes(4 * 48_000 + 2))
    recording.exchange()
    recording.later(1.0)
    recording.exchange()
    recording.text({"type": "keepalive"})
    recording.text({"type": "stop"})
    recording.audio(bytes(4))
    recording.finish()
    return recording


def shipped_words() -> Recording:
    """Speech in pieces, words of partials, the written form, alternatives and turns."""
    options = {"written": True, "partial_words": True, "alternatives": 2, "turns": True, "step_ms": 640}
    recording = _begin(_shipped(), **options, endpoint={"turn": True, "eagerness": "high"})
    recording.speak(_talk(0.0, 7.3))
    recording.speak(silence(2000))
    recording.stop()
    return recording


def shipped_losses() -> Recording:
    """The sequence is lost while somebody speaks, and moves at the next cut."""
    recording = _begin(
        _shipped(),
        written=True,
        turns=True,
        endpoint={"turn": True},
        hotwords=["Quilter", {"text": "apostle", "weight": 2}],
    )
    recording.speak(_talk(0.0, 3.0))
    recording.audio(_talk(3.0, 3.4).tobytes())
    recording.ask()
    recording.fail(code="overdue", lost=False)
    recording.later(1.0)
    recording.speak(_talk(3.4, 6.0))
    for begin_s in (6.0, 6.4, 6.8):
        recording.audio(_talk(begin_s, begin_s + 0.4).tobytes())
        recording.exchange(leaving=True)
    recording.text({"type": "flush"})
    recording.exchange(leaving=True)
    recording.exchange()
    recording.speak(silence(1000))
    recording.stop()
    return recording


SESSIONS: Final[Mapping[str, Callable[[], Recording]]] = {
    each.__name__: each
    for each in (
        exact_words,
        exact_partial_words,
        exact_channels,
        exact_dictation,
        exact_heads,
        exact_resume,
        exact_failure,
        exact_complaint,
        shipped_words,
        shipped_losses,
    )
}


def main() -> int:
    """Record the sessions, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SESSIONS, default=list(SESSIONS), metavar="NAME")
    parser.add_argument("--to", type=Path, default=FOLDER)
    options = parser.parse_args()
    for name in options.only:
        session = SESSIONS[name]
        lines = [json.dumps(step, ensure_ascii=False, separators=(",", ":")) for step in session().steps]
        about = json.dumps((session.__doc__ or "").strip())
        text = f'{{"about":{about},\n"steps":[\n' + ",\n".join(lines) + "\n]}\n"
        (options.to / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {len(lines)} steps, {len(text.encode()) // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
