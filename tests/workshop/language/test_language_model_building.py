"""Building a language model from archives and manifests, and mixtures of models."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.engine.language.language_model import LanguageModel
from tests.workshop.language.made_up_text import TRIPLES, assert_sums_to_one, mixed, random_text
from tests.workshop.language.text_folder import archive, make_texts
from workshop.data.corpus import CorpusError
from workshop.language import language_model_building
from workshop.language.language_model_building import Recipe, build
from workshop.language.ngrams import BITS, RESERVED


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Provide a folder of texts and a place for the model."""
    (tmp_path / "out").mkdir()
    return make_texts(tmp_path)


def recipe(texts: Path, archives: tuple[str, ...] = ("old.tar.xz",), dev: str = "dev.tsv", **changes: Any) -> Recipe:
    """Return the recipe for that folder."""
    return Recipe([texts / name for name in archives], texts / dev, **changes)


def test_a_model_that_the_engine_reads(texts: Path) -> None:
    """The engine reads the model, the ARPA file has the same, and the perplexities are those of the file."""
    told: list[str] = []
    output, arpa = texts / "out" / "language.safetensors", texts / "out" / "l.arpa"
    made_of = recipe(texts, ("old.tar.xz", "new.tar.xz"), train=texts / "train.tsv")
    build(made_of, output, arpa, told.append)
    assert any(line.startswith("perplexity, as written, other half (all): a ") for line in told)
    model = LanguageModel.load(output)
    assert model.words[:3] == RESERVED
    assert {"cat", "quokka"} <= set(model.words)
    assert arpa.read_text().startswith("\\data\\\nngram 1=")
    assert {path.name for path in output.parent.iterdir()} == {"language.safetensors", "l.arpa"}


def test_the_words_of_another_model_can_be_kept(texts: Path) -> None:
    """Words keep their numbers with other text, so that a model made for them still fits."""
    first, second = texts / "out" / "first.safetensors", texts / "out" / "second.safetensors"
    build(recipe(texts), first, None, print)
    other = recipe(texts, ("old.tar.xz", "new.tar.xz"), train=texts / "train.tsv", same_words=first)
    build(other, second, None, print)
    assert LanguageModel.load(second).vocabulary == LanguageModel.load(first).vocabulary
    assert second.read_bytes() != first.read_bytes()


@pytest.mark.parametrize(
    ("changes", "arpa", "reason"),
    [
        ({"archives": ("none.tar.xz",)}, None, "none.tar.xz is missing"),
        ({"archives": ("broken.tar.xz",)}, None, "broken.tar.xz is not a complete tar archive"),
        ({"archives": ("empty.tar.xz",)}, None, "empty.tar.xz contains no text"),
        ({"dev": "list.tsv"}, None, "is not a manifest of speech"),
        ({"dev": "none.tsv"}, None, "none.tsv is missing"),
        ({"vocabulary": 2}, None, "words, not 2"),
        ({"megabytes": 0}, None, "0 megabytes are too few"),
        ({}, "none/l.arpa", "none is not a folder"),
    ],
)
def test_odd_input_is_refused_and_leaves_the_old_file(
    texts: Path, changes: dict[str, Any], arpa: str | None, reason: str
) -> None:
    """Invalid input gives one clear sentence, and the former model stays."""
    old = texts / "out" / "language.safetensors"
    old.write_bytes(b"old")
    (texts / "broken.tar.xz").write_bytes((texts / "old.tar.xz").read_bytes()[:300])
    archive(texts / "empty.tar.xz", {})
    (texts / "list.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=reason):
        build(recipe(texts, **changes), old, texts / arpa if arpa else None, print)
    assert old.read_bytes() == b"old"
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_a_mixture_is_the_weighted_sum_where_anything_was_seen() -> None:
    """The mixture agrees with its parts at every n-gram that it has, and sums to one everywhere."""
    model, parts, weights = mixed()
    keys = (TRIPLES[:, 0].astype(np.int64) << 2 * BITS) | (TRIPLES[:, 1].astype(np.int64) << BITS) | TRIPLES[:, 2]
    held = np.isin(keys, model.trigrams)
    expected = sum(
        w * language_model_building.word_probabilities(part, TRIPLES) for w, part in zip(weights, parts, strict=True)
    )
    found = model.probabilities(TRIPLES)
    assert 0 < held.sum() < len(held)
    assert found[held] == pytest.approx(np.asarray(expected)[held])
    assert_sums_to_one(found)


def test_weights_are_found_again() -> None:
    """The weights of a mixture are found from rows that were drawn from it."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(30, 0.3), size=3)
    truth = np.array([0.6, 0.3, 0.1])
    drawn = rng.choice(30, size=20_000, p=truth @ parts)
    assert language_model_building.weigh(parts[:, drawn].T, np.ones(len(drawn))) == pytest.approx(truth, abs=0.03)
    heavy = np.where(drawn < 15, 1.0, 0.0)
    assert language_model_building.weigh(parts[:, drawn].T, heavy) == pytest.approx(
        language_model_building.weigh(parts[:, drawn[drawn < 15]].T, np.ones(int(heavy.sum())))
    )


def test_contexts_are_weighed_by_how_often_they_occur() -> None:
    """The share of a context is the weighted mean of its shares in the texts."""
    model, parts, weights = mixed()
    found = language_model_building.context_weights(parts, weights, model.bigrams)
    assert found.sum() == pytest.approx(1)
    text = random_text(0, 30).tolist()
    pairs = Counter(pair for pair in itertools.pairwise(text) if 2 not in pair)
    pair = 3 << BITS | 3
    own = language_model_building.context_weights(parts[:1], np.ones(1), model.bigrams)
    assert own[np.searchsorted(model.bigrams, pair)] == pytest.approx(pairs[3, 3] / sum(pairs.values()))
