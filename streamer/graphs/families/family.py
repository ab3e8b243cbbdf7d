"""A family of public models: an architecture of the encoder, and the kind of search that reads its frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from streamer.graphs.layout import EncoderLayout
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.transducer import AnyTransducer


class Architecture(Enum):
    """The architectures of encoders that Streamer can compute."""

    ZIPFORMER2 = "Zipformer-2"
    ZIPFORMER = "Zipformer"  # the first version
    LSTM = "LSTM"
    CONFORMER = "Conformer"
    T_ONE = "T-one"
    FASTCONFORMER = "FastConformer"


class SearchKind(Enum):
    """The kinds of search. The training of an encoder decides which kind reads its frames."""

    CTC = "with CTC"
    TRANSDUCER = "transducer"


@dataclass(frozen=True)
class Family:
    """A family of public models."""

    architecture: Architecture
    search: SearchKind

    @property
    def title(self) -> str:
        """The name of the family in commands and in the catalogue."""
        return f"{self.architecture.value} {self.search.value}"


Recognises = Callable[[Mapping[str, str]], bool]
LayoutOf = Callable[[GraphFile, SearchKind], EncoderLayout]
TransducerOf = Callable[[GraphFile, EncoderLayout, GraphFile, GraphFile], AnyTransducer]


@dataclass(frozen=True)
class EncoderFamily:
    """All families with one architecture, and how to check their graphs.

    `recognises` decides by the metadata of a graph whether it is such an encoder. `layout` checks the graph and returns
    its layout. `transducer` gets the encoder, its layout, the predictor and the joiner, and checks the last two; it is
    None if there are only models with CTC. Both raise LayoutError.
    """

    architecture: Architecture
    recognises: Recognises
    layout: LayoutOf
    ctc: bool
    transducer: TransducerOf | None

    @property
    def families(self) -> tuple[Family, ...]:
        """The families with this architecture that Streamer can use."""
        searches = [SearchKind.CTC] * self.ctc + [SearchKind.TRANSDUCER] * (self.transducer is not None)
        return tuple(Family(self.architecture, search) for search in searches)
