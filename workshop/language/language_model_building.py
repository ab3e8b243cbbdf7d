"""Builds the language model from text: a mixture of Kneser-Ney trigrams, with weights found on dev, pruned to a size.

Sentences of dev are never used for training. The weights of the sources are found on every second utterance of dev.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamer.base.text import counted
from streamer.engine.language.language_model import LanguageModel, NgramArrays
from workshop.data.corpus import CorpusError, replacing
from workshop.language import ngrams
from workshop.language.ngrams import (
    BITS,
    END_ID,
    MASK,
    START_ID,
    BackOffModel,
    Floats,
    Keys,
    KneserNey,
    choose_vocabulary,
    count,
    look_up,
    prune,
    with_sentence_marks,
)
from workshop.language.text_sources import Ids, Reference, Texts, read_texts, read_transcripts

# All sources together are one more source of the mixture, because small sources alone have too little text.
EVERYTHING = "everything"
LEAST_WEIGHT = 0.001  # a source with less weight is left out
HEADER = 8192  # bytes of the file outside the tables


@dataclass(frozen=True)
class Recipe:
    """The sources of a language model, and its largest size."""

    archives: Sequence[Path]  # of text files
    dev: Path  # a manifest; the weights are found and evaluated on its texts
    train: Path | None = None  # a manifest; its transcripts are one more source
    vocabulary: int = 100_000  # words at most
    megabytes: float = 25.0  # of the file at most
    share_alike: bool = True  # whether texts under such licences are used
    same_words: Path | None = None  # a language model whose words it gets


def build(recipe: Recipe, output: Path, arpa: Path | None, tell: Callable[[str], None]) -> None:
    """Read, estimate, mix, prune and write; also as ARPA if `arpa` is given. Reports the result of each step."""
    if not 3 < recipe.vocabulary <= MASK:
        raise CorpusError(f"the vocabulary must have 4 to {MASK} words, not {recipe.vocabulary}")
    references = read_transcripts(recipe.dev)
    for path in (output, arpa):
        if path and not path.parent.is_dir():
            raise CorpusError(f"{path.parent} is not a folder, so {path.name} cannot be written there")
    texts = read_texts(recipe.archives, recipe.train, references, share_alike=recipe.share_alike)
    for name, ids in texts.sources.items():
        tell(f"{name}: {np.count_nonzero(ids >= 0)} words in {np.count_nonzero(ids < 0)} sentences")
    tell(f"{counted(texts.left_out, 'sentence')} left out: dev has the whole or a long stretch")

    if recipe.same_words:
        vocabulary = list(LanguageModel.load(recipe.same_words).words)
    else:
        vocabulary = find_vocabulary(texts, references, recipe.vocabulary)
    dev = HeldOutText.number(references, vocabulary)
    for number, corpus in enumerate(dev.corpora):
        unknown = 1 - dev.known[(dev.corpus == number) & (dev.tokens[:, 2] != END_ID)].mean()
        tell(f"words of {corpus} outside the vocabulary: {100 * unknown:.2f} %")

    limit = int(recipe.megabytes * 1e6) - HEADER
    if limit < LanguageModel.size(vocabulary, 0, 0):
        raise CorpusError(f"{recipe.megabytes:g} megabytes are too few for {len(vocabulary)} words")
    model = estimate(texts, vocabulary, dev, tell)
    pruned = prune(model.whole, model.contexts, lambda *numbers: LanguageModel.size(vocabulary, *numbers), limit)
    tell(f"pruned to {len(pruned.bigrams)} bigrams and {len(pruned.trigrams)} trigrams")
    tell(dev.perplexities("pruned", pruned.probabilities(dev.tokens)))
    write(pruned, output, arpa)
    scores = LanguageModel.load(output).score(dev.tokens[:, :2], dev.tokens[:, 2])
    tell(dev.perplexities("as written", np.exp(scores.astype(np.float64))))
    tell(f"{output}: {output.stat().st_size / 1e6:.1f} MB, {len(vocabulary)} words")


@dataclass(frozen=True)
class Estimate:
    """The unpruned model, and how often each of its bigrams is a context."""

    whole: BackOffModel
    contexts: Floats


def find_vocabulary(texts: Texts, references: list[Reference], size: int) -> list[str]:
    """Return the likeliest words of a mixture of the sources, with the weights that fit dev's half for tuning."""
    counts = [np.bincount(ids[ids >= 0], minlength=len(texts.words)) for ids in texts.sources.values()]
    counts.append(np.sum(counts, axis=0))
    shares = np.stack([numbers / numbers.sum() for numbers in counts])
    dev = HeldOutText.number(references, texts.words)
    smoothed = shares[:, dev.tokens[:, 2]].T + 1e-8
    return choose_vocabulary(texts.words, dev.weigh(smoothed) @ shares, size)


def estimate(texts: Texts, vocabulary: list[str], dev: HeldOutText, tell: Callable[[str], None]) -> Estimate:
    """Estimate the mixture of the models of all sources."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    renumbered = np.array([numbers.get(word, 0) for word in texts.words] + [0], dtype=np.int32)
    marked = {name: with_sentence_marks(ids, renumbered) for name, ids in texts.sources.items()}
    marked[EVERYTHING] = np.concatenate(list(marked.values()))
    models = {name: ngrams.estimate(count(text), len(vocabulary)) for name, text in marked.items()}
    probabilities = np.stack([word_probabilities(model, dev.tokens) for model in models.values()], axis=1)
    tell(dev.perplexities("all text as one", probabilities[:, -1]))
    weights = dev.weigh(probabilities)
    used = {name: weight for name, weight in zip(models, weights, strict=True) if weight >= LEAST_WEIGHT}
    tell("weights: " + ", ".join(f"{name} {weight:.3f}" for name, weight in used.items()))
    mixed = [models[name] for name in used]
    weights = np.array(list(used.values())) / sum(used.values())
    whole = mix(mixed, weights, vocabulary)
    tell(f"mixed: {len(whole.bigrams)} bigrams and {len(whole.trigrams)} trigrams")
    tell(dev.perplexities("mixed", whole.probabilities(dev.tokens)))
    return Estimate(whole, context_weights(mixed, weights, whole.bigrams))


def write(model: BackOffModel, output: Path, arpa: Path | None) -> None:
    """Write the files. They are never incomplete."""
    pack(model).save(output)
    if arpa:
        with replacing(arpa, "w") as stream:
            stream.writelines(line + "\n" for line in model.arpa())


def pack(model: BackOffModel) -> LanguageModel:
    """Return the model in the form that the engine reads."""
    pairs = np.stack([model.bigrams >> BITS, model.bigrams & MASK], axis=1)
    triples = np.stack([model.trigrams >> 2 * BITS, model.trigrams >> BITS & MASK, model.trigrams & MASK], axis=1)
    bigrams = NgramArrays(pairs, np.log(model.bigram), np.log(model.pair_back_off))
    trigrams = NgramArrays(triples, np.log(model.trigram), np.zeros(len(triples)))
    with np.errstate(divide="ignore"):  # the mark for the start of a sentence is never said
        unigrams = np.maximum(np.log(model.unigrams), -99.0)
    return LanguageModel.pack(model.words, unigrams, np.log(model.word_back_off), bigrams, trigrams)


# The text for weighting and for evaluating models. Each uses one half, and every corpus counts the same.


@dataclass(frozen=True)
class HeldOutText:
    """Sentences as rows of two words of context and a word, with the corpus and the half of each row."""

    corpora: list[str]
    tokens: Ids
    corpus: Ids
    tuned: Ids  # 1 in the half for finding the weights

    @classmethod
    def number(cls, references: list[Reference], vocabulary: list[str]) -> HeldOutText:
        """Return the references as numbers of the vocabulary."""
        numbers = {word: number for number, word in enumerate(vocabulary)}
        corpora = sorted({reference.corpus for reference in references})
        rows = []
        for index, reference in enumerate(references):
            ids = [START_ID, START_ID, *(numbers.get(word, 0) for word in reference.words), END_ID]
            label = corpora.index(reference.corpus), 1 - index % 2
            rows += [(*triple, *label) for triple in zip(ids, ids[1:], ids[2:], strict=False)]
        table = np.array(rows, dtype=np.int32)
        return cls(corpora, table[:, :3], table[:, 3], table[:, 4])

    @property
    def known(self) -> Ids:
        """The rows whose word is in the vocabulary, as 1 for each."""
        return np.asarray(self.tokens[:, 2] != 0, dtype=np.int32)

    def weigh(self, probabilities: Floats) -> Floats:
        """Return the weights of models, from their probabilities of all rows. Only the half for weights is used."""
        rows = (self.tuned & self.known).astype(bool)
        shares = np.bincount(self.corpus[rows], minlength=len(self.corpora))
        return weigh(probabilities[rows], 1 / shares[self.corpus[rows]])

    def perplexities(self, title: str, probabilities: Floats) -> str:
        """Return a line with two perplexities of every corpus: of the half for evaluation, and of both halves."""
        parts = []
        for number, corpus in enumerate(self.corpora):
            rows = (self.corpus == number) & (self.known == 1)
            other, every = perplexity(probabilities[rows & (self.tuned == 0)]), perplexity(probabilities[rows])
            parts.append(f"{corpus} {other:.1f} ({every:.1f})")
        return f"perplexity, {title}, other half (all): {', '.join(parts)}"


def perplexity(probabilities: Floats) -> float:
    """Return the inverse of the geometric mean of the probabilities; not a number if there are none."""
    return float(np.exp(-np.log(probabilities).mean())) if len(probabilities) else float("nan")


# Mixes several Kneser-Ney models into one back-off model, with weights that are found on held-out text.

ROUNDS = 100


def word_probabilities(model: KneserNey, tokens: Ids) -> Floats:
    """Return P of the last word of each row in the model of one source. A row is two words of context and a word."""
    first, second, word = tokens.astype(np.int64).T
    lower = look_up(model.bigrams, model.bigram_terms, (second << BITS) | word, 0.0)
    lower += model.bigram_gammas[second] * model.unigrams[word]
    context = (first << BITS) | second
    gammas = look_up(model.contexts, model.context_gammas, context, 1.0)
    return look_up(model.trigrams, model.trigram_terms, (context << BITS) | word, 0.0) + gammas * lower


def weigh(probabilities: Floats, importance: Floats) -> Floats:
    """Return the weights of the columns with which the rows are most likely (found by EM). Rows count by importance."""
    weights = np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(ROUNDS):
        shares = probabilities * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = importance @ shares / importance.sum()
    return weights


def mix(models: Sequence[KneserNey], weights: Floats, words: list[str]) -> BackOffModel:
    """Return the weighted sum of the models, for every n-gram that is in one of them."""
    bigrams = _union([model.bigrams for model in models])
    trigrams = _union([model.trigrams for model in models])
    contexts = np.searchsorted(bigrams, trigrams >> BITS)
    suffixes = np.searchsorted(bigrams, trigrams & ((1 << 2 * BITS) - 1))
    first, second = bigrams >> BITS, bigrams & MASK
    unigram = sum(weight * model.unigrams for model, weight in zip(models, weights, strict=True))
    bigram, trigram = np.zeros(len(bigrams)), np.zeros(len(trigrams))
    for model, weight in zip(models, weights, strict=True):
        lower = model.bigram_gammas[first] * model.unigrams[second]
        lower[np.searchsorted(bigrams, model.bigrams)] += model.bigram_terms
        gammas = np.ones(len(bigrams))
        gammas[np.searchsorted(bigrams, model.contexts)] = model.context_gammas
        bigram += weight * lower
        trigram += weight * gammas[contexts] * lower[suffixes]
        trigram[np.searchsorted(trigrams, model.trigrams)] += weight * model.trigram_terms
    return BackOffModel(words, np.asarray(unigram), bigrams, bigram, trigrams, trigram)


def context_weights(models: Sequence[KneserNey], weights: Floats, bigrams: Keys) -> Floats:
    """Return how often each pair of words is a context in the weighted texts, as a share of all contexts."""
    totals = np.zeros(len(bigrams))
    for model, weight in zip(models, weights, strict=True):
        shares = weight * model.context_counts / model.context_counts.sum()
        totals[np.searchsorted(bigrams, model.contexts)] += shares
    return totals


def _union(arrays: Sequence[Keys]) -> Keys:
    together = np.concatenate(arrays)
    together.sort(kind="stable")  # timsort merges parts that are already sorted
    first = np.concatenate([[True], together[1:] != together[:-1]])
    return np.asarray(together[first])
