"""Measures the model of punctuation and capitals: on held-out text and on speech, with its delay and its cost.

    python scripts/measure/punctuation.py --text TEXT --work PREPARED --bundle asr_repo/streaming_asr/1

TEXT is the folder of text that scripts/train/train_punctuation.py read. The part that it set aside is used here.
PREPARED is the folder of prepared speech. Its recordings of LJSpeech and of LibriSpeech train-clean-100 are used, as
far as their printed text is in TEXT. The recogniser was trained on these recordings, so it hears them better than
others; the punctuation model has not seen their text. F1 is the harmonic mean of precision and recall, in percent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.model_file import ModelFileError
from streamer.engine.text.punctuation_model import PunctuationModel
from workshop.data.corpus import Corpus, CorpusError
from workshop.language.text_sources import LeakGuard
from workshop.punctuation.labelled_text import MOST_WORDS, read_texts, tell_first_cases
from workshop.punctuation.measurement import (
    KINDS,
    TOGETHER,
    HeardRecordings,
    HeardSegment,
    Marker,
    MarkScores,
    PrintedText,
    ReadClip,
    by_majority,
    by_model,
    by_pauses,
    heard_scores,
    heard_segments,
    mark_costs,
    recognise,
    settling_delays,
    text_scores,
    true_scores,
    true_segments,
    without_pauses,
)

PRINTED = ("ljspeech_sentences.tsv", "libritts_train_clean_100_sentences.txt")
CORPORA = ("ljspeech_part", "ls_train_clean_100", "librispeech_train_clean_100")
KNOWN = 0.6  # the share of the words of a recording whose printed form must be known
HEAD = "| comma | full stop | question mark | capital |"
COMMAS_MS, FULL_STOPS_MS = (120, 160, 200, 250, 300, 400), (400, 500, 600, 800, 1000)


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder of punctuated text")
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--words", type=int, default=MOST_WORDS, help="as in the training: words read of each source")
    parser.add_argument("--measured", type=int, default=15_000, help="the most held-out words of each source")
    parser.add_argument("--recordings", type=int, default=150, help="the most recordings")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        model = PunctuationModel.load(options.bundle)
        measure_text(model, options.text, options.words, options.measured)
        measure_speech(model, options.text, options.work, options.bundle, options.recordings)
    except (BundleError, CorpusError, ModelFileError, OSError) as error:
        print(f"punctuation: {error}", file=sys.stderr)
        return 1
    return 0


def measure_text(model: PunctuationModel, folder: Path, words: int, measured: int) -> None:
    """Print the table of held-out text."""
    texts = read_texts(folder, LeakGuard([]), words)
    tell_first_cases(texts)
    print(f"\n| held-out text | words {HEAD}\n|---|---|---|---|---|---|")
    for source, text in sorted(texts.held_out.items()):
        part = text.part(0, measured)
        print(f"| {source} | {len(part)} {_row(text_scores(model, part, texts.words))}")


def measure_speech(model: PunctuationModel, text: Path, work: Path, bundle: Path, most: int) -> None:
    """Recognise recordings, and print the tables of speech, delay and cost."""
    corpus = Corpus(work, "train")
    printed = PrintedText.read([text / name for name in PRINTED])
    clips = [printed.clip(each) for each in corpus.utterances if each.corpus.startswith(CORPORA)]
    clips = [clip for clip in clips if clip.known > KNOWN]
    clips = [clips[number] for number in np.random.default_rng(0).permutation(len(clips))[:most]]
    recogniser = load_recogniser(bundle, slots=TOGETHER, idle_limit_s=1e9)
    speech = recognise(recogniser, [corpus.samples(clip.utterance) for clip in clips])
    seconds = sum(clip.utterance.seconds for clip in clips)
    print(f"\n{len(clips)} recordings, {seconds / 60:.1f} minutes, {sum(len(clip.words) for clip in clips)} words")
    print_speech(model, clips, speech.recordings)
    print_delays(model, speech.recordings)
    print_costs(model, speech, seconds)


def print_speech(
    model: PunctuationModel, clips: Sequence[ReadClip], recordings: Sequence[Sequence[HeardSegment]]
) -> None:
    """Print the table of speech: true and recognised words, with and without pauses, and simpler ways."""
    print(f"\n| speech {HEAD}\n|---|---|---|---|---|")
    pairs = [(clip, segments) for clip, segments in zip(clips, recordings, strict=True) if segments]

    def total(marker: Marker, true: bool, pauses: bool = True) -> MarkScores:
        scores = MarkScores()
        for clip, segments in pairs:
            words = true_segments(clip, segments) if true else heard_segments(segments)
            add = true_scores if true else heard_scores
            add(clip, words if pauses else without_pauses(words), marker, scores)
        return scores

    bounds = []
    for true, name in ((True, "true words"), (False, "recognised words")):
        print(f"| {name} {_row(total(by_model(model), true))}")
        print(f"| {name}, pauses unknown {_row(total(by_model(model), true, pauses=False))}")
        alone, comma_ms, stop_ms = _best_pauses(partial(total, true=true))
        print(f"| {name}, pauses alone {_row(alone)}")
        print(f"| {name}, no mark within a segment {_row(total(by_majority, true))}")
        bounds.append(f"{name} {comma_ms} and {stop_ms} ms")
    print(f"\nbounds of pauses alone for a comma and a full stop: {', '.join(bounds)}")


def print_delays(model: PunctuationModel, recordings: Sequence[Sequence[HeardSegment]]) -> None:
    """Print how much later marks are settled than words."""
    delays = [delay for segments in recordings for delay in settling_delays(segments, model.ahead)]
    times = np.array([delay.ms for delay in delays])
    median, slow = np.percentile(times, [50, 90])
    words = np.mean([delay.words for delay in delays])
    print(
        f"\ndelay of settled words: {words:.1f} words, {times.mean():.0f} ms on average, "
        f"median {median:.0f}, 90 % {slow:.0f} ms"
    )


def print_costs(model: PunctuationModel, speech: HeardRecordings, seconds: float) -> None:
    """Print what a call costs, and a stream, compared with the recogniser."""
    recogniser = speech.cpu_s / seconds
    print("\n| streams in a call | ms of a call | share of a core for a stream | of the recogniser's time |")
    print("|---|---|---|---|")
    for cost in mark_costs(model, speech.recordings, seconds):
        share = f"{100 * cost.share:.2f} % | {100 * cost.share / recogniser:.1f} %"
        print(f"| {cost.streams} | {cost.call_ms:.2f} | {share} |")


def _best_pauses(total: Callable[[Marker], MarkScores]) -> tuple[MarkScores, int, int]:
    """Return the bounds with the best sum of F1 on these recordings. On others they would be worse."""
    trials = [
        (total(by_pauses(comma_ms, stop_ms)), comma_ms, stop_ms) for comma_ms in COMMAS_MS for stop_ms in FULL_STOPS_MS
    ]
    return max(trials, key=lambda trial: trial[0].f1(KINDS[0]) + trial[0].f1(KINDS[1]))


def _row(scores: MarkScores) -> str:
    cells = [f"{100 * scores.f1(kind):.1f}" if scores.expected[kind] else "-" for kind in KINDS]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
