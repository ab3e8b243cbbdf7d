"""Limits and times that several rooms share: default values and their bounds, as plain constants.

The first half is what a session may ask for; the wire and the engine both check it. The second half is how long the
service waits and how much it accepts; the bridge uses these values, and `streamer serve` can change them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# --- What a session may ask for ---

DEFAULT_MODEL: Final = "default"  # the public name of the model for sessions that do not name one
STEP_MS: Final = 320
STEPS_MS: Final = (160, 320, 640)
WHOLE_MS: Final = 20_480  # of audio that the second pass reads as one step: a segment is seldom longer
SEARCH: Final = "lexicon"
GREEDY: Final = "greedy"
BEAM: Final = "beam"  # of public models
READER: Final = "reader"  # the second pass by another model, and the name of that model in Triton
SPEAKERS: Final = "speakers"  # the model in Triton that tells voices apart
MOST_SPEAKERS: Final = 20
LONGEST_SPEAKER_NAME: Final = 60
VOICE_BOUNDS_S: Final = (1, 10)  # the length of a recording of a voice that a client enrols
GROWING: Final = "growing"  # partials with the words of a reader
SEARCHES: Final = (SEARCH, GREEDY, BEAM)
LANGUAGE: Final = "auto"  # the model detects the language
LONGEST_LANGUAGE: Final = 35  # characters of its name
LONGEST_PROMPT: Final = 1000  # characters; a reader takes the last 200 to 900
STABILITY: Final = "low"
STABILITIES: Final = ("low", "medium", "high")
ALTERNATIVES: Final = 0
MOST_ALTERNATIVES: Final = 10
SETTLE_MS: Final = 0  # no limit
SETTLE_BOUNDS_MS: Final = (500, 10_000)

MOST_CHANNELS: Final = 8
SAMPLE_RATES: Final = (8_000, 192_000)

# The endpoint: shorter pauses would cut words; longer segments would keep too much audio.
ON: Final = "on"
OFF: Final = "off"
AFTER_TEXT_MS: Final = 1000
AFTER_TEXT_BOUNDS_MS: Final = (400, 10_000)
WITHOUT_TEXT_MS: Final = 2400
WITHOUT_TEXT_BOUNDS_MS: Final = (400, 20_000)
LONGEST_SEGMENT_MS: Final = 20_000
LONGEST_SEGMENT_BOUNDS_MS: Final = (6_000, 60_000)
# How soon a turn ends, and after which pause it ends in any case.
EAGERNESS: Final = "medium"
EAGERNESSES: Final = ("low", "medium", "high")
LONGEST_PAUSE_MS: Final = 2000
LONGEST_PAUSE_BOUNDS_MS: Final = (400, 10_000)

MOST_HOTWORDS: Final = 200
MOST_HOTWORD_WORDS: Final = 6
LONGEST_HOTWORD: Final = 60  # characters
HOTWORD_WEIGHT: Final = 1.0
HEAVIEST_HOTWORD: Final = 5.0
LONGEST_WEBHOOK: Final = 2000  # characters of an address
LONGEST_CALLER: Final = 64  # characters of the pseudonym of the owner of a stream

# The words before a cut that a new stream may be given, so that it goes on with the same marks and capitals.
MOST_CONTEXT_WORDS: Final = 32
LONGEST_CONTEXT_WORD: Final = 60  # characters
LONGEST_CONTEXT_PAUSE_MS: Final = 60_000

# --- How long a service waits, and how much it accepts ---

START_LIMIT_S: Final = 10.0  # for `start` after the connection
LOAD_LIMIT_S: Final = 15.0  # for a model that must be loaded first: less than the 20 s of live audio that may wait
IDLE_LIMIT_S: Final = 60.0  # for audio or keepalive
RESUME_LIMIT_S: Final = 30.0  # for a client that lost its connection; 0: its session ends with the connection
HANDSHAKE_LIMIT_S: Final = 10.0  # for TLS, and then for the request
# Our clients send `keepalive` every five seconds; other clients may manage with shorter limits.
SHORTEST_LIMIT_S: Final = 1.0
LONGEST_LIMIT_S: Final = 3600.0

# How long sessions may go on after SIGTERM. Together with everything that follows, this stays below 30 s.
DRAIN_LIMIT_S: Final = 5.0
LONGEST_DRAIN_S: Final = 86_400.0
MOST_WORKERS: Final = 64  # processes at one port

RESOLVE_EVERY_S: Final = 30.0  # how often the names of Tritons are looked up
RESOLVE_BOUNDS_S: Final = (0.1, 3600.0)
# How long streams may take to leave a Triton or a model. A stream leaves at its next cut, which comes after at most a
# minute of audio. A stream that gets no audio for longer is moved as if the Triton had failed.
RETIRE_LIMIT_S: Final = 120.0
RETIRE_BOUNDS_S: Final = (0.0, 3600.0)


class InstanceBounds(NamedTuple):
    """The smallest and the largest number of instances of a model, if their number follows the load."""

    fewest: int
    most: int

    def __str__(self) -> str:
        return f"{self.fewest}-{self.most}"


# Characters of hotwords that are prepared for one caller in a minute. A key gets three lists of the greatest length.
HOTWORDS_PER_KEY: Final = 36_000
HOTWORDS_PER_ADDRESS: Final = 144_000

LARGEST_MESSAGE: Final = 1024 * 1024  # bytes: 32 s of audio
# A smaller limit would not fit `start` with all its hotwords. A larger message would be a whole file, not a stream.
MESSAGE_BOUNDS: Final = (64 * 1024, 64 * 1024 * 1024)

# An uploaded recording: two hours of stereo at 48 kHz are 1.3 GiB of WAV, and much less in any other format.
LARGEST_UPLOAD: Final = 1024 * 1024 * 1024  # bytes
UPLOAD_BOUNDS: Final = (64 * 1024, 64 * 1024 * 1024 * 1024)
LONGEST_UPLOAD_S: Final = 7200.0  # of audio
LONGEST_UPLOAD_BOUNDS_S: Final = (1.0, 86_400.0)
MOST_UPLOADS: Final = 16  # at a time; each has a decoder, a process with 40 MB, and more where ffmpeg decodes
MOST_UPLOADS_BOUNDS: Final = (0, 128)  # below the number of requests that may be answered at a time
