"""Takes a client's audio into the streams of its session: decodes it, splits it by channel, and bounds it. Pure."""

from __future__ import annotations

from streamer.audio.decoder import AudioDecoder
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.stream_group import StreamGroup
from streamer.wire.options import Start

# A live client is always read. If this much of its audio waits, its session ends, because the backlog would only grow.
# After a stall of the network, a client may send some seconds at once.
LIVE_MARK = 20 * BYTES_PER_S


class Intake:
    """Takes the client's audio from `start` to `stop`."""

    def __init__(self, streams: StreamGroup) -> None:
        self.start = Start()
        self.flushes = 0  # the number that the client asked for
        self.live_mark = LIVE_MARK
        self._streams = streams
        self._decoder = AudioDecoder(self.start.encoding, self.start.sample_rate)

    @property
    def decoder(self) -> AudioDecoder:
        """The decoder, which knows how much audio came and whether it ended within a sample."""
        return self._decoder

    @property
    def full(self) -> bool:
        """Whether the client should not be read for now. A live client is always read."""
        return not self.start.live and self._streams.full

    @property
    def too_fast(self) -> bool:
        """Whether too much audio of a live client waits for the model."""
        return self.start.live and self._streams.exceeds(self.live_mark)

    def begin(self, start: Start, refresh_s: float, now: float) -> None:
        """Prepare for the audio that `start` describes."""
        self.start = start
        self._decoder = AudioDecoder(start.encoding, start.sample_rate, start.channels, separate=start.multichannel)
        self._streams.begin(self._decoder.streams, start.step_ms, refresh_s, now, start.context)

    def receive(self, data: bytes) -> None:
        """Take audio of any length. The next audio continues where it ends, even within a sample."""
        for stream, block in zip(self._streams, self._decoder.decode(data), strict=True):
            stream.add(block.tobytes())

    def flush(self) -> None:
        """Make all audio so far final."""
        self.flushes += 1
        self._streams.flush()

    def go_on(self, away_s: float) -> int:
        """Continue after the client was away for at most `away_s`. Return the sample that it must send next."""
        # A live client may now send all the audio of that time at once.
        self.live_mark = LIVE_MARK + int(away_s) * BYTES_PER_S
        return self._decoder.drop_rest()

    def finish(self) -> None:
        """End the audio."""
        for stream, block in zip(self._streams, self._decoder.finish(), strict=True):
            stream.add(block.tobytes())
        self._streams.finish()
