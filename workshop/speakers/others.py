"""What others tell about the same conversations: Moonshine's pipeline, and prints of Resemblyzer in place of ours.

Their packages are in no part of the project, or not for this. Each is imported only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.speakers.networks import RATE, Floats, Run, VoiceNetworks
from streamer.engine.speakers.voices import Turn
from streamer.models.speaker_networks import SpeakerNetworks
from workshop.speakers.conversations import Conversation

_BLOCK: Final = RATE // 2
_SHORT_PAUSE: Final = RATE // 2  # a turn goes on over a shorter pause, as in the reference
_OPTIONS: Final = {"identify_speakers": "true", "skip_transcription": "true", "diarization_analyze_cadence": "5"}
_LONGEST_PRINT: Final = 3 * RATE
_SHORTEST_PRINT: Final = RATE // 4


def moonshine_turns(conversation: Conversation) -> list[Turn]:
    """Return the turns that the pipeline of moonshine-voice tells. ImportError without it."""
    import moonshine_voice  # type: ignore[import-untyped]
    from moonshine_voice import ModelArch, Transcriber

    folder = Path(moonshine_voice.__file__).parent / "assets" / "tiny-en"
    transcriber = Transcriber(str(folder), ModelArch.TINY, options=_OPTIONS)
    samples = (conversation.samples / np.float32(32768)).astype(np.float32)
    transcriber.start()
    for start in range(0, len(samples), _BLOCK):
        transcriber.add_audio(samples[start : start + _BLOCK].tolist(), RATE)
    spans = sorted(
        (span.start_time, span.start_time + span.duration, span.speaker_id)
        for line in transcriber.stop().lines
        for span in line.speaker_spans or []
    )
    transcriber.close()
    numbers: dict[int, int] = {}
    last: dict[int, int] = {}  # the turn of each voice
    turns: list[Turn] = []
    for start_s, end_s, name in spans:
        start, end, voice = round(start_s * RATE), round(end_s * RATE), numbers.setdefault(name, len(numbers))
        at = last.get(voice)
        if at is not None and start - turns[at][1] <= _SHORT_PAUSE:
            turns[at] = (turns[at][0], max(turns[at][1], end), voice)
        else:
            last[voice] = len(turns)
            turns.append((start, end, voice))
    return turns


class ResemblyzerNetworks(VoiceNetworks):
    """Our networks, but for the prints: those are Resemblyzer's, of the same runs. ImportError without it."""

    def __init__(self, networks: SpeakerNetworks) -> None:
        super().__init__(networks)
        from resemblyzer import VoiceEncoder  # type: ignore[import-not-found]

        self._encoder = VoiceEncoder("cpu", verbose=False)

    def hear(self, samples: NDArray[np.int16], since: int = 0) -> list[Run]:
        sound = (samples / np.float32(32768)).astype(np.float32)
        return [
            Run(run.start, run.end, run.alone_s, self._of(sound[run.start : run.end]))
            for run in super().hear(samples, since)
        ]

    def _print(self, features: Floats) -> Floats | None:
        """Compute none of ours."""
        return None

    def _of(self, sound: Floats) -> Floats | None:
        sound = sound[-_LONGEST_PRINT:]
        if len(sound) < _SHORTEST_PRINT:
            return None
        vector: Floats = self._encoder.embed_utterance(sound).astype(np.float32)
        return vector
