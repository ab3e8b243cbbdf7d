"""What a process that has loaded a model, or a step of an ensemble, tells about its memory. All sizes are bytes. Pure.

The programs of `streamer.engine.memory` and `streamer.heads.step_report` print these as JSON, and `streamer plan` reads
them.
"""

from __future__ import annotations

from typing import TypedDict


class Sizes(TypedDict):
    """The size of one thing in both kinds of memory."""

    main: int
    gpu: int


class _GpuFacts(TypedDict, total=False):
    name: str | None
    memory: int | None


class Device(_GpuFacts):
    """What computes: `cpu`, or `gpu` with its name and its memory."""

    kind: str


class SharedSizes(TypedDict):
    """What all instances share."""

    libraries: int
    tables: int


class InstanceSizes(TypedDict):
    """What each instance has of its own: before it has a model, the model, and while it computes a batch."""

    process: Sizes
    model: Sizes
    batch: Sizes


class SlotSizes(TypedDict):
    """What each slot of a recogniser takes."""

    encoder: Sizes
    activity: Sizes
    search: Sizes


class StreamSizes(TypedDict):
    """What a stream takes besides its slot, with the longest segment."""

    words: Sizes
    audio: Sizes


class HotwordSizes(TypedDict):
    """The most that hotwords of one stream take, and for how many streams there is room."""

    stream: Sizes
    streams: int


class ModelReport(TypedDict):
    """The memory of a recogniser in one process."""

    name: str
    device: Device
    shared: SharedSizes
    instance: InstanceSizes
    slot: SlotSizes
    stream: StreamSizes
    hotwords: HotwordSizes


class StepReport(TypedDict):
    """The memory of one step of an ensemble. `name` is that of the model; empty if the step knows none."""

    name: str
    device: Device
    shared: SharedSizes
    instance: InstanceSizes
    slot: Sizes
    stream: Sizes
    audio: Sizes
    hotwords: HotwordSizes | None  # of the step that searches words
