"""Recordings without text become given speech: sentences are looked up and scored, and only sure texts are kept."""

from __future__ import annotations

import math
import shutil
from itertools import product
from pathlib import Path

import pytest
import torch

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.search.search import HypothesisWord
from tests.engine.tiny_language import spelling
from tests.project import SAMPLES
from tests.samples import reference
from tests.workshop.data.given_folder import HEADER
from tests.workshop.search.clear_speech import WAYS, said
from workshop.acoustic.units import PHONE_NUMBER, PHONE_UNITS, collapse
from workshop.data.corpus import CorpusError, read_manifest
from workshop.labelling.labelling import (
    FOUND,
    HEARD,
    KnownSentences,
    Label,
    Sources,
    TextScores,
    Thresholds,
    choose,
    label,
    prepare_recordings,
    read_sentences,
)
from workshop.language.pronunciation import Pronunciations


def test_the_known_sentence_that_was_read_is_found(tmp_path: Path) -> None:
    """The sentence that was read is found among others, and no recording gets a text of dev."""
    (tmp_path / "clips" / "deep").mkdir(parents=True)
    shutil.copy(SAMPLES / "airplane.mp3", tmp_path / "clips" / "deep")
    (tmp_path / "clips" / "notes.txt").write_text("no recording")
    assert len(prepare_recordings(tmp_path / "clips", tmp_path / "work", "clips", 1)) == 1

    text = reference("airplane.mp3")
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(f"It was a dark night.\n{text}\nAn aeroplane was almost here.\n")
    dev = tmp_path / "dev.tsv"
    sources = Sources(asr_repository() / "streaming_asr" / "1", [sentences], dev, beam=32)
    told: list[str] = []

    dev.write_text(HEADER + "d.tar\tc.wav\t0.6\tx\ts2\tGOOD EVENING\n")
    places = tmp_path / "clips", tmp_path / "work", "clips", tmp_path / "more", sources
    [row] = label(*places, Thresholds(), told.append)
    assert (row.corpus, row.member, row.text) == ("clips_found", "deep/airplane.mp3", text.upper())
    assert read_manifest(tmp_path / "more" / "train.tsv") == [row]
    assert told[0] == "3 known sentences"
    assert told[-2].startswith("found: 1 recording,")

    dev.write_text(HEADER + f"d.tar\tc.wav\t0.6\tx\ts2\t{text.upper()}\n")
    rows = label(*places, Thresholds(), told.append)
    assert text.upper() not in [row.text for row in rows]


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    """The error lists the kinds of files that are looked for."""
    with pytest.raises(CorpusError, match=r"no recordings.*\.flac"):
        prepare_recordings(tmp_path, tmp_path / "work", "clips", 1)


LIMITS = Thresholds(found=((0.2, 0.2), (0.4, 0.5)), heard=0.6, fewest_words=3)


def words(text: str, *shares: float) -> list[HypothesisWord]:
    """Return recognised words with these shares."""
    return [HypothesisWord(word, 0, 1, 1.0, share) for word, share in zip(text.split(), shares, strict=True)]


@pytest.mark.parametrize(
    ("known", "taken"),
    [
        ({"it rains again": -1.1, "it is raining": -1.5}, True),
        ({"it rains again": -1.1, "it rained again": -1.2}, False),
        ({"it rains again": -1.3, "it is raining": -1.6}, False),
        ({"it rains again": -1.3, "it is raining": -1.9}, True),
        ({"it rains again": -1.5}, False),
        ({"it rains again": -1.0}, True),
        ({}, False),
    ],
)
def test_a_known_sentence_is_taken_if_it_fits_and_stands_out(known: dict[str, float], taken: bool) -> None:
    """A sentence may be slightly less likely than the recognised words, and must be likelier than others."""
    found = choose(words("it rains a gain", 1, 1, 0.2, 0.2), -1.0, known, LIMITS)
    assert found == (Label(FOUND, "it rains again") if taken else None)


@pytest.mark.parametrize(
    ("score", "shares", "taken"),
    [(-0.2, (1.0, 0.9, 0.6), True), (-0.2, (1.0, 0.9, 0.4), False), (-0.3, (1.0, 0.9, 0.6), False)],
)
def test_words_heard_are_taken_if_they_fit_and_are_sure(score: float, shares: tuple[float, ...], taken: bool) -> None:
    """Recognised words are not taken if they are unsure, or if their phones do not fit."""
    label = choose(words("it rains again", *shares), score, {}, LIMITS)
    assert label == (Label(HEARD, "it rains again") if taken else None)


def test_a_few_words_heard_are_not_taken() -> None:
    """Too few recognised words are not reliable."""
    assert choose(words("it rains", 1, 1), -0.1, {}, LIMITS) is None


SENTENCES = ["the cat sees the dog", "the dog sees the tree", "a quokka sees the dog and the cat", "no two are alike"]


def test_the_sentence_with_most_rare_words_heard_is_nearest() -> None:
    """Frequent words count little, and misrecognised words do no harm."""
    known = KnownSentences([*SENTENCES, SENTENCES[0]])
    assert len(known) == len(SENTENCES)
    assert known.nearest(["the", "quokka", "bees", "the", "dog"], 2)[0] == SENTENCES[2]
    assert known.nearest(["two", "are", "a", "like"], 9)[0] == SENTENCES[3]


def test_of_equal_matches_the_shorter_sentence_is_nearer() -> None:
    """Further words of a sentence, which were not recognised, count against it."""
    assert KnownSentences(["a cat and a quokka", "a cat"]).nearest(["cat"], 2) == ["a cat", "a cat and a quokka"]


def test_pairs_of_neighbouring_words_find_a_sentence_of_frequent_words() -> None:
    """Each word is in too many sentences, but the same two words seldom follow each other."""
    known = KnownSentences(["they have been seen", "have they been seen", "seen they have been"], most_sentences=2)
    assert known.nearest(["have", "they", "seen"], 2) == ["have they been seen"]
    assert known.nearest(["been", "have"], 2) == []


def test_a_word_said_twice_counts_once() -> None:
    """A sentence is not nearer because it repeats a word, and what was asked before does not matter."""
    known = KnownSentences(["well well", "well done"])
    assert [known.nearest(["done", "well", "done"], 1) for _ in range(2)] == [["well done"], ["well done"]]


def test_nothing_is_near_to_unknown_or_too_frequent_words() -> None:
    """Words that are in more sentences than the limit find none."""
    assert KnownSentences(SENTENCES).nearest(["zebra"], 3) == []
    assert KnownSentences(SENTENCES, most_sentences=2).nearest(["the"], 3) == []
    assert KnownSentences([]).nearest(["the"], 3) == []


def test_sentences_are_read_as_they_are_spoken(tmp_path: Path) -> None:
    """A line may have several sentences; numbers become words; short and unwanted sentences are left out."""
    path = tmp_path / "text.txt"
    path.write_text("It was 5 o'clock. Go on! “Nobody saw him.”\nStay with me, please.\n", encoding="utf-8")
    assert list(read_sentences([path], {"stay with me please"})) == ["it was five o'clock", "nobody saw him"]
    with pytest.raises(CorpusError, match="missing"):
        list(read_sentences([tmp_path / "none.txt"]))


@pytest.fixture
def scores() -> TextScores:
    """Return the scores of texts for words that are said clearly."""
    return TextScores(Pronunciations({word: [tuple(way.split())] for word, way in WAYS.items()}, spelling()))


def test_the_text_that_was_said_is_likeliest(scores: TextScores) -> None:
    """Texts with other, fewer or more words are less likely; a text that is too long is impossible."""
    found = scores.score(said("a cat").emissions, ["a cat", "a dog", "cat", "a cats", "cat cat cat cat"])
    assert found[0] == max(found)
    assert found[4] == -math.inf


def test_the_score_is_that_of_all_paths(scores: TextScores) -> None:
    """The score is the sum over all paths that stand for the text."""
    frames = 3
    emissions = torch.randn(frames, len(PHONE_UNITS), generator=torch.Generator().manual_seed(1)).log_softmax(1)
    units = [PHONE_NUMBER["AH"], PHONE_NUMBER["|"]]
    assert scores.units("a") == units
    paths = [path for path in product([0, *units], repeat=frames) if collapse(path) == units]
    expected = math.log(sum(math.exp(sum(emissions[t, unit].item() for t, unit in enumerate(path))) for path in paths))
    assert scores.score(emissions, ["a"])[0] == pytest.approx(expected / frames, abs=1e-5)
