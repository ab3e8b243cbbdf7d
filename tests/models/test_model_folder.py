"""Which folders of public models are used, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

from streamer.models.layout import (
    WINDOW_FILE,
    Architecture,
    ContextTransducer,
    Family,
    Features,
    Given,
    SearchKind,
    Surroundings,
)
from streamer.models.model_folder import ModelFolderError, read_model_folder
from streamer.models.onnx_file import ElementType
from workshop.graphs.exact_icefall import (
    TOKENS,
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_transducer_folder,
    make_whole_icefall_ctc_folder,
    make_whole_icefall_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import make_t_one_folder

ENCODER, DECODER = "encoder-epoch-1-avg-1.onnx", "decoder-epoch-1-avg-1.onnx"
MODEL = "model.onnx"


def test_a_model_with_ctc(tmp_path: Path) -> None:
    """One graph, whose metadata gives the windows and the states."""
    public = read_model_folder(make_ctc_folder(tmp_path, chunk=64))
    assert public.family == Family(Architecture.ZIPFORMER2, SearchKind.CTC)
    assert (public.layout.window, public.layout.step, public.layout.frames) == (77, 64, 16)
    assert (public.tokens, public.blank) == (TOKENS, 0)
    assert len(public.layout.states) == 6 * 3 + 2


def test_a_transducer(tmp_path: Path) -> None:
    """A transducer has three graphs that fit together."""
    public = read_model_folder(make_transducer_folder(tmp_path))
    assert public.family == Family(Architecture.ZIPFORMER2, SearchKind.TRANSDUCER)
    assert public.layout.ahead_samples == 2200
    assert isinstance(public.transducer, ContextTransducer)
    assert (public.transducer.context, public.transducer.vocabulary) == (2, len(TOKENS))


def test_a_zipformer_of_the_first_version(tmp_path: Path) -> None:
    """The states of a Zipformer are grouped by kind, and some of them count whole numbers."""
    public = read_model_folder(make_zipformer_folder(tmp_path))
    assert public.family == Family(Architecture.ZIPFORMER, SearchKind.TRANSDUCER)
    assert public.layout.ahead_samples == 38 * 160 + 280 - 5120
    assert [port.axis for port in public.layout.states] == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]
    assert public.layout.states[1].input.type is ElementType.INT64
    assert public.layout.states[7].shape == (2, 8, 1, 2)


def test_an_lstm(tmp_path: Path) -> None:
    """The steps of an LSTM are as long as a frame."""
    layout = read_model_folder(make_lstm_folder(tmp_path)).layout
    assert (layout.step_samples, layout.frames, layout.ahead_samples) == (640, 1, 920)
    assert [(port.shape, port.axis) for port in layout.states] == [((3, 1, 8), 1), ((3, 1, 12), 1)]


def test_a_conformer(tmp_path: Path) -> None:
    """A Conformer takes the age of each stream, which is no state."""
    layout = read_model_folder(make_conformer_folder(tmp_path)).layout
    assert (layout.window, layout.step, layout.frames) == (75, 64, 16)
    assert [(port.shape, port.axis) for port in layout.states] == [((2, 8, 1, 12), 2), ((2, 4, 1, 12), 2)]
    assert [(port.name, given) for port, given in layout.given] == [("processed_lens", Given.AGE)]


def test_t_one(tmp_path: Path) -> None:
    """T-one takes samples at 8 kHz; its state is one row in half precision, its blank the last token."""
    public = read_model_folder(make_t_one_folder(tmp_path))
    assert public.family == Family(Architecture.T_ONE, SearchKind.CTC)
    assert public.layout.features is Features.TELEPHONE
    assert (public.layout.step_samples, public.layout.frames) == (4800, 10)
    assert public.layout.state_bytes == 80
    assert (public.blank, public.tokens[22]) == (23, " ")


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


@pytest.mark.parametrize("kind", ["zipformer2", "zipformer", "conformer"])
def test_a_transducer_for_whole_utterances(kind: str, tmp_path: Path) -> None:
    """Without states, it is computed by windows, each by itself; its search is that of the same family with states."""
    public = read_model_folder(make_whole_icefall_folder(tmp_path, kind=kind))
    assert public.family == Family(Architecture.WHOLE_ICEFALL, SearchKind.TRANSDUCER)
    layout = public.layout
    assert (layout.window, layout.step, layout.frames, layout.times_computed) == (784, 112, 28, 7)
    assert layout.surroundings == Surroundings(560, 112, alone=True)
    assert layout.given == ((public.encoder.inputs[1], Given.WINDOW),)
    assert isinstance(public.transducer, ContextTransducer)
    assert "so it computes each moment 7 times" in public.costs[0]
    (tmp_path / WINDOW_FILE).write_text('{"left": 2, "step": 0.5, "right": 0.1}')
    assert read_model_folder(tmp_path).layout.surroundings == Surroundings(200, 8, alone=True)


def test_ctc_for_whole_utterances(tmp_path: Path) -> None:
    """The type in the metadata says that a single graph has CTC."""
    public = read_model_folder(make_whole_icefall_ctc_folder(tmp_path))
    assert public.family.title == "Whole-utterance icefall with CTC"
    assert (public.layout.units, public.tokens, public.blank) == (len(TOKENS), TOKENS, 0)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_kind("zipformer2_ctc"), r"encoder.*onnx is a model with CTC, and no encoder"),
        (lambda folder: _with_metadata(folder, ENCODER, feature="whisper"), r"needs 'whisper' features"),
        (lambda folder: _with_metadata(folder, ENCODER, T="45"), r"has no decode_chunk_len|has no num_encoder_layers"),
        (lambda folder: (folder / WINDOW_FILE).write_text('{"right": 0}'), r"needs at least 80 ms after a step, not 0"),
        (lambda folder: (folder / DECODER).unlink(), r"is not complete: it has no decoder"),
        (lambda folder: _without_lengths(folder), r"has 1 inputs and 2 outputs, not those of an export for whole"),
        (lambda folder: _as_ctc(folder), r"is the encoder of a transducer, and no model with CTC"),
    ],
)
def test_whole_utterances_that_cannot_be_used(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with such a folder."""
    damage(make_whole_icefall_folder(tmp_path))
    with pytest.raises(ModelFolderError, match=said):
        read_model_folder(tmp_path)


def _without_lengths(folder: Path) -> None:
    model = onnx.load(str(folder / ENCODER))
    del model.graph.input[1]
    onnx.save(model, str(folder / ENCODER))


def _as_ctc(folder: Path) -> None:
    (folder / ENCODER).rename(folder / MODEL)
    for path in (folder / DECODER, folder / "joiner-epoch-1-avg-1.onnx"):
        path.unlink()


@pytest.mark.parametrize(("name", "what"), [(ENCODER, "stream"), ("joiner-epoch-1-avg-1.onnx", "token")])
def test_rounding_by_the_whole_batch(name: str, what: str, tmp_path: Path) -> None:
    """A graph in int8 that cannot be rewritten is used, one stream at a time. What that costs is said."""
    folder = make_transducer_folder(tmp_path)
    model = onnx.load(str(folder / name))
    model.graph.node.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]))
    onnx.save(model, str(folder / name))
    public = read_model_folder(folder)
    assert public.one_by_one == (what == "stream")
    [cost] = public.costs
    assert cost == (
        f"{name} rounds by the whole batch (DynamicQuantizeLinear), so it computes one {what} at a time, and many cost "
        "as much as each alone"
    )


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
        (_kind("zipformer"), r"has no attention_dims in its metadata"),
        (_kind("ebranchformer"), r"an E-Branchformer.*Zipformer-2.*would do"),
        (_kind("paraformer"), r"a Paraformer.*all be of one age.*would do"),
        (_kind("EncDecHybridRNNTCTCBPEModel"), r"has no subsampling_factor in its metadata"),
        (lambda folder: _with_metadata(folder, ENCODER, T=None), r"has no T in its metadata"),
        (lambda folder: _with_metadata(folder, ENCODER, T="many"), r"must be positive numbers"),
        (lambda folder: _with_metadata(folder, ENCODER, T="39"), r"of the size 45, where its metadata says 39"),
        (lambda folder: _with_metadata(folder, ENCODER, encoder_dims="8"), r"has 1 numbers as encoder_dims"),
        (lambda folder: _with_metadata(folder, ENCODER, num_encoder_layers="1,1"), r"has 20 states that go in"),
        (lambda folder: _with_metadata(folder, ENCODER, feature="whisper"), r"needs 'whisper' features"),
        (lambda folder: _with_metadata(folder, DECODER, vocab_size="500"), r"belong to different models"),
        (lambda folder: _with_metadata(folder, DECODER, context_size="1"), r"of the size 2, where its metadata says 1"),
        (lambda folder: (folder / "bpe.model").write_bytes(b"no pieces"), r"bpe\.model is cut off or does not have"),
    ],
)
def test_what_cannot_be_used(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with the folder, before any library computes it."""
    folder = make_transducer_folder(tmp_path)
    damage(folder)
    with pytest.raises(ModelFolderError, match=said):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("make", "name", "values", "said"),
    [
        (make_zipformer_folder, ENCODER, {"left_context_len": "16,9"}, r"cached_key_1 of the size 8, .* says 9"),
        (make_zipformer_folder, ENCODER, {"attention_dims": "6"}, r"has 1 numbers as attention_dims .* but 2 stacks"),
        (make_zipformer_folder, ENCODER, {"decode_chunk_len": "30"}, r"windows of 39 frames every 30 frames"),
        (make_lstm_folder, ENCODER, {"rnn_hidden_size": None}, r"has no rnn_hidden_size in its metadata"),
        (make_lstm_folder, ENCODER, {"T": "13"}, r"which is impossible for such a model"),
        (make_lstm_folder, ENCODER, {"num_encoder_layers": "1,2"}, r"which must be one number"),
        (make_conformer_folder, ENCODER, {"cnn_module_kernel": "7"}, r"cached_conv of the size 4, .* says 6"),
        (make_conformer_folder, ENCODER, {"model_type": "lstm"}, r"has no d_model"),
        (make_t_one_folder, MODEL, {"sample_rate": "16000"}, r"takes 16000 samples a second, not 8000"),
        (make_t_one_folder, MODEL, {"frame_length_ms": "250"}, r"no whole frames of 30 ms"),
        (make_t_one_folder, MODEL, {"frame_length_ms": "600"}, r"signal of the size 2400, .* says 4800"),
        (make_t_one_folder, MODEL, {"state_dim": "41"}, r"state of the size 40, .* says 41"),
    ],
)
def test_other_families_that_cannot_be_used(
    make: Callable[[Path], Path], name: str, values: dict[str, str | None], said: str, tmp_path: Path
) -> None:
    """The metadata of every family must fit its graph, and the sentence names the file."""
    folder = make(tmp_path)
    _with_metadata(folder, name, **values)
    with pytest.raises(ModelFolderError, match=rf"{name} .*{said}"):
        read_model_folder(folder)


@pytest.mark.parametrize("make", [make_zipformer_folder, make_lstm_folder, make_conformer_folder, make_t_one_folder])
def test_graphs_for_one_stream(make: Callable[..., Path], tmp_path: Path) -> None:
    """A graph that computes one stream at a time cannot be used."""
    with pytest.raises(ModelFolderError, match=r"exactly 1 stream at a time.*dynamic batch"):
        read_model_folder(make(tmp_path, batch=1))


def test_a_paraformer(tmp_path: Path) -> None:
    """A Paraformer has no joiner, but the message says that it is a Paraformer."""
    folder = make_lstm_folder(tmp_path)
    (folder / "joiner-epoch-1-avg-1.onnx").unlink()
    with pytest.raises(ModelFolderError, match="is not complete: it has no joiner"):
        read_model_folder(folder)
    _kind("paraformer")(folder)
    with pytest.raises(ModelFolderError, match=r"a Paraformer.*all be of one age.*would do"):
        read_model_folder(folder)


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    """There is no T-one with a decoder, and no LSTM with CTC."""
    folder = make_lstm_folder(tmp_path)
    make_t_one_folder(tmp_path)
    (folder / MODEL).rename(folder / ENCODER)
    with pytest.raises(ModelFolderError, match=r"no part of a transducer: T-one has none"):
        read_model_folder(folder)
    for path in make_lstm_folder(tmp_path).glob("*.onnx"):
        path.rename(folder / MODEL) if path.name == ENCODER else path.unlink()
    with pytest.raises(ModelFolderError, match=r"LSTM has no models with CTC"):
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
