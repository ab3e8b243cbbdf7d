"""The trie of pronunciations: look-ups, look-ahead scores, and damaged files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine import file_cache
from streamer.engine.language.lexicon import BASE, MOST_UNITS, NO_NODE, PARENT, ROOT, Lexicon, TrieTables, Worth
from streamer.engine.memory.footprint import footprint, resident
from streamer.engine.model_file import ModelFileError
from streamer.engine.waiting import finish


def spoken(seed: int, words: int = 300) -> list[tuple[int, tuple[int, ...]]]:
    """Return random pronunciations with homophones, prefixes of other words, and several per word."""
    dice = random.Random(seed)
    ways = {(word, tuple(dice.choices(range(2, 12), k=dice.randint(1, 6)))) for word in range(3, words + 3)}
    return sorted(ways | {(word, dice.choice(sorted(ways))[1]) for word in range(3, words, 7)})


def child(lexicon: Lexicon, here: int, unit: int) -> int:
    """Return the child of a node by this unit, or NO_NODE."""
    place = int(lexicon.base[here]) + unit
    return place if int(lexicon.parent[place]) == here else NO_NODE


def node(lexicon: Lexicon, units: tuple[int, ...]) -> int:
    """Return the node that these units lead to."""
    place = ROOT
    for unit in units:
        place = child(lexicon, place, unit)
    return place


def ending(lexicon: Lexicon, here: int) -> list[int]:
    """Return the words that end at a node, in their order."""
    words: list[int] = lexicon.words[lexicon.first[here] : lexicon.first[here + 1]].tolist()
    return words


@pytest.mark.parametrize("seed", range(3))
def test_every_pronunciation_leads_to_its_words(seed: int) -> None:
    """The units of a word lead to a node with the word and its homophones."""
    ways = spoken(seed)
    lexicon = Lexicon.build(ways, np.zeros(400))
    for _, units in ways:
        alike = {other for other, same in ways if same == units}
        assert set(ending(lexicon, node(lexicon, units))) == alike
    assert sorted(lexicon.pronunciations()) == sorted(set(ways))
    assert len(lexicon) == 1 + len({units[:size] for _, units in ways for size in range(1, len(units) + 1)})


def test_what_nobody_says_leads_nowhere() -> None:
    """Every node has children exactly for the units by which some word continues."""
    ways = spoken(0, words=60)
    lexicon = Lexicon.build(ways, np.zeros(100))
    for prefix in {units[:size] for _, units in ways for size in range(len(units))}:
        going_on = {
            units[len(prefix)] for _, units in ways if units[: len(prefix)] == prefix and len(units) > len(prefix)
        }
        here = node(lexicon, prefix)
        assert {unit for unit in range(40) if child(lexicon, here, unit) != NO_NODE} == going_on


def test_the_likeliest_word_ahead_is_known() -> None:
    """Every node has the best unigram of the words below it, and homophones come likeliest first."""
    ways = [(3, (2, 5)), (4, (2, 5)), (5, (2, 5, 6)), (6, (3,))]
    lexicon = Lexicon.build(ways, np.array([0.0, 0.0, 0.0, -4.0, -3.0, -2.0, -1.0]))
    assert lexicon.look_ahead[[ROOT, node(lexicon, (2,)), node(lexicon, (2, 5)), node(lexicon, (3,))]].tolist() == [
        -1.0,
        -2.0,
        -2.0,
        -1.0,
    ]
    assert ending(lexicon, node(lexicon, (2, 5))) == [4, 3]


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    """A saved lexicon loads the same, including the fingerprint of its vocabulary."""
    lexicon = Lexicon.build(spoken(1), np.random.default_rng(0).normal(size=400), "words of mine")
    lexicon.save(tmp_path / "lexicon.safetensors")
    again = Lexicon.load(tmp_path / "lexicon.safetensors")
    assert list(again.pronunciations()) == list(lexicon.pronunciations())
    assert np.array_equal(again.look_ahead, lexicon.look_ahead)
    assert again.vocabulary == "words of mine"
    assert [path.name for path in tmp_path.iterdir()] == ["lexicon.safetensors"]
    assert (tmp_path / "lexicon.safetensors").stat().st_mode & 0o044


def test_what_is_no_lexicon_is_refused(tmp_path: Path) -> None:
    """Missing files, other files, and words without a pronunciation are refused."""
    with pytest.raises(ModelFileError, match="build_lexicon"):
        Lexicon.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelFileError, match="cannot be read as a lexicon"):
        Lexicon.load(tmp_path / "text")
    for ways in ([], [(3, ())], [(3, (0,))], [(3, (99,))]):
        with pytest.raises(ValueError, match="pronunciation"):
            Lexicon.build(ways, np.zeros(10))


# The tables of the trie: the rows of the lexicon, then those of hotwords.

TOGETHER = 16  # streams with hotwords


def tables(lexicon: Lexicon) -> TrieTables:
    """Return the tables of this lexicon."""
    return TrieTables(lexicon, Worth(0.5, 0.25), np.linspace(-9, -1, 400, dtype=np.float32), 4, 1, TOGETHER)


def rows(found: TrieTables) -> list[NDArray[Any]]:
    """Return the rows of the lexicon."""
    nodes, words = found.arrays.shared, found._shared_words
    arrays = found.arrays
    return [
        arrays.table[:nodes],
        arrays.children[:nodes],
        arrays.ahead[:nodes],
        arrays.words[:words],
        arrays.likely[:words],
    ]


def test_processes_share_the_rows_of_the_lexicon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the same from the cache, and stay the same there while streams have hotwords."""
    lexicon = Lexicon.build(spoken(1), np.linspace(-9, -1, 400))
    own = tables(lexicon)
    assert not own._places
    monkeypatch.setattr(file_cache, "folders_for_files", lambda: [tmp_path])
    monkeypatch.setattr(file_cache, "LEAST", 0)
    monkeypatch.setattr("streamer.engine.language.lexicon._LEAST_GROWTH", 1)
    hotwords = Lexicon.build(spoken(2, 30), np.linspace(-9, -1, 400))
    numbers, worth = np.arange(400), np.ones(400)
    for _ in range(2):
        shared = tables(lexicon)
        assert all(place.path.is_relative_to(tmp_path) for place in shared._places.values())
        for slot in range(TOGETHER):
            roots = [finish(each.put(slot, hotwords, numbers, worth)) for each in (own, shared)]
            assert roots[0] == roots[1]
        assert footprint(shared.arrays).mapped >= sum(part.nbytes for part in rows(shared))
        for part, other in zip(rows(own), rows(shared), strict=True):
            assert np.array_equal(part, other)
        start, end = shared._areas[TOGETHER - 1]
        assert np.array_equal(own.arrays.table[start:end], shared.arrays.table[start:end])
        shared._extend(1000)
        assert np.array_equal(own.arrays.table[:end], shared.arrays.table[:end])
        own, shared.arrays.table[0] = tables(lexicon), -5  # not in the file


def test_each_node_has_the_units_of_its_children() -> None:
    """The bits of a node are the units that lead to its children, in the lexicon and in the trie of a stream."""
    lexicon, hotwords = (Lexicon.build(spoken(seed, 40), np.linspace(-9, -1, 400)) for seed in (4, 5))
    found = tables(lexicon)
    root = finish(found.put(3, hotwords, np.arange(400), np.ones(400)))
    start, end = found._areas[3]
    for trie, first, last in ((lexicon, 0, len(lexicon.base)), (hotwords, start, end)):
        bases, parents = found.arrays.table[first:last, BASE], found.arrays.table[first:last, PARENT]
        assert (bases[ROOT] == root) == (trie is hotwords)
        for node, bits in enumerate(found.arrays.children[first:last].tolist()):
            number = ROOT if node == ROOT else first + node
            own = bases[node] - first + np.arange(min(MOST_UNITS, len(bases) - (bases[node] - first)))
            units = [unit for unit, child in enumerate(own.tolist()) if parents[child] == number]
            assert bits == sum(1 << unit for unit in units)
    found.remove(3)
    assert not found.arrays.children[start:end].any()


def test_room_for_hotwords_takes_no_memory() -> None:
    """Tables for many streams take as much memory as the lexicon, while no stream has hotwords."""
    lexicon = Lexicon.build(spoken(3), np.linspace(-9, -1, 400))
    before = resident()["RssAnon"]
    found = TrieTables(lexicon, Worth(0.5, 0.25), np.zeros(400, np.float32), 4, 1, 64)
    assert found.hotword_bytes > 100 << 20
    assert resident()["RssAnon"] - before < 4 << 20
