"""Which folders of public models are used, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

from streamer.graphs.families.family import Architecture, Family, SearchKind
from streamer.graphs.model_folder import ModelFolderError, read_model_folder
from streamer.graphs.transducer import ContextTransducer
from streamer.testing.graphs.exact_icefall import TOKENS
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder, make_transducer_folder

ENCODER, DECODER = "encoder-epoch-1-avg-1.onnx", "decoder-epoch-1-avg-1.onnx"


def test_a_model_with_ctc(tmp_path: Path) -> None:
    """One graph, whose metadata gives the windows and the states."""
    public = read_model_folder(make_ctc_folder(tmp_path, chunk=64))
    assert public.family == Family(Architecture.ZIPFORMER2, SearchKind.CTC)
    assert (public.layout.window, public.layout.step, public.layout.frames) == (77, 64, 16)
    assert (public.tokens, public.blank) == (TOKENS, 0)
    assert len(public.layout.states) == 6 * 3 + 2


def test_a_transducer(tmp_path: Path) -> None:
    """Three graphs that fit each other."""
    public = read_model_folder(make_transducer_folder(tmp_path))
    assert public.family == Family(Architecture.ZIPFORMER2, SearchKind.TRANSDUCER)
    assert public.layout.ahead_samples == 2200
    assert isinstance(public.transducer, ContextTransducer)
    assert (public.transducer.context, public.transducer.vocabulary) == (2, len(TOKENS))


def test_full_numbers_are_preferred(tmp_path: Path) -> None:
    """Of a file in both kinds of numbers, the one with full numbers is used."""
    folder = make_transducer_folder(tmp_path)
    (folder / "encoder-epoch-1-avg-1.int8.onnx").write_bytes(b"not read")
    assert read_model_folder(folder).encoder.path.name == ENCODER


def _with_metadata(folder: Path, name: str, **values: str | None) -> None:
    model = onnx.load(str(folder / name))
    kept = {each.key: each.value for each in model.metadata_props} | values
    del model.metadata_props[:]
    helper.set_model_props(model, {key: value for key, value in kept.items() if value is not None})
    onnx.save(model, str(folder / name))


def _kind(kind: str | None) -> Callable[[Path], None]:
    return lambda folder: _with_metadata(folder, ENCODER, model_type=kind)


def _quantised(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        model = onnx.load(str(folder / name))
        model.graph.node.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]))
        onnx.save(model, str(folder / name))

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "tokens.txt").unlink(), r"tokens\.txt is missing"),
        (lambda folder: (folder / "tokens.txt").write_text("a 0\nb 1\n"), r"lacks 22 of the 24 tokens"),
        (lambda folder: (folder / "tokens.txt").write_text("a b c\n"), r"line 1: expected a token"),
        (lambda folder: (folder / DECODER).unlink(), r"is not complete: it has no decoder"),
        (lambda folder: (folder / ENCODER).write_bytes((folder / ENCODER).read_bytes()[:9000]), r"cut off"),
        (lambda folder: (folder / "encoder-chunk-64.onnx").write_bytes(b""), r"several files for the encoder"),
        (lambda folder: make_transducer_folder(folder, batch=1), r"exactly 1 stream at a time.*dynamic batch"),
        (_kind(None), r"does not say which kind of model it is"),
        (_kind("zipformer"), r"a Zipformer of the first version.*Zipformer-2 only"),
        (_kind("paraformer"), r"a Paraformer.*all be of one age.*would do"),
        (_kind("EncDecHybridRNNTCTCBPEModel"), r"a FastConformer of NeMo"),
        (lambda folder: _with_metadata(folder, ENCODER, T=None), r"has no T in its metadata"),
        (lambda folder: _with_metadata(folder, ENCODER, T="many"), r"must be positive numbers"),
        (lambda folder: _with_metadata(folder, ENCODER, T="39"), r"of the size 45, where its metadata says 39"),
        (lambda folder: _with_metadata(folder, ENCODER, encoder_dims="8"), r"has 1 numbers as encoder_dims"),
        (lambda folder: _with_metadata(folder, ENCODER, num_encoder_layers="1,1"), r"has 20 states that go in"),
        (lambda folder: _with_metadata(folder, ENCODER, feature="whisper"), r"needs 'whisper' features"),
        (lambda folder: _with_metadata(folder, DECODER, vocab_size="500"), r"belong to different models"),
        (lambda folder: _with_metadata(folder, DECODER, context_size="1"), r"of the size 2, where its metadata says 1"),
        (_quantised("joiner-epoch-1-avg-1.onnx"), r"joiner.*computes in int8 in a way that is not known here"),
        (_quantised(ENCODER), r"in int8 .* \(DynamicQuantizeLinear\): use the file without"),
        (lambda folder: (folder / "bpe.model").write_bytes(b"no pieces"), r"bpe\.model is cut off or does not have"),
    ],
)
def test_what_cannot_be_used(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with the folder, before any library computes it."""
    folder = make_transducer_folder(tmp_path)
    damage(folder)
    with pytest.raises(ModelFolderError, match=said):
        read_model_folder(folder)


def test_a_table_without_a_blank(tmp_path: Path) -> None:
    """A model with CTC needs to know its blank."""
    folder = make_ctc_folder(tmp_path)
    text = (folder / "tokens.txt").read_text(encoding="utf-8")
    (folder / "tokens.txt").write_text(text.replace("<blk>", "_"), encoding="utf-8")
    with pytest.raises(ModelFolderError, match="has no token <blk>"):
        read_model_folder(folder)


def test_frames_of_unknown_width(tmp_path: Path) -> None:
    """An export need not say how many numbers a frame of a transducer has; the joiner knows it."""
    folder = make_transducer_folder(tmp_path)
    model = onnx.load(str(folder / ENCODER))
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "unknown"
    onnx.save(model, str(folder / ENCODER))
    assert read_model_folder(folder).layout.units is None
