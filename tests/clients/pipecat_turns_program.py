"""A program with pipecat's services for voice agents, in a pipeline of nothing else: speech with turns.

The only change is the address. It prints the transcriptions of the service that its third argument names, as JSON.
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
    InterimTranscriptionFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.pipeline import Pipeline  # type: ignore[import-not-found,unused-ignore]
from pipecat.pipeline.worker import PipelineParams, PipelineWorker  # type: ignore[import-not-found,unused-ignore]
from pipecat.processors.frame_processor import FrameProcessor  # type: ignore[import-not-found,unused-ignore]
from pipecat.workers.runner import WorkerRunner  # type: ignore[import-not-found,unused-ignore]

STEP = 16_000 // 50 * 2  # bytes of 20 ms


class Listener(FrameProcessor):  # type: ignore[misc,unused-ignore]
    """Keeps what was heard, until there are enough transcriptions."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.interim = 0
        self.complete = asyncio.Event()
        self._enough = enough

    async def process_frame(self, frame: Any, direction: Any) -> None:
        """Keep a transcription."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self.heard.append(frame.text)
            if len(self.heard) == self._enough:
                self.complete.set()
        self.interim += isinstance(frame, InterimTranscriptionFrame)
        await self.push_frame(frame, direction)


def service(name: str, host: str) -> Any:
    """Return the service, with another address."""
    if name == "flux":
        from pipecat.services.deepgram.flux.stt import (  # type: ignore[import-not-found,unused-ignore]
            DeepgramFluxSTTService,
        )

        return DeepgramFluxSTTService(api_key="any", url=f"ws://{host}/v2/listen")
    if name == "assemblyai":
        from pipecat.services.assemblyai.stt import (  # type: ignore[import-not-found,unused-ignore]
            AssemblyAISTTService,
        )

        url = f"ws://{host}/v3/ws"
        return AssemblyAISTTService(api_key="any", api_endpoint_base_url=url, vad_force_turn_endpoint=False)
    if name == "speechmatics":
        from pipecat.services.speechmatics.stt import (  # type: ignore[import-not-found,unused-ignore]
            SpeechmaticsSTTService,
        )

        kind = SpeechmaticsSTTService
        # By itself, it leaves the ends of turns to a detector of pipecat's.
        settings = kind.Settings(turn_detection_mode=kind.TurnDetectionMode.VAD)
        return kind(api_key="any", base_url=f"ws://{host}/v2/agent", settings=settings)
    if name == "soniox":
        from pipecat.services.soniox.stt import (  # type: ignore[import-not-found,unused-ignore]
            SonioxSTTService,
        )

        url = f"ws://{host}/transcribe-websocket"
        return SonioxSTTService(api_key="any", url=url, vad_force_turn_endpoint=False)
    raise ValueError(f"there is no service {name}")


async def main(host: str, path: str, name: str, enough: str) -> None:
    """Use the service at this host and port."""
    with wave.open(path) as file:
        pcm = file.readframes(file.getnframes())
    listener = Listener(int(enough))
    pipeline = Pipeline([service(name, host), listener])
    worker = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=16_000))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)

    async def speak() -> None:
        await asyncio.sleep(1)
        for place in range(0, len(pcm), STEP):
            await worker.queue_frame(InputAudioRawFrame(pcm[place : place + STEP], 16_000, 1))
            await asyncio.sleep(0.005)
            if place <= len(pcm) // 2 < place + STEP:
                print("half", flush=True)
        await asyncio.wait_for(listener.complete.wait(), 30)
        await worker.queue_frame(EndFrame())

    await asyncio.gather(runner.run(), speak())
    print(json.dumps({"heard": listener.heard, "interim": listener.interim}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
