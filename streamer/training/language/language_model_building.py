"""Builds the language model from text: a mixture of Kneser-Ney trigrams, with weights found on dev, pruned to a size.

Sentences of dev are never used for training. The weights of the sources are found on every second utterance of dev.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from streamer.engine.language.language_model import LanguageModel, NgramArrays
from streamer.text.counts import counted
from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing
from streamer.training.language import kneser_ney, mixture
from streamer.training.language.backoff_model import BackOffModel
from streamer.training.language.held_out_text import HeldOutText
from streamer.training.language.ngram_counts import (
    BITS,
    END_ID,
    MASK,
    Floats,
    choose_vocabulary,
    count,
    with_sentence_marks,
)
from streamer.training.language.pruning import prune
from streamer.training.language.text_sources import Reference, Texts, read_texts, read_transcripts

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
        vocabulary = LanguageModel.load(recipe.same_words).words
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
    with torch.inference_mode():
        tokens = torch.from_numpy(dev.tokens.astype(np.int64))
        scores = LanguageModel.load(output).score(tokens[:, :2], tokens[:, 2])
    tell(dev.perplexities("as written", np.exp(scores.double().numpy())))
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
    models = {name: kneser_ney.estimate(count(text), len(vocabulary)) for name, text in marked.items()}
    probabilities = np.stack([mixture.probabilities(model, dev.tokens) for model in models.values()], axis=1)
    tell(dev.perplexities("all text as one", probabilities[:, -1]))
    weights = dev.weigh(probabilities)
    used = {name: weight for name, weight in zip(models, weights, strict=True) if weight >= LEAST_WEIGHT}
    tell("weights: " + ", ".join(f"{name} {weight:.3f}" for name, weight in used.items()))
    mixed = [models[name] for name in used]
    weights = np.array(list(used.values())) / sum(used.values())
    whole = mixture.mix(mixed, weights, vocabulary)
    tell(f"mixed: {len(whole.bigrams)} bigrams and {len(whole.trigrams)} trigrams")
    tell(dev.perplexities("mixed", whole.probabilities(dev.tokens)))
    return Estimate(whole, mixture.context_weights(mixed, weights, whole.bigrams))


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
