"""Both forms of manifests, everything that can be wrong with them, and texts that are normalised."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import read_audio
from streamer.audio.recordings import AudioError
from streamer.commands import evaluate as arguments
from streamer.commands.accuracy.manifest import (
    HALVES,
    ManifestError,
    Utterance,
    half,
    normalise,
    read_manifest,
    select_utterances,
)
from tests.project import SAMPLES
from tests.samples import FILES

HEADER = "shard\tmember\tseconds\tcorpus\tspeaker\ttext"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A manifest with shards: three recordings in two tar shards, the first one twice."""
    for shard, names in (("a.tar", FILES[1:]), ("b.tar", FILES[1:2])):
        with tarfile.open(tmp_path / shard, "w") as archive:
            for name in names:
                archive.add(SAMPLES / name, name)
    manifest = tmp_path / "dev.tsv"
    manifest.write_text(
        f"{HEADER}\n"
        "a.tar\tquilter.ogg\t5.9\tlibri\t1272\tMISTER QUILTER'S\n"
        "a.tar\tairplane.mp3\t3.1\tvoice\tunknown\tTHE AIRPLANE\n"
        "b.tar\tquilter.ogg\t5.9\tlibri\t1272\tMISTER QUILTER\n"
    )
    return manifest


def test_files_beside_the_manifest() -> None:
    """With audio files, `source` is the corpus, and a speaker called unknown is none."""
    utterances = read_manifest(SAMPLES / "samples.tsv")
    assert [utterance.name for utterance in utterances] == list(FILES)
    assert [utterance.corpus for utterance in utterances] == ["LibriSpeech dev-clean"] * 2 + ["Common Voice"]
    assert [utterance.speaker for utterance in utterances] == ["2035", "1272", None]
    assert " ".join(utterances[2].words) == "the airplane rose gracefully into the sky"


def test_files_inside_shards(shards: Path) -> None:
    """With shards the audio is the same as from a file, and names are those that alignments use."""
    utterances = read_manifest(shards)
    assert [utterance.name for utterance in utterances] == ["a/quilter.ogg", "a/airplane.mp3", "b/quilter.ogg"]
    assert [(utterance.corpus, utterance.speaker) for utterance in utterances[:2]] == [
        ("libri", "1272"),
        ("voice", None),
    ]
    assert utterances[0].words == ("mister", "quilter's")
    for utterance, name in zip(utterances, ("quilter.ogg", "airplane.mp3", "quilter.ogg"), strict=True):
        assert np.array_equal(utterance.samples(), read_audio(SAMPLES / name))


def test_a_bare_manifest_is_a_corpus_of_its_own(tmp_path: Path) -> None:
    """Without a column for the corpus it has the name of the manifest; a byte order mark is ignored."""
    (tmp_path / "mine.tsv").write_text(f"\ufefftext\tfile\nhello\t{SAMPLES / FILES[0]}\n", encoding="utf-8")
    [utterance] = read_manifest(tmp_path / "mine.tsv")
    assert (utterance.corpus, utterance.speaker, utterance.words) == ("mine", None, ("hello",))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        (f"{HEADER}\n", "lists no recording"),
        (
            "path\twords\nx\ty\n",
            "the first line must name the columns, with tabs between them: file and text, or shard, member and text.",
        ),
        ("file,text\nx.wav,y\n", "the first line must name"),
        ("file\ttext\ttext\nx\ty\tz\n", "text twice"),
        ("file\ttext\nquilter.ogg\n", "line 2 has 1 columns, the header has 2"),
        ("file\ttext\n\nquilter.ogg\tyes\n", "line 2 is empty"),
        ("file\ttext\nquilter.ogg\t-\n", "has no words"),
        ("file\ttext\nquilter.ogg\ta\nquilter.ogg\tb\n", "line 3: quilter.ogg was listed before"),
        ("file\ttext\nmissing.wav\ta\n", "there is no such file"),
        ("file\ttext\n.\ta\n", "is a folder"),
        (f"{HEADER}\nno.tar\tx.ogg\t1\tc\ts\tA\n", "the shard"),
        (f"{HEADER}\ndev.tsv\tx.ogg\t1\tc\ts\tA\n", "is not a plain tar file"),
        (f"{HEADER}\na.tar\tx.ogg\t1\tc\ts\tA\n", "holds no x.ogg"),
    ],
)
def test_a_bad_manifest_is_one_sentence(shards: Path, content: str, words: str) -> None:
    """An error names the manifest, and the line if there is one."""
    (shards.parent / "quilter.ogg").write_bytes((SAMPLES / "quilter.ogg").read_bytes())
    shards.write_text(content)
    with pytest.raises(ManifestError) as error:
        read_manifest(shards)
    assert words in str(error.value)
    assert str(shards) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_text_is_no_manifest() -> None:
    """A recording, a folder or a missing file instead of a manifest is refused."""
    for path, words in (
        (SAMPLES / FILES[0], "not a table in UTF-8"),
        (SAMPLES, "cannot be read"),
        (Path("no"), "cannot be"),
    ):
        with pytest.raises(ManifestError, match=words):
            read_manifest(path)


def test_a_damaged_member_is_named(shards: Path) -> None:
    """Damaged audio in a shard is reported when it is read, by its own name."""
    damaged = shards.parent / "notes.ogg"
    damaged.write_text("no sound at all")
    with tarfile.open(shards.parent / "a.tar", "w") as archive:
        archive.add(damaged, "notes.ogg")
    shards.write_text(f"{HEADER}\na.tar\tnotes.ogg\t1\tc\ts\tA\n")
    [utterance] = read_manifest(shards)
    with pytest.raises(AudioError, match=r"^a/notes\.ogg cannot be read as audio"):
        utterance.samples()


def test_a_limit_takes_evenly_of_all_corpora(shards: Path) -> None:
    """A limit always selects the same utterances, in proportion to the corpora."""
    location = read_manifest(shards)[0].location
    many = [Utterance(str(number), "ab"[number % 4 == 0], None, ("x",), location) for number in range(400)]
    some = select_utterances(many, limit=40)
    assert some == select_utterances(many, limit=40)
    assert Counter(utterance.corpus for utterance in some) == {"a": 30, "b": 10}
    assert len({utterance.name for utterance in some}) == 40
    assert select_utterances(many, limit=1000) == many


def test_corpora_by_name(shards: Path) -> None:
    """Only the named corpora are selected; an unknown one is refused with a list of the known ones."""
    utterances = read_manifest(shards)
    assert [utterance.corpus for utterance in select_utterances(utterances, ["voice"])] == ["voice"]
    assert select_utterances(utterances, ["voice", "libri"]) == utterances
    with pytest.raises(ManifestError, match="no corpus 'x'; known are libri, voice"):
        select_utterances(utterances, ["x"])


def test_halves_go_by_the_name(shards: Path) -> None:
    """Every recording is always in the same half, whatever else the manifest has."""
    names = [f"a/{number}.ogg" for number in range(1000)]
    assert 450 < sum(half(name) == "first" for name in names) < 550
    assert [half(name) for name in names[:4]] == ["first", "second", "second", "first"]
    assert HALVES == arguments.HALVES
    utterances = read_manifest(shards)
    found = [
        set(select_utterances(utterances, part=name))
        for name in HALVES
        if any(half(u.name) == name for u in utterances)
    ]
    assert set.union(*found) == set(utterances)
    assert sum(map(len, found)) == len(utterances)
    [one] = utterances[:1]
    [other] = set(HALVES) - {half(one.name)}
    with pytest.raises(ManifestError, match=f"no recording falls into the {other} half"):
        select_utterances([one], part=other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MISTER QUILTER'S MANNER", ["mister", "quilter's", "manner"]),
        ("Well - yes, well-known; (no?) \u2026 Fine.", ["well", "yes", "well", "known", "no", "fine"]),
        ("the dogs' tails 'tis 'em", ["the", "dogs'", "tails", "'tis", "'em"]),
        ("say 'hello' and '' go", ["say", "hello", "and", "go"]),
        ("don\u2019t won\u2018t can\u00b4t", ["don't", "won't", "can't"]),
        ("Room 42, 3.5 percent", ["room", "42", "3", "5", "percent"]),
        ("caf\u00e9 cafe\u0301 _na\u00efve_", ["caf\u00e9", "caf\u00e9", "na\u00efve"]),
        ("他说“你好”， 2024年 ＯＫ", ["他", "说", "你", "好", "2024", "年", "ok"]),
        ("\t. - ' \n", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    """Text becomes lower case, apostrophes of words and digits stay, other punctuation becomes a space."""
    assert normalise(text) == words


def test_it_does_not_change_its_own_result() -> None:
    """Normalised text does not change."""
    words = normalise("It's THE dogs' 2nd caf\u00e9, isn't it?")
    assert normalise(" ".join(words)) == words


def test_a_text_is_its_parts() -> None:
    """Normalising word by word gives the same as normalising the whole text."""
    text = "Well-known 'tis 3.5, the 'quoted' dogs'"
    assert [word for part in text.split() for word in normalise(part)] == normalise(text)
