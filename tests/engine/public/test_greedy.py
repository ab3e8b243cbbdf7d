"""A recogniser with a FastConformer of NeMo: languages, company, and its searches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from streamer.base.events import Final, Partial, StreamEvent
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.models.model_folder import ModelFolderError
from workshop.graphs.comparison import random_sound
from workshop.graphs.exact_icefall import GraphBuilder
from workshop.graphs.exact_nemo import make_nemo_ctc_folder, make_nemo_folder, make_nemotron_folder

Sound = np.ndarray[tuple[int], np.dtype[np.int16]]


@pytest.fixture(scope="module")
def nemotron(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    return load_public_model(make_nemotron_folder(tmp_path_factory.mktemp("nemotron")), name="exact", slots=3)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    return load_public_model(make_nemo_folder(tmp_path_factory.mktemp("plain")), name="exact", slots=3)


@pytest.fixture(scope="module")
def sound() -> Sound:
    return random_sound(np.random.default_rng(5), 3)


def _options(recogniser: Recogniser, **given: object) -> StreamOptions:
    return StreamOptions.from_dict(given, recogniser.model.step_ms, list(recogniser.searches))


def _together(recogniser: Recogniser, sounds: dict[str, Sound], **given: object) -> dict[str, list[StreamEvent]]:
    """Return the events of streams in these languages, computed in one batch, each a step later than the one before."""
    numbers = {name: number for number, name in enumerate(sounds)}
    for name, number in numbers.items():
        recogniser.open(number, _options(recogniser, language=name, **given))
    found: dict[str, list[StreamEvent]] = {name: [] for name in sounds}
    for turn in range(30):
        chunks, names = [], []
        for name, sound in sounds.items():
            at = (turn - 3 * numbers[name]) * 4000
            if 0 <= at < len(sound) + 4000:
                chunks.append(Chunk(numbers[name], sound[at : at + 4000], end=at >= len(sound)))
                names.append(name)
        for place, answer in recogniser.step(chunks):
            assert not isinstance(answer, StreamError), answer
            found[names[place]] += [event for event in answer if isinstance(event, (Partial, Final))]
    return found


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_languages_in_one_batch(nemotron: Recogniser, sound: Sound, search: str) -> None:
    """Streams of several languages and ages have the same words as each alone, in slots that others have used."""
    alone = {name: _together(nemotron, {name: sound}, search=search)[name] for name in ("auto", "de-DE", "ja-JP")}
    assert len({str(events) for events in alone.values()}) == 3
    assert _together(nemotron, dict.fromkeys(("ja-JP", "auto", "de-DE"), sound), search=search) == alone


@pytest.mark.parametrize(("given", "same"), [("DE_de", "de-DE"), ("de", "de-DE"), ("en", "en-GB"), ("AUTO", "auto")])
def test_names_of_a_language(given: str, same: str, nemotron: Recogniser, sound: Sound) -> None:
    """Case and the kind of dash do not matter; without a region, the first one is meant."""
    assert _together(nemotron, {given: sound})[given] == _together(nemotron, {same: sound})[same]


def test_languages_that_a_model_lacks(nemotron: Recogniser, plain: Recogniser) -> None:
    """The error lists the languages that the model has. A model without a choice takes `auto` and English."""
    with pytest.raises(StreamError, match="has no language 'nl'; it has auto, de-DE, en-GB, en-US, ja-JP"):
        nemotron.open(1, _options(nemotron, language="nl"))
    with pytest.raises(StreamError, match=r"no choice of languages: leave out 'language' \(de\)"):
        plain.open(1, _options(plain, language="de"))
    for language in ("auto", "en", "en_US", "English"):
        plain.open(1, _options(plain, language=language))


def test_frames_of_80_ms(plain: Recogniser, sound: Sound) -> None:
    """Words have the times of their frames, which are twice as long as those of other models."""
    events = _together(plain, {"auto": sound})["auto"]
    times = [word.start_ms for event in events if isinstance(event, Final) for word in event.words or ()]
    assert times
    assert times == sorted(times)
    assert {time % 80 for time in times} == {0}
    assert 1500 < times[-1] < 3000


@pytest.mark.parametrize("make", [make_nemo_ctc_folder, partial(make_nemo_folder, exact=False)])
def test_a_beam_and_hotwords(make: Callable[[Path], Path], tmp_path: Path, sound: Sound) -> None:
    """Models with CTC and transducers have a beam, whose words may be preferred, and several texts of a segment."""
    recogniser = load_public_model(make(tmp_path), name="exact", slots=1)
    assert _options(recogniser).search == "greedy"
    assert _options(recogniser, hotwords=["AH"]).search == "beam"
    texts = []
    for given in ({}, {"search": "beam"}, {"hotwords": ["AH", "BK"]}, {"search": "beam", "alternatives": 3}):
        recogniser.open(1, _options(recogniser, **given))
        [(_, events)] = recogniser.step([Chunk(1, sound, end=True)])
        assert not isinstance(events, StreamError)
        finals = [event for event in events if isinstance(event, Final)]
        texts.append(" ".join(event.text for event in finals))
    assert all(texts)
    assert len(texts[0].split()) > 2
    assert texts[1] == texts[3]
    assert max(len(event.alternatives or ()) for event in finals) > 1


def test_graphs_in_int8(tmp_path: Path, sound: Sound) -> None:
    """Graphs in int8 with all kinds of nodes of Nemotron give each stream the same results in any batch."""
    folder = make_nemotron_folder(tmp_path)
    for path in list(folder.glob("*.onnx")):
        quantize_dynamic(path, path.with_suffix(".int8.onnx"), weight_type=QuantType.QUInt8)
        path.unlink()
    recogniser = load_public_model(folder, name="int8", slots=2)
    alone = {name: _together(recogniser, {name: sound})[name] for name in ("de-DE", "ja-JP")}
    assert any(alone.values())
    assert _together(recogniser, dict.fromkeys(("ja-JP", "de-DE"), sound)) == alone


def test_a_predictor_for_one_stream(tmp_path: Path) -> None:
    """A graph with a fixed size of the batch inside is refused, and the message names the file."""
    folder = make_nemo_folder(tmp_path)
    builder = GraphBuilder(0)
    ports = [builder.input(name, ("N", 1)[:axes], 6) for name, axes in (("targets", 2), ("length", 1))]
    states = [builder.input(name, (2, "N", 12)) for name in ("h", "c")]
    row = builder.node("Reshape", builder.node("Cast", ports[0], to=1), builder.constant([1, 1, 1], np.int64))
    builder.output(builder.node("Add", row, builder.constant(np.zeros((1, 12, 1)))), "outputs", ("N", 12, 1))
    builder.output(ports[1], "lengths", ("N",), 6)
    for name, state in zip(("hn", "cn"), states, strict=True):
        builder.output(state, name, (2, "N", 12))
    builder.save(folder / "decoder.onnx", {})
    with pytest.raises(ModelFolderError, match=r"decoder\.onnx cannot compute several streams at a time"):
        load_public_model(folder, name="fixed", slots=2)
