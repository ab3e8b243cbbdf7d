"""Compares the n-grams that CTC-CRF can use: how well they predict phones, and what they cost.

    python scripts/train/compare_phone_ngrams.py --work PREPARED [--bundle asr_repo/streaming_asr/1] [--orders 2 3 4]
        [--phone-text FILE...]

They are estimated from the phones of train and of the text, if there is one, and evaluated on train and dev.
Perplexity is per unit. If the boundary between words is free, only phones count as units. The cost is the processor
time of one thread for one batch, forward and backward, and the loss's share of a training step without optimiser and
augmentation. Order 4 takes 1 GB of memory and some seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from streamer.engine.models.acoustic_model import AcousticModel, BundleError
from streamer.training.acoustic import units
from streamer.training.acoustic.batches import Batches, Recipe
from streamer.training.data.alignment import read_targets
from streamer.training.data.corpus import Corpus, CorpusError
from streamer.training.language.pronunciation import Pronunciations
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.loss_cost import encoder_ms, loss_ms, phone_emissions
from streamer.training.phones.phone_ngram import ORDERS, estimate
from streamer.training.phones.written_phones import written_phones
from streamer.training.precision import precision_of


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="a model to measure with")
    parser.add_argument("--orders", type=int, nargs="+", choices=ORDERS, default=[2, 3])
    parser.add_argument(
        "--phone-text", type=Path, nargs="+", default=[], metavar="FILE", help="written text, a paragraph a line"
    )
    parser.add_argument("--batch-seconds", type=float, default=Recipe.seconds)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        _compare(options)
    except (BundleError, CorpusError) as error:
        print(f"compare_phone_ngrams: {error}", file=sys.stderr)
        return 1
    return 0


def _compare(options: argparse.Namespace) -> None:
    device = torch.device(options.device)
    alignments = read_targets(options.work, "train")
    train, dev = (
        [units.phones(alignment) for alignment in found.values()]
        for found in (alignments, read_targets(options.work, "dev"))
    )
    known = train + list(written_phones(options.phone_text, Pronunciations.load())) if options.phone_text else train
    model = AcousticModel.load(options.bundle, device).requires_grad_(True)
    source = Batches(Corpus(options.work, "train"), alignments, 1, Recipe(seconds=options.batch_seconds), device)
    batch = source.tensors(source.epoch(0, 1e9)[0], "1")
    emissions = phone_emissions(model, batch)
    rest = encoder_ms(model, batch, precision_of(device))
    print(f"a batch of {batch.seconds:.0f} s in {len(batch.lengths)} rows; its encoder takes {rest:.0f} ms\n")
    print("loss      boundary  perplexity train    dev  loss ms  of a step")
    alone = loss_ms(emissions, batch, None)
    print(f"{'CTC':10s}{'':34s}{alone:9.0f}{100 * alone / (alone + rest):9.1f} %")
    for order in options.orders:
        for free in (None, units.PHONE_NUMBER[units.BOUNDARY]):
            ngram = estimate(known, len(units.PHONE_UNITS), order, free)
            found = loss_ms(emissions, batch, NgramTables(ngram, device))
            print(
                f"{f'{order}-gram':10s}{'counted' if free is None else 'free':10s}"
                f"{ngram.perplexity(train):16.2f} {ngram.perplexity(dev):6.2f} {found:8.0f}"
                f"{100 * found / (found + rest):9.1f} %",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
