"""The table of all families, T-one among them. It finds the family of a graph, and says why others are no use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamer.models.icefall import CONFORMER, LSTM, WHOLE_ICEFALL, ZIPFORMER, ZIPFORMER2
from streamer.models.layout import (
    FRAME_MS,
    Architecture,
    EncoderFamily,
    EncoderLayout,
    Features,
    LayoutError,
    Metadata,
    SearchKind,
    check_port,
    check_window,
    matching_states,
)
from streamer.models.moonshine_folder import FAMILY as MOONSHINE
from streamer.models.nemo import FASTCONFORMER, WHOLE_NEMO
from streamer.models.onnx_file import ElementType, GraphFile

# T-one, a model that takes samples at 8 kHz and keeps its whole state in one row of numbers.

_T_ONE_RATE = 8_000
_T_ONE_FRAME_MS = 30  # the length of each frame of the output


def _t_one_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this model. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    if metadata.whole("sample_rate") != _T_ONE_RATE:
        raise LayoutError(f"takes {metadata.whole('sample_rate')} samples a second, not {_T_ONE_RATE} as T-one does")
    length = metadata.whole("frame_length_ms")
    if length % _T_ONE_FRAME_MS:
        raise LayoutError(f"has steps of {length} ms, which are no whole frames of {_T_ONE_FRAME_MS} ms")
    frames = length // _T_ONE_FRAME_MS
    check_window(length // FRAME_MS, FRAME_MS * _T_ONE_RATE // 1000)
    signal, *inputs = graph.inputs
    result, *outputs = graph.outputs
    check_port(signal, ElementType.INT32, (1, length * _T_ONE_RATE // 1000, 1), 0)
    check_port(result, ElementType.FLOAT, (1, frames, None), 0)
    states = matching_states(inputs, outputs, [(ElementType.FLOAT16, (1, metadata.whole("state_dim")), 0)])
    units = result.shape[2] if result.shape else None
    units = units if isinstance(units, int) else None
    # The filter that halves the sample rate needs as much audio after a step as a window of feature frames would.
    step, numbers = length // FRAME_MS, FRAME_MS * _T_ONE_RATE // 1000
    return EncoderLayout(step, step, numbers, frames, units, result.name, tuple(states), Features.TELEPHONE)


T_ONE = EncoderFamily(
    Architecture.T_ONE,
    lambda metadata: metadata.get("model_type") == "t-one",
    _t_one_layout,
    ctc=True,
    transducer=None,
)
ENCODERS: Final[tuple[EncoderFamily, ...]] = (
    WHOLE_ICEFALL,  # first, because it has the types of others
    ZIPFORMER2,
    ZIPFORMER,
    LSTM,
    CONFORMER,
    T_ONE,
    FASTCONFORMER,
    WHOLE_NEMO,
)
FAMILIES: Final = (*(family for encoder in ENCODERS for family in encoder.families), MOONSHINE)

_ONE_AGE: Final = "its streams must all be of one age, so it cannot serve several that begin at different times"
_ARCHITECTURES: Final = ", ".join(encoder.architecture.value for encoder in ENCODERS)
_OTHER_TYPE: Final = f"Streamer computes only {_ARCHITECTURES}, so one of these in the same language would do"
# Values of `model_type` that cannot be used: the name of such a model, and the reason.
_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "ebranchformer": ("an E-Branchformer", _OTHER_TYPE),
    "wenet_ctc": ("a model of WeNet", f"{_ONE_AGE}; a Zipformer-2 of the same language would do"),
    "paraformer": ("a Paraformer", f"{_ONE_AGE}; a Zipformer-2 of the same language would do"),
}


def find_encoder(graph: GraphFile) -> EncoderFamily:
    """Return the entry of this encoder or CTC model. Raise LayoutError, which gives the reason, if there is none."""
    for encoder in ENCODERS:
        if encoder.recognises(graph.metadata):
            return encoder
    kind = graph.metadata.get("model_type")
    if kind is None:
        unknown = "does not say which kind of model it is (no model_type in its metadata)"
        raise LayoutError(f"{unknown}: it is not a streaming model of sherpa-onnx")
    name, why = _OTHERS.get(kind, (f"a model of the type {kind[:80]!r}", _OTHER_TYPE))
    raise LayoutError(f"is {name}, which cannot be used: {why}")
