"""What a family of public models is: an architecture of the encoder, and a kind of search that reads its frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from streamer.graphs.layout import EncoderLayout
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.transducer import AnyTransducer


class Architecture(Enum):
    """The encoders that can be computed."""

    ZIPFORMER2 = "Zipformer-2"
    ZIPFORMER = "Zipformer"  # the first version
    LSTM = "LSTM"
    CONFORMER = "Conformer"
    T_ONE = "T-one"
    FASTCONFORMER = "FastConformer"


class SearchKind(Enum):
    """What the frames of an encoder are, which decides how they are searched."""

    CTC = "with CTC"
    TRANSDUCER = "transducer"


@dataclass(frozen=True)
class Family:
    """The kind of a public model."""

    architecture: Architecture
    search: SearchKind

    @property
    def title(self) -> str:
        """As commands and the catalogue call it."""
        return f"{self.architecture.value} {self.search.value}"


Recognises = Callable[[Mapping[str, str]], bool]
LayoutOf = Callable[[GraphFile, SearchKind], EncoderLayout]
TransducerOf = Callable[[GraphFile, EncoderLayout, GraphFile, GraphFile], AnyTransducer]


@dataclass(frozen=True)
class EncoderFamily:
    """The families with one architecture.

    `recognises` decides by the metadata of a graph whether it is such an encoder. `layout` checks the graph and says
    how it is fed. `transducer` does the same with the other two graphs: it gets the encoder, its layout, the predictor
    and the joiner. None if there are only models with CTC. Both raise LayoutError.
    """

    architecture: Architecture
    recognises: Recognises
    layout: LayoutOf
    ctc: bool
    transducer: TransducerOf | None

    @property
    def families(self) -> tuple[Family, ...]:
        """Those that can be used."""
        searches = [SearchKind.CTC] * self.ctc + [SearchKind.TRANSDUCER] * (self.transducer is not None)
        return tuple(Family(self.architecture, search) for search in searches)
