"""Recognises the folder of a public model as sherpa-onnx publishes it, and checks it completely before its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from streamer.graphs.layout import EncoderLayout, LayoutError
from streamer.graphs.onnx_file import GraphFile, GraphFileError, read_graph_file
from streamer.graphs.piece_model import PieceModel, PieceModelError, read_pieces
from streamer.graphs.token_table import TOKENS_FILE, TokenTableError, blank_of, read_tokens
from streamer.graphs.transducer import Transducer, transducer_of
from streamer.graphs.zipformer2 import MODEL_TYPE, zipformer2_layout

_SUFFIX: Final = ".onnx"
_INT8: Final = ".int8.onnx"
_ALONE: Final = "its streams must all be of one age, so it cannot serve several that begin at different times"
_LATER: Final = "so far Streamer computes Zipformer-2 only"
# What `model_type` may be, and why such a model cannot be used.
_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "zipformer": ("a Zipformer of the first version", _LATER),
    "conformer": ("a Conformer", _LATER),
    "lstm": ("an LSTM transducer", _LATER),
    "ebranchformer": ("an E-Branchformer", _LATER),
    "t-one": ("T-one", _LATER),
    "wenet_ctc": ("a model of WeNet", f"{_ALONE}; a Zipformer-2 of the same language would do"),
    "paraformer": ("a Paraformer", f"{_ALONE}; a Zipformer-2 of the same language would do"),
}
_FILES: Final = "an encoder, a decoder and a joiner, or one model with CTC"


class ModelFolderError(ValueError):
    """The folder cannot be used as a model. The message is a sentence for the user, without its full stop."""


class Family(Enum):
    """The kinds of public models that can be used."""

    CTC = "Zipformer-2 with CTC"
    TRANSDUCER = "Zipformer-2 transducer"


@dataclass(frozen=True)
class PublicModel:
    """A public model that was checked.

    `transducer` has the other two graphs of a transducer, `pieces` what divides texts into tokens, if that is known.
    """

    family: Family
    encoder: GraphFile
    layout: EncoderLayout
    tokens: tuple[str, ...]
    blank: int
    transducer: Transducer | None = None
    pieces: PieceModel | None = None


def holds_graphs(folder: Path) -> bool:
    """Whether this is a folder with ONNX graphs, complete or not."""
    return any(folder.glob(f"*{_SUFFIX}"))


def read_model_folder(folder: Path) -> PublicModel:
    """Read and check a folder. ModelFolderError says what is wrong with it."""
    if not folder.is_dir():
        raise ModelFolderError(f"{folder} is not a folder")
    graphs = sorted(path.name for path in folder.glob(f"*{_SUFFIX}"))
    if not graphs:
        raise ModelFolderError(f"{folder} is not the folder of a public model: it has no file *{_SUFFIX}")
    parts = {part: [name for name in graphs if name.startswith(part)] for part in ("encoder", "decoder", "joiner")}
    try:
        if any(parts.values()):
            return _transducer(folder, parts)
        return _ctc(folder, graphs)
    except (GraphFileError, PieceModelError, TokenTableError) as error:
        raise ModelFolderError(str(error)) from error


def _ctc(folder: Path, graphs: list[str]) -> PublicModel:
    graph = read_graph_file(folder / _only(folder, "model", graphs))
    layout = _layout(graph)
    if layout.units is None:
        raise ModelFolderError(f"{graph.path} does not say how many tokens it knows")
    tokens = read_tokens(folder / TOKENS_FILE, layout.units)
    blank = blank_of(tokens)
    if blank is None:
        raise ModelFolderError(f"{folder / TOKENS_FILE} has no token <blk>, which a model with CTC needs")
    return PublicModel(Family.CTC, graph, layout, tokens, blank, pieces=read_pieces(folder))


def _transducer(folder: Path, parts: Mapping[str, list[str]]) -> PublicModel:
    missing = [part for part, names in parts.items() if not names]
    if missing:
        raise ModelFolderError(f"{folder} is not complete: it has no {' and no '.join(missing)} ({_FILES} are needed)")
    encoder, decoder, joiner = (read_graph_file(folder / _only(folder, part, names)) for part, names in parts.items())
    layout = _layout(encoder)
    try:
        found = transducer_of(decoder, joiner, layout.units)
    except LayoutError as error:
        raise ModelFolderError(f"{folder}: {error}") from error
    tokens = read_tokens(folder / TOKENS_FILE, found.vocabulary)
    return PublicModel(Family.TRANSDUCER, encoder, layout, tokens, 0, found, read_pieces(folder))


def _only(folder: Path, part: str, names: list[str]) -> str:
    """The file of this part. One with full numbers is preferred: one in int8 is less exact, and not faster here."""
    full = [name for name in names if not name.endswith(_INT8)] or names
    if len(full) > 1:
        listed = ", ".join(full)
        raise ModelFolderError(f"{folder} has several files for the {part} ({listed}): leave only those of one model")
    return full[0]


def _layout(graph: GraphFile) -> EncoderLayout:
    kind = graph.metadata.get("model_type")
    if kind is None:
        raise ModelFolderError(
            f"{graph.path} does not say which kind of model it is (no model_type in its metadata): it is not a "
            "streaming model of sherpa-onnx"
        )
    if kind != MODEL_TYPE:
        named, why = _OTHERS.get(kind, (f"a model of the type {kind[:80]!r}", _LATER))
        if kind.startswith("EncDec"):
            named = "a FastConformer of NeMo"
        raise ModelFolderError(f"{graph.path} is {named}, which cannot be used: {why}")
    try:
        return zipformer2_layout(graph)
    except LayoutError as error:
        raise ModelFolderError(f"{graph.path} {error}") from error
