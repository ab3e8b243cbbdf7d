"""The table of all families. It finds the family of a graph by its metadata, and says why other graphs are no use."""

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
    if kind.startswith("EncDec"):
        name, why = "a FastConformer of NeMo without caches", "only an export for streaming keeps earlier audio"
    raise LayoutError(f"is {name}, which cannot be used: {why}")
