"""A program with pipecat's service for Deepgram, in a pipeline of nothing else: speech, and the end of a turn.

The only change is `base_url`. It prints the transcriptions, as JSON, with whether each ends its turn.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any

from pipecat.frames.frames import (  # type: ignore[import-not-found,unused-ignore]
    EndFrame,
    InputAudioRawFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline  # type: ignore[import-not-found,unused-ignore]
from pipecat.pipeline.worker import PipelineParams, PipelineWorker  # type: ignore[import-not-found,unused-ignore]
from pipecat.processors.frame_processor import FrameProcessor  # type: ignore[import-not-found,unused-ignore]
from pipecat.services.deepgram.stt import DeepgramSTTService  # type: ignore[import-not-found,unused-ignore]
from pipecat.workers.runner import WorkerRunner  # type: ignore[import-not-found,unused-ignore]

STEP = 16_000 // 50 * 2  # bytes of 20 ms


class Listener(FrameProcessor):  # type: ignore[misc,unused-ignore]
    """Keeps what was heard."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[list[Any]] = []
        self.finalized = asyncio.Event()

    async def process_frame(self, frame: Any, direction: Any) -> None:
        """Keep a transcription."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self.heard.append([frame.text, frame.finalized])
            if frame.finalized:
                self.finalized.set()
        await self.push_frame(frame, direction)


async def main(host: str, path: str) -> None:
    """Use the service at this host and port."""
    with wave.open(path) as file:
        pcm = file.readframes(file.getnframes())
    stt = DeepgramSTTService(api_key="any", base_url=f"http://{host}")
    listener = Listener()
    worker = PipelineWorker(Pipeline([stt, listener]), params=PipelineParams(audio_in_sample_rate=16_000))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)

    async def speak() -> None:
        await asyncio.sleep(1)
        await worker.queue_frame(VADUserStartedSpeakingFrame())
        for place in range(0, len(pcm), STEP):
            await worker.queue_frame(InputAudioRawFrame(pcm[place : place + STEP], 16_000, 1))
            await asyncio.sleep(0.005)
            if place <= len(pcm) // 2 < place + STEP:
                print("half", flush=True)
        await worker.queue_frame(VADUserStoppedSpeakingFrame())
        await asyncio.wait_for(listener.finalized.wait(), 30)
        await worker.queue_frame(EndFrame())

    await asyncio.gather(runner.run(), speak())
    print(json.dumps({"heard": listener.heard}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
