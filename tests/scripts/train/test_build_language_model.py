"""Building the language model: text as it is spoken, Kneser-Ney against a dictionary, mixture, pruning, the script."""

from __future__ import annotations

import io
import itertools
import math
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from scripts.train import build_language_model
from streamer.engine.language.language_model import LanguageModel
from streamer.training.data.corpus import CorpusError
from streamer.training.language import kneser_ney, mixture
from streamer.training.language.backoff import BackOffModel
from streamer.training.language.counts import BITS, RESERVED, choose_vocabulary, count, with_sentence_marks
from streamer.training.language.kneser_ney import KneserNey
from streamer.training.language.pruning import losses, prune
from streamer.training.language.sources import SENTENCE_END, Ids, read_texts, read_transcripts
from streamer.training.language.text import sentences
from tests.project import SCRIPTS

SCRIPT = SCRIPTS / "train" / "build_language_model.py"
WORDS = [*RESERVED, *(f"w{number}" for number in range(6))]
Found = dict[tuple[int, ...], float]
TRIPLES = np.array(list(itertools.product(range(len(WORDS)), repeat=3)), dtype=np.int32)


def random_text(seed: int, number: int = 120) -> Ids:
    """Marked sentences of made-up words, some of them much likelier than others."""
    rng = np.random.default_rng(seed)
    lines = [rng.choice([0, 3, 4, 5, 6, 7, 8], size=rng.integers(1, 7), p=[0.02, 0.4, 0.2, 0.15, 0.1, 0.1, 0.03])
             for _ in range(number)]  # fmt: skip
    raw = np.concatenate([[*line, SENTENCE_END] for line in lines]).astype(np.int32)
    return with_sentence_marks(raw, np.arange(len(WORDS), dtype=np.int32))


def dictionary_model(text: Ids) -> Found:
    """Interpolated modified Kneser-Ney written down as the paper has it: P of each third word after the two before."""
    trigrams: Counter[tuple[int, ...]] = Counter()
    starts: Counter[tuple[int, ...]] = Counter()
    sentence: list[int] = []
    for word in text.tolist():
        sentence.append(word)
        if word == 2:
            trigrams.update(zip(sentence, sentence[1:], sentence[2:], strict=False))
            starts[tuple(sentence[:2])] += 1
            sentence = []
    bigrams = Counter({ngram[1:]: 0 for ngram in trigrams})
    bigrams.update(ngram[1:] for ngram in trigrams)
    bigrams.update(starts)
    unigrams = Counter(ngram[-1] for ngram in bigrams)

    def smoothed(
        counts: Counter[tuple[int, ...]], lower: dict[tuple[int, ...], float], order: int
    ) -> dict[tuple[int, ...], float]:
        discounts = kneser_ney.discount(np.array(list(counts.values())))
        totals: defaultdict[tuple[int, ...], int] = defaultdict(int)
        freed: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for ngram, seen in counts.items():
            totals[ngram[:-1]] += seen
            freed[ngram[:-1]] += discounts[min(seen, 3)]
        found = {}
        for ngram in itertools.product(range(len(WORDS)), repeat=order):
            context, seen, total = ngram[:-1], counts[ngram], totals[ngram[:-1]]
            gamma = freed[context] / total if total else 1.0
            direct = (seen - discounts[min(seen, 3)]) / total if seen else 0.0
            found[ngram] = direct + gamma * lower[ngram[1:]]
        return found

    one = smoothed(Counter({(word,): seen for word, seen in unigrams.items()}), {(): 1 / (len(WORDS) - 1)}, 1)
    one[(1,)] = 0.0
    return smoothed(trigrams, smoothed(bigrams, one, 2), 3)


def estimated(seed: int, number: int = 120) -> KneserNey:
    """The model of a made-up text."""
    return kneser_ney.estimate(count(random_text(seed, number)), len(WORDS))


def mixed(seeds: tuple[int, ...] = (0, 1, 2)) -> tuple[BackOffModel, list[KneserNey], np.ndarray]:
    """A mixture of made-up sources, its parts and their weights."""
    models = [estimated(seed, 30 * (seed + 1)) for seed in seeds]
    weights = np.arange(1.0, len(models) + 1) / sum(range(1, len(models) + 1))
    return mixture.mix(models, weights, WORDS), models, weights


def assert_sums_to_one(found: np.ndarray, tolerance: float = 1e-9) -> None:
    """After every context the probabilities of all words sum to one."""
    assert found.min() >= 0
    assert np.abs(found.reshape(-1, len(WORDS)).sum(axis=1) - 1).max() < tolerance


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("\u201cGood night,\u201d he said \u2014 \u2018Sir John!\u2019", ["good night he said sir john"]),
        ("Mr. and Mrs. Hall left. Dr. Who stayed.", ["mister and missus hall left", "doctor who stayed"]),
        ("It's the boys' o'clock, 'tis.", ["it's the boys' o'clock 'tis"]),
        ("In 1904 the 21st came.", ["in nineteen o four the twenty first came"]),
        ("1,250 men of the 1990s", ["one thousand two hundred and fifty men of the nineteen nineties"]),
        ("At 5:40 pm for $15.50 or 3.5%", ["at five forty p m for fifteen dollars fifty or three point five percent"]),
        ("470-231-3030 in the U.S.", ["four seven zero two three one three zero three zero in the u s"]),
        ("A naïve well-known café & 9mm", ["a naive well known cafe and <unk>"]),
        ("Yes! No? Perhaps... He went.", ["yes", "no", "perhaps", "he went"]),
        ("--- ***", []),
    ],
)  # fmt: skip
def test_text_becomes_what_a_reader_says(written: str, spoken: list[str]) -> None:
    """Signs, numbers and abbreviations become words, and sentences end where they end."""
    assert [" ".join(words) for words in sentences(written)] == spoken


def test_counts_are_those_of_a_counter() -> None:
    """Bigrams and trigrams are counted within sentences, and never across them."""
    found = count(random_text(5))
    pairs: Counter[int] = Counter()
    triples: Counter[int] = Counter()
    text = random_text(5).tolist()
    for first, second, third in zip(text, [*text[1:], 1], [*text[2:], 1, 1], strict=True):
        if first != 2:
            pairs[first << BITS | second] += 1
            if second != 2:
                triples[first << 2 * BITS | second << BITS | third] += 1
    assert dict(zip(found.bigrams.tolist(), found.bigram_counts.tolist(), strict=True)) == pairs
    assert dict(zip(found.trigrams.tolist(), found.trigram_counts.tolist(), strict=True)) == triples
    assert (np.diff(found.trigrams) > 0).all()


def test_discounts_are_those_of_the_paper() -> None:
    """Modified Kneser-Ney's discounts come from how many n-grams were seen once, twice, three and four times."""
    counts = np.repeat([1, 2, 3, 4, 9], [60, 20, 10, 5, 7])
    y = 60 / (60 + 2 * 20)
    expected = [0, 1 - 2 * y * 20 / 60, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10]
    assert kneser_ney.discount(counts) == pytest.approx(expected)
    assert kneser_ney.discount(np.array([7])) == pytest.approx([0, 0.5, 0.75, 0.75])


@pytest.mark.parametrize(("seed", "number"), [(0, 120), (1, 400), (2, 3)])
def test_kneser_ney_equals_a_dictionary(seed: int, number: int) -> None:
    """Every word after every context has the probability that a plain implementation gives, and they sum to one."""
    text = random_text(seed, number)
    found = mixture.probabilities(kneser_ney.estimate(count(text), len(WORDS)), TRIPLES)
    expected = dictionary_model(text)
    assert found == pytest.approx([expected[tuple(row)] for row in TRIPLES.tolist()], abs=1e-12)
    assert_sums_to_one(found)


def test_a_mixture_is_the_weighted_sum_where_anything_was_seen() -> None:
    """The single back-off model agrees with its parts at every n-gram that it holds, and sums to one everywhere."""
    model, parts, weights = mixed()
    keys = (TRIPLES[:, 0].astype(np.int64) << 2 * BITS) | (TRIPLES[:, 1].astype(np.int64) << BITS) | TRIPLES[:, 2]
    held = np.isin(keys, model.trigrams)
    expected = sum(w * mixture.probabilities(part, TRIPLES) for w, part in zip(weights, parts, strict=True))
    found = model.probabilities(TRIPLES)
    assert 0 < held.sum() < len(held)
    assert found[held] == pytest.approx(np.asarray(expected)[held])
    assert_sums_to_one(found)


def test_weights_are_found_again() -> None:
    """The weights under which rows were drawn from a mixture are the ones that make them likely."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(30, 0.3), size=3)
    truth = np.array([0.6, 0.3, 0.1])
    drawn = rng.choice(30, size=20_000, p=truth @ parts)
    assert mixture.weigh(parts[:, drawn].T, np.ones(len(drawn))) == pytest.approx(truth, abs=0.03)
    heavy = np.where(drawn < 15, 1.0, 0.0)
    assert mixture.weigh(parts[:, drawn].T, heavy) == pytest.approx(
        mixture.weigh(parts[:, drawn[drawn < 15]].T, np.ones(int(heavy.sum())))
    )


def test_contexts_are_weighed_by_how_often_they_occur() -> None:
    """The share of each pair of words as a context is the weighted mean of its shares in the texts."""
    model, parts, weights = mixed()
    found = mixture.context_weights(parts, weights, model.bigrams)
    assert found.sum() == pytest.approx(1)
    text = random_text(0, 30).tolist()
    pairs = Counter(pair for pair in itertools.pairwise(text) if 2 not in pair)
    pair = 3 << BITS | 3
    own = mixture.context_weights(parts[:1], np.ones(1), model.bigrams)
    assert own[np.searchsorted(model.bigrams, pair)] == pytest.approx(pairs[3, 3] / sum(pairs.values()))


def test_the_loss_of_an_ngram_is_the_divergence_that_it_causes() -> None:
    """What pruning thinks a trigram is worth equals the divergence between the models with and without it."""
    model, parts, weights = mixed()
    shares = mixture.context_weights(parts, weights, model.bigrams)
    found = losses(model.trigram, model.suffixes, model.contexts, shares)
    before = model.probabilities(TRIPLES)
    everything = np.ones(len(model.bigrams), dtype=bool)
    for dropped in range(0, len(model.trigrams), 7):
        kept = np.ones(len(model.trigrams), dtype=bool)
        kept[dropped] = False
        after = model.keeping(everything, kept).probabilities(TRIPLES)
        context = int(model.trigrams[dropped]) >> BITS
        rows = ((TRIPLES[:, 0].astype(np.int64) << BITS) | TRIPLES[:, 1]) == context
        rows &= before > 0
        divergence = (before[rows] * np.log(before[rows] / after[rows])).sum()
        assert found[dropped] == pytest.approx(shares[model.contexts[dropped]] * divergence, abs=1e-12)


def test_a_pruned_model_fits_and_holds_together() -> None:
    """Pruning keeps to the limit, keeps the contexts of what it keeps, and what is left still sums to one."""
    model, parts, weights = mixed()
    shares = mixture.context_weights(parts, weights, model.bigrams)
    sizes = []
    for limit in (10_000, 150, 60, 0):
        pruned = prune(model, shares, lambda bigrams, trigrams: bigrams + trigrams, limit)
        assert len(pruned.bigrams) + len(pruned.trigrams) <= limit
        assert np.isin(pruned.trigrams >> BITS, pruned.bigrams).all()
        assert_sums_to_one(pruned.probabilities(TRIPLES))
        sizes.append(len(pruned.bigrams) + len(pruned.trigrams))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == len(model.bigrams) + len(model.trigrams)
    assert sizes[1] > 120
    assert sizes[3] == 0


def test_the_arpa_lines_say_the_same() -> None:
    """Read back by the rules of the format, the lines give the model's probabilities."""
    model, _, _ = mixed()
    read: dict[tuple[str, ...], tuple[float, float]] = {}
    lines = list(model.arpa())
    for line in lines:
        parts = line.split("\t")
        if len(parts) > 1:
            read[tuple(parts[1].split())] = float(parts[0]), float(parts[2]) if len(parts) > 2 else 0.0
    orders = Counter(len(ngram) for ngram in read)
    assert lines[:4] == ["\\data\\", *(f"ngram {order}={orders[order]}" for order in (1, 2, 3))]
    assert lines[-1] == "\\end\\"

    def look_up(ngram: tuple[str, ...]) -> float:
        if ngram in read:
            return read[ngram][0]
        return read.get(ngram[:-1], (0.0, 0.0))[1] + look_up(ngram[1:])

    found = model.probabilities(TRIPLES)
    for row, value in zip(TRIPLES.tolist(), found, strict=True):
        if row[2] != 1:
            assert look_up(tuple(WORDS[number] for number in row)) == pytest.approx(math.log10(value), abs=5e-4)


def test_the_vocabulary_is_the_words_of_most_weight() -> None:
    """The likeliest words come first after the reserved ones; what has no weight is no word."""
    words = ["<unk>", "rare", "often", "never", "some"]
    weights = np.array([9.0, 0.1, 0.7, 0.0, 0.2])
    assert choose_vocabulary(words, weights, 5) == [*RESERVED, "often", "some"]
    assert choose_vocabulary(words, weights, 99) == [*RESERVED, "often", "some", "rare"]


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """A folder with two archives of text and manifests of train and dev."""
    rng = np.random.default_rng(0)
    names = ["cat", "dog", "man", "boy", "tree", "house", "road", "day"]
    verbs = ["sees", "likes", "finds", "leaves"]

    def lines(number: int) -> str:
        return "\n".join(f"The {rng.choice(names)} {rng.choice(verbs)} the {rng.choice(names)}." for _ in range(number))

    archive(tmp_path / "old.tar.xz", {
        "SOURCE.md": "zebra", "novels/A_1900.txt": lines(60).replace("\n", "\n\n"),
        "sgd_dialogue.txt": "A shared zebu.\n" + lines(20),
    })  # fmt: skip
    leak = "They walked for seven long days through the quiet old forest of home.\nStay with me."
    archive(tmp_path / "new.tar.xz", {"tatoeba.txt": lines(80) + "\n" + leak, "more.txt": "A new thing."})
    manifest(tmp_path / "train.tsv", [("a", "THE CAT LIKES THE ROAD"), ("b", "A QUOKKA")])
    manifest(tmp_path / "dev.tsv", [
        ("a", "THE DOG SEES THE MAN"), ("b", "STAY WITH ME"),
        ("a", "THE BOY LIKES A UNICORN"), ("b", "THE DAY FINDS THE ROAD"),
        ("a", "THE MAN SEES THE DAY"), ("b", "HE WALKED FOR SEVEN LONG DAYS THROUGH THE QUIET OLD WOOD"),
    ])  # fmt: skip
    return tmp_path


def archive(path: Path, files: dict[str, str]) -> None:
    """Write an archive of text files."""
    with tarfile.open(path, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            tar.addfile(member, io.BytesIO(content.encode()))


def manifest(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write a manifest of speech."""
    lines = ["shard\tmember\tseconds\tcorpus\tspeaker\ttext"]
    lines += [f"x.tar\t{number}.opus\t1.0\t{corpus}\ts\t{text}" for number, (corpus, text) in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_texts_are_read_by_source_without_dev(speech: Path) -> None:
    """Every file lands in its source, and no sentence that dev holds, or a long stretch of one, is learnt from."""
    archives = [speech / "old.tar.xz", speech / "new.tar.xz"]
    dev = read_transcripts(speech / "dev.tsv")
    texts = read_texts(archives, speech / "train.tsv", dev)
    assert set(texts.sources) == {"novels", "dialogue", "examples", "web", "transcripts"}
    assert {"quokka", "zebu", "thing"} <= set(texts.words)
    assert not {"zebra", "stay", "forest", "unicorn"} & set(texts.words)
    sentences_read = Counter(
        " ".join(texts.words[number] for number in sentence)
        for ids in texts.sources.values()
        for sentence in np.split(ids, np.flatnonzero(ids == SENTENCE_END) + 1)
    )
    assert not any(" ".join(reference.words) in sentences_read for reference in dev)
    assert texts.left_out >= 2
    free = read_texts(archives, None, dev, share_alike=False)
    assert set(free.sources) == {"novels", "examples", "web"}


def run(folder: Path, *arguments: str) -> list[str]:
    """The script's command line in that folder."""
    return [str(SCRIPT), *(str(folder / part) if "." in part else part for part in arguments)]


def test_the_script_writes_a_model_that_the_engine_reads(speech: Path) -> None:
    """From archives and manifests come a file for the engine and the same model as ARPA, with a report."""
    (speech / "out").mkdir()
    given = ["old.tar.xz", "new.tar.xz", "--train", "train.tsv", "--dev", "dev.tsv"]
    line = run(speech, *given, "--output", "out/language.safetensors", "--arpa", "out/l.arpa")
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "as written, other half (all): a " in done.stdout
    model = LanguageModel.load(speech / "out" / "language.safetensors")
    assert model.words[:3] == RESERVED
    assert {"cat", "quokka"} <= set(model.words)
    assert (speech / "out" / "l.arpa").read_text().startswith("\\data\\\nngram 1=")
    assert {path.name for path in (speech / "out").iterdir()} == {"language.safetensors", "l.arpa"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.tar.xz", "--dev", "dev.tsv"], "none.tar.xz is missing"),
        (["broken.tar.xz", "--dev", "dev.tsv"], "broken.tar.xz is not a whole tar archive"),
        (["empty.tar.xz", "--dev", "dev.tsv"], "empty.tar.xz holds no text"),
        (["old.tar.xz", "--dev", "list.tsv"], "no manifest of speech"),
        (["old.tar.xz", "--dev", "none.tsv"], "none.tsv is missing"),
        (["old.tar.xz", "--dev", "dev.tsv", "--vocabulary", "2"], "--vocabulary 2"),
        (["old.tar.xz", "--dev", "dev.tsv", "--megabytes", "0"], "--megabytes 0"),
        (["old.tar.xz", "--dev", "dev.tsv", "--arpa", "none/l.arpa"], "none is no folder"),
    ],
)
def test_odd_input_is_refused_and_leaves_the_old_file(
    speech: Path, arguments: list[str], reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One clear sentence and exit status 1, and a model that was there stays."""
    old = speech / "out" / "language.safetensors"
    old.parent.mkdir()
    old.write_bytes(b"old")
    (speech / "broken.tar.xz").write_bytes((speech / "old.tar.xz").read_bytes()[:300])
    archive(speech / "empty.tar.xz", {})
    (speech / "list.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", run(speech, *arguments, "--output", "out/language.safetensors"))
    assert build_language_model.main() == 1
    said = capsys.readouterr().err
    assert reason in said
    assert len(said.splitlines()) == 1
    assert old.read_bytes() == b"old"
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_a_manifest_without_text_is_refused(tmp_path: Path) -> None:
    """A manifest that lists nothing is an error, not an empty source."""
    manifest(tmp_path / "dev.tsv", [])
    with pytest.raises(CorpusError, match="holds no text"):
        read_transcripts(tmp_path / "dev.tsv")
