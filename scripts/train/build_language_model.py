"""Estimate the language model from text: a mixture of Kneser-Ney trigrams, weighted on dev, pruned to a size.

    python scripts/train/build_language_model.py lm_text.tar.xz lm_text_modern.tar.xz --train train.tsv --dev dev.tsv \\
        --output asr_repo/streaming_asr/1/language.safetensors

The archives hold text files; `train` and `dev` are manifests of speech. Nothing that dev holds is learnt from. The
weights of the sources are found on every second utterance of dev; perplexities are given for the other half and for
all of it, by corpus, with the ends of sentences and without words outside the vocabulary. Takes some minutes and 4 GB.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from streamer.engine.language.language_model import LanguageModel, NgramArrays
from streamer.training.data.corpus import CorpusError, replacing
from streamer.training.language import kneser_ney, mixture
from streamer.training.language.backoff import BackOffModel
from streamer.training.language.counts import (
    BITS,
    END_ID,
    MASK,
    START_ID,
    Floats,
    choose_vocabulary,
    count,
    with_sentence_marks,
)
from streamer.training.language.pruning import prune
from streamer.training.language.sources import Ids, Reference, Texts, read_texts, read_transcripts

# Beside the sources themselves, all of them as one text are mixed in: small sources know too little alone.
EVERYTHING = "everything"
LEAST_WEIGHT = 0.001  # a source of less weight is left out
HEADER = 8192  # bytes of the file that are no table


@dataclass(frozen=True)
class Dev:
    """The references as rows of two words of context and a word, and of which corpus and half each row is."""

    corpora: list[str]
    tokens: Ids
    corpus: Ids
    tuned: Ids  # 1 in the half that the weights are found on

    @classmethod
    def number(cls, references: list[Reference], vocabulary: list[str]) -> Dev:
        """The references in the vocabulary's numbers."""
        numbers = {word: number for number, word in enumerate(vocabulary)}
        corpora = sorted({reference.corpus for reference in references})
        rows = []
        for place, reference in enumerate(references):
            ids = [START_ID, START_ID, *(numbers.get(word, 0) for word in reference.words), END_ID]
            label = corpora.index(reference.corpus), 1 - place % 2
            rows += [(*triple, *label) for triple in zip(ids, ids[1:], ids[2:], strict=False)]
        table = np.array(rows, dtype=np.int32)
        return cls(corpora, table[:, :3], table[:, 3], table[:, 4])

    @property
    def known(self) -> Ids:
        """1 where the word is in the vocabulary."""
        return np.asarray(self.tokens[:, 2] != 0, dtype=np.int32)

    def weigh(self, found: Floats) -> Floats:
        """Weights of models from their probabilities of all rows, on the half for it; every corpus counts the same."""
        rows = (self.tuned & self.known).astype(bool)
        shares = np.bincount(self.corpus[rows], minlength=len(self.corpora))
        return mixture.weigh(found[rows], 1 / shares[self.corpus[rows]])

    def report(self, title: str, found: Floats) -> None:
        """Print the perplexities of both kinds."""
        parts = []
        for number, corpus in enumerate(self.corpora):
            rows = (self.corpus == number) & (self.known == 1)
            other, every = perplexity(found[rows & (self.tuned == 0)]), perplexity(found[rows])
            parts.append(f"{corpus} {other:.1f} ({every:.1f})")
        print(f"perplexity, {title}, other half (all): {', '.join(parts)}", flush=True)


def perplexity(found: Floats) -> float:
    """The inverse of the mean probability, geometrically; of nothing it is not a number."""
    return float(np.exp(-np.log(found).mean())) if len(found) else float("nan")


def main() -> int:
    """Build the model; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", nargs="+", type=Path, help="tar archives of text files")
    parser.add_argument("--train", type=Path, help="manifest whose transcripts are one more source")
    parser.add_argument("--dev", type=Path, required=True, help="manifest that weights are found and judged on")
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("--arpa", type=Path, help="write the same model in the ARPA format too")
    parser.add_argument("--vocabulary", type=int, default=100_000, help="at most so many words")
    parser.add_argument("--megabytes", type=float, default=25.0, help="at most so large a file")
    parser.add_argument("--without-share-alike", action="store_true", help="leave out texts under share-alike licences")
    options = parser.parse_args()
    try:
        build(options)
    except (CorpusError, OSError) as error:
        print(f"build_language_model: {error}", file=sys.stderr)
        return 1
    return 0


def build(options: argparse.Namespace) -> None:
    """Read, estimate, mix, prune and write."""
    if not 3 < options.vocabulary <= MASK:
        raise CorpusError(f"--vocabulary {options.vocabulary} is not between 4 and {MASK}")
    references = read_transcripts(options.dev)
    for path in (options.output, options.arpa):
        if path and not path.parent.is_dir():
            raise CorpusError(f"{path.parent} is no folder: {path.name} can't be written there")
    texts = read_texts(options.archives, options.train, references, share_alike=not options.without_share_alike)
    for name, ids in texts.sources.items():
        print(f"{name}: {np.count_nonzero(ids >= 0)} words in {np.count_nonzero(ids < 0)} sentences")
    print(f"{texts.left_out} sentences left out because dev holds them or a long stretch of them", flush=True)

    vocabulary = find_vocabulary(texts, references, options.vocabulary)
    dev = Dev.number(references, vocabulary)
    for number, corpus in enumerate(dev.corpora):
        unknown = 1 - dev.known[(dev.corpus == number) & (dev.tokens[:, 2] != END_ID)].mean()
        print(f"words of {corpus} outside the vocabulary: {100 * unknown:.2f} %")

    limit = int(options.megabytes * 1e6) - HEADER
    if limit < LanguageModel.size(vocabulary, 0, 0):
        raise CorpusError(f"--megabytes {options.megabytes:g} is too little for {len(vocabulary)} words")
    model = estimate(texts, vocabulary, dev)
    pruned = prune(model.whole, model.contexts, lambda *numbers: LanguageModel.size(vocabulary, *numbers), limit)
    print(f"pruned to {len(pruned.bigrams)} bigrams and {len(pruned.trigrams)} trigrams")
    dev.report("pruned", pruned.probabilities(dev.tokens))
    write(pruned, options.output, options.arpa)
    with torch.inference_mode():
        tokens = torch.from_numpy(dev.tokens.astype(np.int64))
        scores = LanguageModel.load(options.output).score(tokens[:, :2], tokens[:, 2])
    dev.report("as written", np.exp(scores.double().numpy()))
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB, {len(vocabulary)} words")


@dataclass(frozen=True)
class Estimate:
    """The unpruned model, and how often each of its bigrams is a context."""

    whole: BackOffModel
    contexts: Floats


def find_vocabulary(texts: Texts, references: list[Reference], size: int) -> list[str]:
    """The likeliest words of the sources' mixture, as it fits the half of dev for tuning."""
    counts = [np.bincount(ids[ids >= 0], minlength=len(texts.words)) for ids in texts.sources.values()]
    counts.append(np.sum(counts, axis=0))
    shares = np.stack([found / found.sum() for found in counts])
    dev = Dev.number(references, texts.words)
    smoothed = shares[:, dev.tokens[:, 2]].T + 1e-8
    return choose_vocabulary(texts.words, dev.weigh(smoothed) @ shares, size)


def estimate(texts: Texts, vocabulary: list[str], dev: Dev) -> Estimate:
    """The mixture of the models of all sources."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    renumbered = np.array([numbers.get(word, 0) for word in texts.words] + [0], dtype=np.int32)
    marked = {name: with_sentence_marks(ids, renumbered) for name, ids in texts.sources.items()}
    marked[EVERYTHING] = np.concatenate(list(marked.values()))
    models = {name: kneser_ney.estimate(count(text), len(vocabulary)) for name, text in marked.items()}
    found = np.stack([mixture.probabilities(model, dev.tokens) for model in models.values()], axis=1)
    dev.report("all text as one", found[:, -1])
    weights = dev.weigh(found)
    used = {name: weight for name, weight in zip(models, weights, strict=True) if weight >= LEAST_WEIGHT}
    print("weights: " + ", ".join(f"{name} {weight:.3f}" for name, weight in used.items()))
    mixed = [models[name] for name in used]
    weights = np.array(list(used.values())) / sum(used.values())
    whole = mixture.mix(mixed, weights, vocabulary)
    print(f"mixed: {len(whole.bigrams)} bigrams and {len(whole.trigrams)} trigrams")
    dev.report("mixed", whole.probabilities(dev.tokens))
    return Estimate(whole, mixture.context_weights(mixed, weights, whole.bigrams))


def write(model: BackOffModel, output: Path, arpa: Path | None) -> None:
    """Write the files whole."""
    pack(model).save(output)
    if arpa:
        with replacing(arpa, "w") as stream:
            stream.writelines(line + "\n" for line in model.arpa())


def pack(model: BackOffModel) -> LanguageModel:
    """The model as the engine reads it."""
    pairs = np.stack([model.bigrams >> BITS, model.bigrams & MASK], axis=1)
    triples = np.stack([model.trigrams >> 2 * BITS, model.trigrams >> BITS & MASK, model.trigrams & MASK], axis=1)
    bigrams = NgramArrays(pairs, np.log(model.bigram), np.log(model.pair_back_off))
    trigrams = NgramArrays(triples, np.log(model.trigram), np.zeros(len(triples)))
    with np.errstate(divide="ignore"):  # nobody says the mark of a sentence's start
        unigrams = np.maximum(np.log(model.unigrams), -99.0)
    return LanguageModel.pack(model.words, unigrams, np.log(model.word_back_off), bigrams, trigrams)


if __name__ == "__main__":
    sys.exit(main())
