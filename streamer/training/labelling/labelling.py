"""Makes training speech from recordings without text: recognises them, looks up sentences, and keeps sure texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.search import HypothesisWord
from streamer.text.counts import counted
from streamer.training.data.corpus import Utterance
from streamer.training.data.given_speech import Row
from streamer.training.labelling.known_sentences import KnownSentences, read_sentences
from streamer.training.labelling.labelled_folder import write_labelled
from streamer.training.labelling.labels import FOUND, HEARD, Label, Thresholds, choose
from streamer.training.labelling.text_scores import TextScores
from streamer.training.language.pronunciation import Pronunciations
from streamer.training.language.text_sources import read_transcripts
from streamer.training.search.emission_cache import EmittedUtterance, read_emissions
from streamer.training.search.search_trials import run_beam

STREAMS = 48
CANDIDATES = 40
STEP_MS = 640


@dataclass(frozen=True)
class Sources:
    """The parts and files that are needed to make labels."""

    bundle: Path  # the recogniser
    sentences: Sequence[Path]  # text files with sentences that may have been read aloud
    dev: Path  # a manifest; its texts may not become labels
    beam: int = 96


def label(
    recordings: Path,
    work: Path,
    name: str,
    output: Path,
    sources: Sources,
    limits: Thresholds,
    tell: Callable[[str], None],
) -> list[Row]:
    """Label a set that was prepared from a folder. Utterances with a label are written as a folder of given speech."""
    avoided = {" ".join(reference.words) for reference in read_transcripts(sources.dev)}
    sentences = KnownSentences(read_sentences(sources.sentences, avoided))
    tell(counted(len(sentences), "known sentence"))
    spoken = read_emissions(sources.bundle, work, name, work, STEP_MS)
    tell(f"{counted(len(spoken), 'recording')}, {sum(one.utterance.seconds for one in spoken) / 3600:.2f} h")
    scores = text_scores(sources.bundle)
    rows = [
        _row(name, one.utterance, label)
        for one, words in zip(spoken, hear(spoken, sources.bundle, sources.beam), strict=True)
        if (label := find_label(one, words, sentences, scores, limits)) and label.text not in avoided
    ]
    written = write_labelled(output, name, ((row, (recordings / row.member).read_bytes()) for row in rows))
    for kind in (FOUND, HEARD):
        seconds = [row.seconds for row in written if row.corpus == f"{name}_{kind}"]
        tell(f"{kind}: {counted(len(seconds), 'recording')}, {sum(seconds) / 3600:.2f} h")
    return written


def hear(spoken: Sequence[EmittedUtterance], bundle: Path, beam: int) -> list[tuple[HypothesisWord, ...]]:
    """Recognise each utterance."""
    lexicon = Lexicon.load(bundle / LEXICON_FILE)
    language = LanguageModel.load(bundle / LANGUAGE_FILE)
    options = replace(BeamOptions.load(bundle / SEARCH_FILE), beam=beam)
    with torch.inference_mode():
        return run_beam(spoken, lexicon, language, options, STREAMS, load_rescorer(bundle, language)).hypotheses


def text_scores(bundle: Path) -> TextScores:
    """Return the scores of texts, by the pronunciations that a bundle knows."""
    return TextScores(Pronunciations.load(bundle))


def find_label(
    one: EmittedUtterance,
    words: Sequence[HypothesisWord],
    sentences: KnownSentences,
    scores: TextScores,
    limits: Thresholds,
) -> Label | None:
    """Return the label of an utterance. The recognised words compete with the known sentences nearest to them."""
    if not words:
        return None
    texts = [word.text for word in words]
    candidates = sentences.nearest(texts, CANDIDATES)
    own, *others = scores.score(one.emissions, [" ".join(texts), *candidates])
    return choose(words, own, dict(zip(candidates, others, strict=True)), limits)


def _row(name: str, utterance: Utterance, label: Label) -> Row:
    seconds = round(utterance.seconds, 3)
    # The speakers are unknown, so each recording gets a speaker of its own.
    return Row("", utterance.name, seconds, f"{name}_{label.kind}", utterance.name, label.text.upper())
