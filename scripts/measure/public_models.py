"""Compares public models in the recogniser with sherpa-onnx, token for token and frame for frame.

    .venv/bin/python scripts/measure/public_models.py                  500 streams of each family, small exact models
    .venv/bin/python scripts/measure/public_models.py FOLDER --streams 24     a model of your own
    .venv/bin/python scripts/measure/public_models.py FOLDER --streams 24 --recordings *.flac     which hears these
    .venv/bin/python scripts/measure/public_models.py --family "FastConformer with CTC"       one family of these
    .venv/bin/python scripts/measure/public_models.py --windows       the windows of small models without caches
    .venv/bin/python scripts/measure/public_models.py --search beam             500 streams of small transducers
    .venv/bin/python scripts/measure/public_models.py --search beam --hotwords          the same with random hotwords
    .venv/bin/python scripts/measure/public_models.py FOLDER --search beam --hotwords "ADA LOVELACE" "TURING"

The exact models compute in whole numbers, so all results must be equal. The small models for the beam search have
random weights: whole numbers would make many sequences of tokens equally likely, and the reference does not say which
of them it takes. With these models, and with your own, a segment may differ if two scores that decided something were
nearly equal. Such segments are counted. With `--hotwords`, half of the streams have some of them.

With `--windows`, each window of a stream is compared with a whole utterance, whose tokens sherpa-onnx finds.

The exit status is 0 only if no other segment differs. sherpa-onnx has no beam search for CTC, so it is not compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from streamer.audio.audio_file import read_audio
from streamer.audio.recordings import AudioError
from streamer.base.limits import BEAM, GREEDY
from streamer.engine.search.search import Hotword
from streamer.engine.stream_events import StreamError
from streamer.models.model_folder import ModelFolderError
from workshop.graphs.comparison import NEARLY_EQUAL, Comparison, Sound, compare, compare_windows, random_sound
from workshop.graphs.exact_icefall import (
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_transducer_folder,
    make_whole_icefall_ctc_folder,
    make_whole_icefall_folder,
    make_zipformer_folder,
    random_phrases,
)
from workshop.graphs.exact_nemo import (
    SIZES,
    make_nemo_ctc_folder,
    make_nemo_folder,
    make_nemotron_folder,
    make_t_one_folder,
    make_whole_ctc_folder,
    make_whole_folder,
    with_any_step,
)
from workshop.graphs.reference import VOCABULARY

STREAMS_OF_A_MODEL = 50  # each group has a model with other weights
PHRASES, WEIGHTS = 8, (0.5, 1.0, 2.0)  # hotwords of a group

Make = Callable[[Path, int], Path]
EXACT: dict[str, Make] = {
    "Zipformer-2 with CTC": make_ctc_folder,
    "Zipformer-2 transducer": make_transducer_folder,
    "Zipformer transducer": make_zipformer_folder,
    "LSTM transducer": make_lstm_folder,
    "Conformer transducer": make_conformer_folder,
    "T-one with CTC": make_t_one_folder,
    "FastConformer with CTC": with_any_step(make_nemo_ctc_folder),
    "FastConformer transducer": with_any_step(make_nemo_folder),
    "FastConformer of several languages": with_any_step(make_nemotron_folder),
}
WINDOWS: dict[str, Make] = {
    "Whole-utterance NeMo with CTC": make_whole_ctc_folder,
    "Whole-utterance NeMo with CTC, normalised": partial(make_whole_ctc_folder, normalised=True),
    "Whole-utterance NeMo transducer": make_whole_folder,
    "Whole-utterance NeMo transducer, normalised, with windows of its own": partial(
        make_whole_folder, normalised=True, sizes=SIZES
    ),
    "Whole-utterance NeMo transducer with durations": partial(make_whole_folder, durations=5),
    "Whole-utterance icefall with CTC": make_whole_icefall_ctc_folder,
    "Whole-utterance icefall transducer": make_whole_icefall_folder,
}
BEAMS: dict[str, Make] = {
    "Zipformer-2 transducer": partial(make_transducer_folder, exact=False),
    "Zipformer transducer": partial(make_zipformer_folder, exact=False),
    "LSTM transducer": partial(make_lstm_folder, exact=False),
    "Conformer transducer": partial(make_conformer_folder, exact=False),
    "FastConformer transducer": with_any_step(make_nemo_folder, exact=False),
    "FastConformer of several languages": with_any_step(make_nemotron_folder, exact=False),
}


def main() -> int:
    """Compare, and print a line for each model."""
    parser = _parser()
    options = parser.parse_args()
    if options.done % STREAMS_OF_A_MODEL:
        parser.error(f"--done must be a multiple of {STREAMS_OF_A_MODEL}")
    search, hotwords = options.search, options.hotwords
    if hotwords is not None and search != BEAM:
        sys.exit("Hotwords need `--search beam`.")
    if options.folder and options.windows:
        return _report("the folder", compare_windows(options.folder, options.streams, seconds=options.seconds))
    if options.folder:
        if hotwords is not None and not hotwords:
            sys.exit("Say which hotwords the model should listen for.")
        if hotwords and not (options.folder / VOCABULARY).exists():
            sys.exit(f"sherpa-onnx divides hotwords by {VOCABULARY}, which is not in {options.folder}.")
        result = compare(
            options.folder,
            options.streams,
            seconds=options.seconds,
            search=search,
            hotwords=[Hotword(phrase) for phrase in hotwords or ()],
            sound=_one_of(options.recordings) if options.recordings else random_sound,
        )
        return _report("the folder", result)
    families = WINDOWS if options.windows else EXACT if search == GREEDY else BEAMS
    if options.family:
        families = {name: make for name, make in families.items() if name in options.family}
    status = 0
    for family, make in families.items():
        total = Comparison(0)
        for seed in range(options.done // STREAMS_OF_A_MODEL, -(-options.streams // STREAMS_OF_A_MODEL)):
            number = min(STREAMS_OF_A_MODEL, options.streams - seed * STREAMS_OF_A_MODEL)
            random = np.random.default_rng(seed)
            if options.windows:
                with tempfile.TemporaryDirectory() as folder:
                    total += compare_windows(make(Path(folder), seed), number, seconds=options.seconds, seed=seed)
                continue
            phrases = [] if hotwords is None else hotwords or random_phrases(random, PHRASES)
            with tempfile.TemporaryDirectory() as folder:
                total += compare(
                    make(Path(folder), seed),
                    number,
                    seconds=options.seconds,
                    seed=seed,
                    search=search,
                    hotwords=[Hotword(phrase, random.choice(WEIGHTS)) for phrase in phrases],
                )
        status |= _report(family, total)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compares public models with sherpa-onnx.")
    add = parser.add_argument
    add("folder", nargs="?", type=Path, help="the folder of a public model (small models that are made for this)")
    add("--streams", type=int, default=500, help="how many streams (500)")
    add(
        "--done",
        type=int,
        default=0,
        help=f"how many of them an earlier run has compared: a multiple of {STREAMS_OF_A_MODEL} (0)",
    )
    add("--seconds", type=float, default=6.0, help="the length of a stream, on average (6)")
    add(
        "--family",
        action="append",
        choices=[*EXACT, *WINDOWS],
        help="only this family; may be given several times (all)",
    )
    add("--recordings", nargs="+", type=Path, metavar="FILE", help="with a folder: streams hear these (random sounds)")
    add("--windows", action="store_true", help="compare windows of models without caches")
    add("--search", choices=(GREEDY, BEAM), default=GREEDY, help=f"the search ({GREEDY})")
    add("--hotwords", nargs="*", metavar="PHRASE", help="hotwords for half of the streams (random ones)")
    return parser


def _one_of(paths: Sequence[Path]) -> Sound:
    """Return a sound for streams: one of these recordings, drawn at random."""
    recordings = [read_audio(path) for path in paths]
    return lambda random, _: recordings[random.integers(len(recordings))]


def _report(what: str, result: Comparison) -> int:
    print(
        f"{what}: {result.streams} streams, {result.segments} segments, {result.tokens} tokens, "
        f"{len(result.different)} segments differ, {result.close} of them by margins below {NEARLY_EQUAL:g}; "
        f"hotwords changed {result.biased}",
        flush=True,
    )
    for segment, (tokens, frames) in result.different[:3]:
        print(f"  ours: {segment.tokens} {segment.frames}\n  sherpa-onnx: {tokens} {frames}")
        print(f"  margin {segment.margin:.2g}, hotwords {segment.hotwords}")
    return int(len(result.different) > result.close)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ModelFolderError, StreamError) as error:
        sys.exit(f"{error}.")
    except AudioError as error:
        sys.exit(str(error))
