"""Writes a bundle whose encoder has the weights of Moonshine's, from which an acoustic model can be trained.

    streamer models get moonshine-tiny
    python scripts/train/start_from_moonshine.py --reader moonshine-tiny --to START

START has `model.json` and `weights.safetensors`, and CREDIT.md, which belongs into the card of every model that begins
from it. The heads have random weights: it recognises nothing before it is trained. See docs/how-to/training.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from streamer.models.library import LibraryError
from workshop.acoustic.moonshine_start import CREDIT, reader_folder, start_from
from workshop.data.corpus import CorpusError


def main() -> int:
    """Write the bundle; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="moonshine-tiny", help="a Moonshine that was fetched, or a folder with one")
    parser.add_argument("--to", type=Path, required=True, metavar="START", help="folder for the bundle")
    parser.add_argument("--pooled", type=int, default=2, help="frames of Moonshine in one frame, of 24 ms each (2)")
    parser.add_argument("--seed", type=int, default=1, help="for the weights of the heads")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    try:
        network = start_from(reader_folder(options.reader), pooled=options.pooled)
    except (CorpusError, LibraryError) as error:
        print(f"start_from_moonshine: {error}", file=sys.stderr)
        return 1
    network.save(options.to)
    (options.to / "CREDIT.md").write_text(CREDIT, encoding="utf-8")
    weights = sum(weight.numel() for weight in network.parameters()) / 1e6
    print(f"wrote {options.to}: {weights:.1f} M weights, steps of {', '.join(map(str, network.step_ms))} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
