"""Reads the folder of a public model as its makers publish it, and checks all of it before its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.models.families import find_encoder
from streamer.models.layout import (
    FRAME_MS,
    MOST_TOKENS,
    AnyTransducer,
    EncoderFamily,
    EncoderLayout,
    Family,
    LayoutError,
    SearchKind,
)
from streamer.models.moonshine_folder import (
    MoonshineError,
    MoonshineFolder,
    holds_moonshine,
    read_moonshine_folder,
)
from streamer.models.onnx_file import GraphFile, GraphFileError, read_graph_file
from streamer.models.tokens import (
    BLANKS,
    TOKENS_FILE,
    PieceModel,
    PieceModelError,
    TokenTableError,
    blank_of,
    read_pieces,
    read_tokens,
)

_SUFFIX: Final = ".onnx"
_INT8: Final = ".int8.onnx"
_FILES: Final = "an encoder, a decoder and a joiner, or one model with CTC"


class ModelFolderError(ValueError):
    """The folder cannot be used as a model. The message is a sentence for the user, without its full stop."""


@dataclass(frozen=True)
class PublicModel:
    """A public model after the check of its folder.

    `transducer`: the other two graphs of a transducer. `pieces`: what divides text into tokens, if the folder has it.
    """

    family: Family
    encoder: GraphFile
    layout: EncoderLayout
    tokens: tuple[str, ...]
    blank: int
    transducer: AnyTransducer | None = None
    pieces: PieceModel | None = None

    @property
    def graphs(self) -> tuple[GraphFile, ...]:
        """All graphs of the model."""
        others = () if self.transducer is None else (self.transducer.predictor, self.transducer.joiner)
        return (self.encoder, *others)

    @property
    def one_by_one(self) -> bool:
        """Whether streams cannot be computed together, because the numbers of the encoder depend on the whole batch."""
        return bool(self.encoder.alone)

    @property
    def costs(self) -> tuple[str, ...]:
        """What makes the model cost more than others of its size: sentences for the user, without their full stops."""
        found = []
        around = self.layout.surroundings
        if around is not None:
            times, step = self.layout.times_computed, self.layout.step * FRAME_MS
            parts = f"{around.left * FRAME_MS} ms before a step of {step} ms and {around.right * FRAME_MS} ms after it"
            found.append(
                f"it has no caches, so it computes each moment {times:.3g} times: {parts} are computed with it"
            )
        for graph in self.graphs:
            if graph.alone:
                what = "stream" if graph is self.encoder else "token"
                rounding = f"{graph.path.name} rounds by the whole batch ({graph.alone})"
                found.append(f"{rounding}, so it computes one {what} at a time, and many cost as much as each alone")
        return tuple(found)


AnyModel = PublicModel | MoonshineFolder


def holds_graphs(folder: Path) -> bool:
    """Return whether this folder has the graphs of a public model. They may be incomplete."""
    return any(folder.glob(f"*{_SUFFIX}")) or holds_moonshine(folder)


def read_any_folder(folder: Path) -> AnyModel:
    """Read and check a folder of any family. ModelFolderError, which says what is wrong, if it cannot be used."""
    if not holds_moonshine(folder):
        return read_model_folder(folder)
    try:
        return read_moonshine_folder(folder)
    except MoonshineError as error:
        raise ModelFolderError(str(error)) from error


def read_model_folder(folder: Path) -> PublicModel:
    """Read and check a folder as sherpa-onnx publishes it. ModelFolderError says what is wrong with it."""
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
    family, layout = _check_encoder(graph, SearchKind.CTC)
    if layout.units is None:
        raise ModelFolderError(f"{graph.path} does not say how many tokens it knows")
    if layout.units > MOST_TOKENS:
        raise ModelFolderError(f"{graph.path} has {layout.units} tokens, and at most {MOST_TOKENS} are possible")
    tokens = read_tokens(folder / TOKENS_FILE, layout.units)
    blank = blank_of(tokens)
    if blank is None:
        raise ModelFolderError(f"{folder / TOKENS_FILE} has no token <blk>, which a model with CTC needs")
    kind = Family(family.architecture, SearchKind.CTC)
    return PublicModel(kind, graph, layout, tokens, blank, pieces=read_pieces(folder))


def _transducer(folder: Path, parts: Mapping[str, list[str]]) -> PublicModel:
    missing = [part for part, names in parts.items() if not names]
    if missing:
        if parts["encoder"]:  # a Paraformer has no joiner, so its own message says more than "no joiner"
            _find_encoder(read_graph_file(folder / _only(folder, "encoder", parts["encoder"])))
        raise ModelFolderError(f"{folder} is not complete: it has no {' and no '.join(missing)} ({_FILES} are needed)")
    encoder, decoder, joiner = (read_graph_file(folder / _only(folder, part, names)) for part, names in parts.items())
    family, layout = _check_encoder(encoder, SearchKind.TRANSDUCER)
    if family.transducer is None:
        raise ModelFolderError(f"{encoder.path} is no part of a transducer: {family.architecture.value} has none")
    try:
        transducer = family.transducer(encoder, layout, decoder, joiner)
    except LayoutError as error:
        raise ModelFolderError(f"{folder}: {error}") from error
    tokens = read_tokens(folder / TOKENS_FILE, transducer.vocabulary)
    if transducer.blank and tokens[transducer.blank] not in BLANKS:
        rule = f"must have {BLANKS[0]} as its last token, number {transducer.blank}"
        raise ModelFolderError(f"{folder / TOKENS_FILE} {rule}")
    kind = Family(family.architecture, SearchKind.TRANSDUCER)
    return PublicModel(kind, encoder, layout, tokens, transducer.blank, transducer, read_pieces(folder))


def _only(folder: Path, part: str, names: list[str]) -> str:
    """Return the file of this part, if possible with full numbers, because int8 is less exact."""
    full = [name for name in names if not name.endswith(_INT8)] or names
    if len(full) > 1:
        files = ", ".join(full)
        raise ModelFolderError(f"{folder} has several files for the {part} ({files}): leave only those of one model")
    return full[0]


def _find_encoder(graph: GraphFile) -> EncoderFamily:
    try:
        return find_encoder(graph)
    except LayoutError as error:
        raise ModelFolderError(f"{graph.path} {error}") from error


def _check_encoder(graph: GraphFile, search: SearchKind) -> tuple[EncoderFamily, EncoderLayout]:
    family = _find_encoder(graph)
    try:
        if search is SearchKind.CTC and not family.ctc:
            raise LayoutError(f"is no whole model: {family.architecture.value} has no models with CTC")
        return family, family.layout(graph, search)
    except LayoutError as error:
        raise ModelFolderError(f"{graph.path} {error}") from error
