"""A client's audio on its way into the streams of its session: decoded, divided, and within its marks. Pure."""

from __future__ import annotations

from streamer.audio.decoder import AudioDecoder
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.stream_group import StreamGroup
from streamer.wire.options import Start

# A live client is always read, so it is closed instead when this much waits: after a stall of the network it
# may send some seconds at once, but whoever stays behind would only fall back further.
LIVE_MARK = 20 * BYTES_PER_S


class Intake:
    """Takes what the client sends from its `start` to its `stop`."""

    def __init__(self, streams: StreamGroup) -> None:
        self.start = Start()
        self.flushes = 0  # how many the client asked for
        self.live_mark = LIVE_MARK
        self._streams = streams
        self._decoder = AudioDecoder(self.start.encoding, self.start.sample_rate)

    @property
    def decoder(self) -> AudioDecoder:
        """What came, and whether it ended within a sample."""
        return self._decoder

    @property
    def full(self) -> bool:
        """Whether the client is to be read no further for now; a live one is always read."""
        return not self.start.live and self._streams.full

    @property
    def too_fast(self) -> bool:
        """Whether a live client is further ahead of the model than it may be."""
        return self.start.live and self._streams.exceeds(self.live_mark)

    def begin(self, start: Start, refresh_s: float, now: float) -> None:
        """The client has said what it is going to send."""
        self.start = start
        self._decoder = AudioDecoder(start.encoding, start.sample_rate, start.channels, separate=start.multichannel)
        self._streams.begin(self._decoder.streams, start.step_ms, refresh_s, now)

    def receive(self, data: bytes) -> None:
        """Audio of any length: the next goes on where it ends, also within a sample."""
        for stream, block in zip(self._streams, self._decoder.decode(data), strict=True):
            stream.add(block.tobytes())

    def flush(self) -> None:
        """Everything so far is to become final."""
        self.flushes += 1
        self._streams.flush()

    def go_on(self, away_s: float) -> int:
        """The client is back after so long at most; returns the sample that it is to send next."""
        # What was spoken meanwhile comes at once.
        self.live_mark = LIVE_MARK + int(away_s) * BYTES_PER_S
        return self._decoder.drop_rest()

    def finish(self) -> None:
        """Nothing more comes."""
        for stream, block in zip(self._streams, self._decoder.finish(), strict=True):
            stream.add(block.tobytes())
        self._streams.finish()
