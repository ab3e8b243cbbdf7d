"""The table of all families: finds the one of a graph by its metadata, and says why others cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamer.graphs.families.conformer import CONFORMER
from streamer.graphs.families.family import EncoderFamily
from streamer.graphs.families.lstm import LSTM
from streamer.graphs.families.nemo import FASTCONFORMER
from streamer.graphs.families.t_one import T_ONE
from streamer.graphs.families.zipformer import ZIPFORMER
from streamer.graphs.families.zipformer2 import ZIPFORMER2
from streamer.graphs.layout import LayoutError
from streamer.graphs.onnx_file import GraphFile

ENCODERS: Final[tuple[EncoderFamily, ...]] = (ZIPFORMER2, ZIPFORMER, LSTM, CONFORMER, T_ONE, FASTCONFORMER)
FAMILIES: Final = tuple(family for encoder in ENCODERS for family in encoder.families)

_ALONE: Final = "its streams must all be of one age, so it cannot serve several that begin at different times"
_COMPUTED: Final = ", ".join(encoder.architecture.value for encoder in ENCODERS)
_LATER: Final = f"Streamer computes only {_COMPUTED}, so one of these in the same language would do"
# What `model_type` may be, and why such a model cannot be used.
_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "ebranchformer": ("an E-Branchformer", _LATER),
    "wenet_ctc": ("a model of WeNet", f"{_ALONE}; a Zipformer-2 of the same language would do"),
    "paraformer": ("a Paraformer", f"{_ALONE}; a Zipformer-2 of the same language would do"),
}


def recognised(graph: GraphFile) -> EncoderFamily:
    """The entry of this encoder, or of this whole CTC model. LayoutError says what it is, if it cannot be used."""
    for encoder in ENCODERS:
        if encoder.recognises(graph.metadata):
            return encoder
    kind = graph.metadata.get("model_type")
    if kind is None:
        raise LayoutError(
            "does not say which kind of model it is (no model_type in its metadata): it is not a streaming model of "
            "sherpa-onnx"
        )
    named, why = _OTHERS.get(kind, (f"a model of the type {kind[:80]!r}", _LATER))
    if kind.startswith("EncDec"):
        named, why = "a FastConformer of NeMo without caches", "only an export for streaming keeps what it has heard"
    raise LayoutError(f"is {named}, which cannot be used: {why}")
