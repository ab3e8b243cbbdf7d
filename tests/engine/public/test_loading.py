"""A recogniser with a public model: windows that overlap, states in slots, greedy searches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import quantize_dynamic

from streamer.base.events import Final, Heard, Partial, StreamEvent
from streamer.base.text import is_spaceless
from streamer.engine.adapters.held_requests import Precedence
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import BadOptions, StreamOptions
from streamer.models.layout import WINDOW_FILE
from streamer.models.model_folder import ModelFolderError
from tests.engine.public.byte_characters import STANDS_FOR
from workshop.graphs.comparison import random_sound
from workshop.graphs.exact_icefall import (
    TOKENS,
    make_conformer_folder,
    make_ctc_folder,
    make_int8_folder,
    make_lstm_folder,
    make_transducer_folder,
    make_whole_icefall_ctc_folder,
    make_whole_icefall_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import (
    SIZES,
    make_nemo_folder,
    make_t_one_folder,
    make_whole_ctc_folder,
    make_whole_folder,
)

Make = Callable[[Path], Path]
Sound = np.ndarray[tuple[int], np.dtype[np.int16]]
OPTIONS = StreamOptions(search="greedy", written=True)
NOTHING = np.zeros(0, dtype=np.int16)


@pytest.fixture(
    params=[
        make_ctc_folder,
        partial(make_transducer_folder, exact=False),
        partial(make_nemo_folder, seed=1, chunk=32, exact=False),
    ],
    ids=["CTC", "transducer", "transducer of NeMo"],
)
def recogniser(request: pytest.FixtureRequest, tmp_path: Path) -> Recogniser:
    make: Make = request.param
    return load_public_model(make(tmp_path), name="exact", slots=3)


@pytest.fixture(params=["greedy", "beam", "hotwords"])
def options(request: pytest.FixtureRequest) -> StreamOptions:
    if request.param == "hotwords":
        return replace(OPTIONS, search="beam", hotwords=(Hotword("AH B"), Hotword("EO", 3.0), Hotword("CST")))
    return replace(OPTIONS, search=request.param)


def _heard(recogniser: Recogniser, chunks: list[Chunk]) -> dict[int, list[StreamEvent]]:
    found: dict[int, list[StreamEvent]] = {}
    for index, answer in recogniser.step(chunks):
        assert not isinstance(answer, StreamError), answer
        found[chunks[index].stream] = [event for event in answer if not isinstance(event, Heard)]
    return found


def _alone(recogniser: Recogniser, sound: Sound, length: int, options: StreamOptions) -> list[StreamEvent]:
    recogniser.open(9, options)
    events = []
    for at in range(0, len(sound), length):
        events += _heard(recogniser, [Chunk(9, sound[at : at + length])])[9]
    return events + _heard(recogniser, [Chunk(9, NOTHING, end=True)])[9]


def test_any_chunking(recogniser: Recogniser, options: StreamOptions) -> None:
    """The events do not depend on the division of the audio, even in a slot that another stream has used."""
    sound = random_sound(np.random.default_rng(1), 5)
    expected = _alone(recogniser, sound, len(sound), options)
    assert sum(isinstance(event, Final) for event in expected) >= 2
    assert _alone(recogniser, sound, 7001, options) == expected
    assert _alone(recogniser, sound, 999, options) == expected


def test_any_company(recogniser: Recogniser, options: StreamOptions) -> None:
    """Streams of different ages in one batch have the events that each has alone."""
    random = np.random.default_rng(2)
    sounds = [random_sound(random, seconds) for seconds in (4, 3, 2)]
    expected = [_alone(recogniser, sound, 5000, options) for sound in sounds]
    found: dict[int, list[StreamEvent]] = {stream: [] for stream in range(3)}
    for turn in range(20):
        chunks = []
        for stream, sound in enumerate(sounds):
            at = (turn - 2 * stream) * 5000
            if at == 0:
                recogniser.open(stream, options)
            if 0 <= at < len(sound) + 5000:
                chunks.append(Chunk(stream, sound[at : at + 5000], end=at >= len(sound)))
        for stream, events in _heard(recogniser, chunks).items():
            found[stream] += events
    assert list(found.values()) == expected


def test_several_threads(recogniser: Recogniser, options: StreamOptions) -> None:
    """Streams whose batches are computed at the same time have the events that each has alone."""
    random = np.random.default_rng(5)
    sounds = [random_sound(random, 4) for _ in range(3)]
    expected = [_alone(recogniser, sound, 5000, options) for sound in sounds]
    assert recogniser.concurrent
    precedence, together = Precedence(), Barrier(3)
    recogniser.meanwhile(precedence.meanwhile)

    def heard(stream: int) -> list[StreamEvent]:
        with precedence.step():
            recogniser.open(stream, options)
        together.wait(60)
        events = []
        for at in range(0, len(sounds[stream]) + 5000, 5000):
            with precedence.step():
                chunk = Chunk(stream, sounds[stream][at : at + 5000], end=at >= len(sounds[stream]))
                events += _heard(recogniser, [chunk])[stream]
        return events

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(heard, range(3))) == expected


def test_times_of_words(recogniser: Recogniser, options: StreamOptions) -> None:
    """Words have times within the audio, in order; what is said to be stable never changes."""
    sound = random_sound(np.random.default_rng(3), 6)
    stable, segment = "", 0
    last = 0
    for event in _alone(recogniser, sound, 3200, options):
        if getattr(event, "segment", segment) != segment:
            stable, segment = "", segment + 1
        if isinstance(event, (Partial, Final)):
            assert event.text.startswith(stable)
        if isinstance(event, Partial):
            stable = event.text[: event.stable]
        if isinstance(event, Final):
            assert event.words
            for word in event.words:
                assert last <= word.start_ms <= word.end_ms <= 6000
                assert word.confidence is not None
                assert 0 < word.confidence <= 1
                last = word.start_ms


def _make_short_windows(folder: Path) -> Path:
    return make_whole_ctc_folder(_with_short_windows(folder))


def _with_short_windows(folder: Path) -> Path:
    (folder / WINDOW_FILE).write_text('{"left": 1.6, "step": 0.32, "right": 0.16}')
    return folder


@pytest.mark.parametrize(
    "make",
    [
        make_zipformer_folder,
        make_lstm_folder,
        make_conformer_folder,
        make_t_one_folder,
        _make_short_windows,
        partial(make_whole_folder, durations=5),
        lambda folder: make_whole_icefall_ctc_folder(_with_short_windows(folder)),
        lambda folder: make_whole_icefall_folder(_with_short_windows(folder), seed=1),
    ],
)
def test_other_families(make: Make, tmp_path: Path) -> None:
    """Models of other families have the same properties as a Zipformer-2."""
    recogniser = load_public_model(make(tmp_path), name="exact", slots=3)
    options = replace(OPTIONS, step_ms=recogniser.model.step_ms[0])
    test_any_chunking(recogniser, options)
    test_any_company(recogniser, options)
    test_times_of_words(recogniser, options)


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize(
    "make",
    [
        partial(make_whole_folder, normalised=True, sizes=SIZES, exact=False),
        lambda folder: make_whole_icefall_folder(_with_short_windows(folder), exact=False),
    ],
    ids=["NeMo", "icefall"],
)
def test_windows_of_a_transducer(make: Make, search: str, tmp_path: Path) -> None:
    """Streams of different ages have windows of different lengths, and the same events as each alone."""
    recogniser = load_public_model(make(tmp_path), name="exact", slots=3)
    options = replace(OPTIONS, step_ms=recogniser.model.step_ms[0], search=search)
    test_any_company(recogniser, options)
    test_times_of_words(recogniser, options)


def test_a_beam_with_durations(tmp_path: Path) -> None:
    """A joiner that knows durations has only the greedy search, and the message says so."""
    recogniser = load_public_model(make_whole_folder(tmp_path, durations=5), name="exact", slots=1)
    assert list(recogniser.searches) == ["greedy"]
    with pytest.raises(BadOptions, match="search must be greedy, not beam; this model has no other"):
        _options(recogniser, {"search": "beam"})
    with pytest.raises(StreamError, match="has only a greedy search, which does not support hotwords"):
        recogniser.open(1, _options(recogniser, {"hotwords": ["AH"]}))


def test_int8_that_cannot_be_rewritten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Graphs that round by the whole batch are computed for one stream at a time, so company changes nothing."""
    recogniser = load_public_model(make_int8_folder(tmp_path), name="int8", slots=3)
    assert "encoder-epoch-1-avg-1.onnx rounds by the whole batch (" in caplog.text
    for search in ("greedy", "beam"):
        test_any_company(recogniser, replace(OPTIONS, search=search))


def test_tokens_with_commands_for_a_terminal(tmp_path: Path) -> None:
    """Whatever stands in the table of tokens, a transcript has none of it that a terminal obeys."""
    tokens = [token if token.startswith("<") else f"{token}\x1b]52;c;QQ==\x07\x9b31m\u202e" for token in TOKENS]
    hostile = load_public_model(make_ctc_folder(tmp_path, tokens=tokens), name="exact", slots=3)
    events = _alone(hostile, random_sound(np.random.default_rng(3), 6), 3200, OPTIONS)
    texts = [event.text for event in events if isinstance(event, (Partial, Final))]
    assert any("]52;c;QQ==" in text for text in texts)
    assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("size", [20, 30])
def test_a_graph_that_does_not_do_what_it_says(size: int, tmp_path: Path) -> None:
    """A graph with scores for other tokens than it says is refused when it is loaded, and not when somebody speaks."""
    folder = make_ctc_folder(tmp_path)
    model = onnx.load(str(folder / "model.onnx"))
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = size
    onnx.save(model, str(folder / "model.onnx"))
    (folder / "tokens.txt").write_text("<blk> 0\n" + "".join(f"{number} {number}\n" for number in range(1, size)))
    with pytest.raises(ModelFolderError, match=rf"gave frames of 24 numbers, not {size}"):
        load_public_model(folder, name="exact", slots=3)


def test_a_graph_that_cannot_be_computed(tmp_path: Path) -> None:
    """The sentence can be printed, although it quotes a name from the graph."""
    folder = make_ctc_folder(tmp_path)
    model = onnx.load(str(folder / "model.onnx"))
    model.graph.node.append(helper.make_node("Nothing", [model.graph.input[0].name], ["y"], name="\x1b]0;title\x07"))
    onnx.save(model, str(folder / "model.onnx"))
    with pytest.raises(ModelFolderError, match=r"model\.onnx is not accepted by onnxruntime: .*Nothing") as refusal:
        load_public_model(folder, name="exact", slots=3)
    assert str(refusal.value).isprintable()


def _options(recogniser: Recogniser, given: dict[str, object]) -> StreamOptions:
    return StreamOptions.from_dict(given, recogniser.model.step_ms, list(recogniser.searches))


def test_the_search_of_a_stream(recogniser: Recogniser) -> None:
    """A stream that does not choose gets the greedy search, or the beam if it has hotwords."""
    assert _options(recogniser, {}).search == "greedy"
    assert _options(recogniser, {"hotwords": ["Ada"]}).search == "beam"
    assert _options(recogniser, {"search": "beam"}).search == "beam"
    with pytest.raises(BadOptions, match="search must be one of greedy, beam, not best"):
        _options(recogniser, {"search": "best"})


def test_hotwords_that_cannot_be_used(recogniser: Recogniser) -> None:
    """The greedy search takes no hotwords, and the beam only those that the model has tokens for."""
    with pytest.raises(StreamError, match="the greedy search does not support hotwords: leave out 'search'"):
        recogniser.open(1, _options(recogniser, {"search": "greedy", "hotwords": ["AH"]}))
    with pytest.raises(StreamError, match="hotword 'ah é': the model has no tokens for 'É'"):
        recogniser.open(1, _options(recogniser, {"hotwords": ["ah é"]}))
    recogniser.open(1, _options(recogniser, {"hotwords": ["ah!"]}))


def test_a_model_in_int8(tmp_path: Path) -> None:
    """A model in int8 is computed in full numbers, so streams of different ages have the same events as each alone."""
    folder = make_transducer_folder(tmp_path, exact=False)
    for path in list(folder.glob("*.onnx")):
        if not path.name.startswith("decoder"):
            quantize_dynamic(path, path.with_suffix(".int8.onnx"), op_types_to_quantize=["MatMul"])
            path.unlink()
    recogniser = load_public_model(folder, name="int8", slots=3)
    test_any_company(recogniser, replace(OPTIONS, search="beam"))


def test_pieces_of_bytes(tmp_path: Path) -> None:
    """A character in several tokens is never shown in part, and stable text stays."""
    three = "你好界".encode()
    parts = [bytes([byte]) for byte in sorted(set(three))]
    parts += [three[at : at + length] for length in (2, 3, 4) for at in range(4)]
    pieces = ["".join(STANDS_FOR[byte] for byte in part) for part in [b" a", *parts]][:21]
    assert len(set(pieces)) == 21
    folder = make_ctc_folder(tmp_path, tokens=("<blk>", "<sos/eos>", "<unk>", *pieces))
    recogniser = load_public_model(folder, name="exact", slots=1)
    events = _alone(recogniser, random_sound(np.random.default_rng(4), 8), 3200, OPTIONS)
    shown = [event for event in events if isinstance(event, (Partial, Final))]
    assert set("a你好 ") <= set("".join(event.text for event in shown))
    # Some bytes together are other Chinese characters, but none are a sign for what cannot be read.
    assert all(character in "a " or is_spaceless(character) for event in shown for character in event.text)
    stable = ""
    for event in shown:
        assert event.text.startswith(stable)
        stable = event.text[: event.stable] if isinstance(event, Partial) else ""
