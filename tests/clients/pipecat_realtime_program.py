"""A program with pipecat's services for OpenAI, in a pipeline of nothing else: the user speaks and stops.

The only change is `base_url`. With `files` each turn is a recording, otherwise it is realtime. It prints the
transcriptions, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
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
from pipecat.services.openai.stt import (  # type: ignore[import-not-found,unused-ignore]
    OpenAIRealtimeSTTService,
    OpenAISTTService,
)
from pipecat.workers.runner import WorkerRunner  # type: ignore[import-not-found,unused-ignore]

RATE = 24_000
STEP = RATE // 50 * 2  # bytes of 20 ms


class Listener(FrameProcessor):  # type: ignore[misc,unused-ignore]
    """Keeps what was heard."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.news = asyncio.Event()

    async def process_frame(self, frame: Any, direction: Any) -> None:
        """Keep a transcription."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self.heard.append(frame.text)
            self.news.set()
        await self.push_frame(frame, direction)


async def main(host: str, pcm: bytes, way: str = "realtime") -> None:
    """Use the service at this host and port."""
    if way == "files":
        stt = OpenAISTTService(api_key="any", base_url=f"http://{host}/v1")
    else:
        stt = OpenAIRealtimeSTTService(api_key="any", base_url=f"ws://{host}/v1/realtime")
    listener = Listener()
    worker = PipelineWorker(Pipeline([stt, listener]), params=PipelineParams(audio_in_sample_rate=RATE))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)

    async def speak() -> None:
        await asyncio.sleep(1)
        for turn in range(2):
            await worker.queue_frame(VADUserStartedSpeakingFrame())
            for place in range(0, len(pcm), STEP):
                await worker.queue_frame(InputAudioRawFrame(pcm[place : place + STEP], RATE, 1))
                await asyncio.sleep(0.002)
                if turn == 0 and place <= len(pcm) // 2 < place + STEP:
                    print("half", flush=True)
            await worker.queue_frame(VADUserStoppedSpeakingFrame())
            await asyncio.wait_for(listener.news.wait(), 30)
            listener.news.clear()
        await worker.queue_frame(EndFrame())

    await asyncio.gather(runner.run(), speak())
    print(json.dumps(listener.heard))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes(), *sys.argv[3:]))
