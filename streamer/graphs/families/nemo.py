"""FastConformer of NeMo with caches, such as Nemotron: windows and caches, from the metadata of the export.

Two inputs have one number for each stream: how many frames of its window count, and its language. The names of inputs
and outputs differ from export to export, so this module identifies them by their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.families.recurrent_transducer import recurrent_transducer_of
from streamer.graphs.languages import Languages, languages_of
from streamer.graphs.layout import (
    EncoderLayout,
    Features,
    Given,
    LayoutError,
    Metadata,
    StatePort,
    check_port,
    matching_states,
)
from streamer.graphs.onnx_file import ElementType, GraphFile, Port

_LANGUAGE: Final = "prompt_index"
_USUAL_INPUTS: Final = 5  # features, their length, and three caches
_OUTPUTS: Final = 5  # frames, their number, and three caches


def _recognises(metadata: Mapping[str, str]) -> bool:
    return "cache_last_channel_dim1" in metadata and "chunk_shift" in metadata


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    metadata = Metadata(graph.metadata)
    window, step, subsampling = map(metadata.whole, ("window_size", "chunk_shift", "subsampling_factor"))
    if step % subsampling or not step < window:
        windows = f"windows of {window} frames every {step} frames"
        raise LayoutError(f"has {windows}, which is impossible if it makes one frame of {subsampling}")
    multilingual = len(graph.inputs) == _USUAL_INPUTS + 1 and graph.inputs[-1].name == _LANGUAGE
    if len(graph.inputs) != _USUAL_INPUTS + multilingual or len(graph.outputs) != _OUTPUTS:
        ports = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        raise LayoutError(f"has {ports}, not those of an export with caches for streaming")
    features, length, *caches = graph.inputs
    mels = features.shape[1] if features.shape and len(features.shape) == 3 else None
    if not isinstance(mels, int) or mels < 1:
        raise LayoutError(f"does not say how many numbers a frame of {features.name} has")
    check_port(features, ElementType.FLOAT, (1, mels, window), 0)
    check_port(length, ElementType.INT64, (1,), 0)
    given, languages = [(length, Given.WINDOW)], None
    if multilingual:
        check_port(caches[-1], ElementType.INT64, (1,), 0)
        given.append((caches.pop(), Given.LANGUAGE))
        languages = _languages(graph)
    transducer = search is SearchKind.TRANSDUCER
    frames = step // subsampling
    units = _units(graph.outputs[0], frames, None if transducer else metadata.whole("vocab_size") + 1)
    states = _caches(metadata, caches, graph.outputs[2:])
    layout = EncoderLayout(window, step, mels, frames, units, graph.outputs[0].name, states, Features.NEMO)
    return replace(layout, upright=True, output_upright=transducer, given=tuple(given), languages=languages)


def _languages(graph: GraphFile) -> Languages:
    try:
        return languages_of(graph.metadata)
    except ValueError as error:
        raise LayoutError(str(error)) from None


def _units(result: Port, frames: int, tokens: int | None) -> int | None:
    """Return how many numbers a frame has: with CTC one for each of `tokens`. A transducer's frames are columns."""
    check_port(result, ElementType.FLOAT, (1, None, frames) if tokens is None else (1, frames, tokens), 0)
    units = result.shape[1] if tokens is None and result.shape else tokens
    return units if isinstance(units, int) else None


def _caches(metadata: Metadata, inputs: list[Port], outputs: tuple[Port, ...]) -> tuple[StatePort, ...]:
    channel, time = (
        (ElementType.FLOAT, (1, *(metadata.whole(f"cache_last_{kind}_dim{axis}") for axis in (1, 2, 3))), 0)
        for kind in ("channel", "time")
    )
    return tuple(matching_states(inputs, outputs, [channel, time, (ElementType.INT64, (1,), 0)]))


FASTCONFORMER = EncoderFamily(
    Architecture.FASTCONFORMER, _recognises, _layout, ctc=True, transducer=recurrent_transducer_of
)
