"""Writes texts for a folder of speech, and keeps those on which several witnesses agree.

    python scripts/data/label_speech.py FOLDER --output MORE --readers moonshine-base WHISPER
    python scripts/data/label_speech.py --check GIVEN/dev.tsv --output CHECKED --readers moonshine-base WHISPER

Recordings in FOLDER may have any length and format. They are cut at pauses into pieces of at most 20 s, and each reader
reads each piece. The text of the first one is kept if another one differs in at most a tenth of its words. Dropped are
texts in another language, in circles, and with more or fewer words than somebody may say in that time.

A reader is one of `streamer models`, the folder of a reader, of a Whisper model in CTranslate2's format or of a public
model, or `shipped` for the recogniser of this project.

MORE gets `train.tsv` and tar shards, as a folder of given speech, and `journal.jsonl` with all that was read. So the
same command goes on after it was stopped, and other limits (--different, --agreeing, --surer-than) read nothing
again.

With --check, no speech is written: a manifest whose texts are known shows how many of its words are kept, and how many
of these are wrong, by corpus. docs/how-to/training.md has such a table.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.audio.recordings import AudioError
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import ManifestError, read_manifest, select_utterances
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.model_file import ModelFileError
from streamer.engine.reader.pieces import PiecesError
from streamer.engine.reader.weights import UnknownReader
from streamer.models.library import LibraryError
from streamer.models.model_folder import ModelFolderError
from streamer.models.whisper_folder import UnknownWhisper
from workshop.data.corpus import CorpusError
from workshop.labelling.agreement import Limits
from workshop.labelling.cutting import Cutter, CuttingRule
from workshop.labelling.folder_labels import Judge, hear_all, recordings_in, summary, write_kept
from workshop.labelling.label_precision import precision_table, recordings_of
from workshop.labelling.reading_journal import Journal, JournalError
from workshop.labelling.witnesses import WitnessError, fingerprint, load_witness
from workshop.processes import StoppedError, stop_signals

_ERRORS = (
    AudioError,
    BundleError,
    CorpusError,
    JournalError,
    LibraryError,
    ManifestError,
    ModelFileError,
    ModelFolderError,
    OSError,
    PiecesError,
    UnknownReader,
    UnknownWhisper,
    WitnessError,
)


def main() -> int:
    """Label the speech, or measure labels; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of recordings")
    parser.add_argument("--check", type=Path, metavar="MANIFEST", help="table of recordings with their texts")
    parser.add_argument("--limit", type=int, help="at most so many recordings of --check, spread over the corpora")
    parser.add_argument("--output", type=Path, required=True, help="folder for the journal and the labelled speech")
    parser.add_argument("--readers", nargs="+", required=True, metavar="READER", help="two or more; the first writes")
    parser.add_argument("--name", help="name of the corpus (default: that of the folder)")
    parser.add_argument("--dev", type=Path, metavar="MANIFEST", help="no piece may have one of its texts")
    parser.add_argument(
        "--different",
        type=float,
        default=Limits.different,
        metavar="SHARE",
        help=f"share of the words in which readers may differ (default: {Limits.different})",
    )
    parser.add_argument(
        "--agreeing",
        type=int,
        default=Limits.agreeing,
        metavar="NUMBER",
        help=f"how many of the readers after the first one must agree with it (default: {Limits.agreeing})",
    )
    parser.add_argument(
        "--surer-than",
        type=float,
        default=Limits.surer_than,
        metavar="LOG",
        help="least mean log-probability of the first reader's tokens, such as -0.1 (default: any)",
    )
    parser.add_argument("--longest", type=float, default=CuttingRule.longest_s, help="seconds of a piece, at most 30")
    parser.add_argument("--threads", type=int, default=1, help="threads of each reader (default: 1)")
    options = parser.parse_args()
    if (options.folder is None) == (options.check is None):
        parser.error("give a folder of recordings, or --check")
    if len(set(options.readers)) < max(2, len(options.readers)):
        parser.error("--readers needs two or more, all different")
    if not 1 <= options.agreeing < len(options.readers):
        parser.error("--agreeing must be at least 1, and less than the number of readers")
    if not 2 <= options.longest <= 30:
        parser.error("--longest must be from 2 to 30 seconds")
    try:
        return run(options)
    except StoppedError:
        print("stopped: the same command goes on", file=sys.stderr)
    except _ERRORS as error:
        print(f"label_speech: {error}", file=sys.stderr)
    return 1


def run(options: argparse.Namespace) -> int:
    """Do what the options say."""
    tell = partial(print, flush=True)
    utterances = [] if options.check is None else select_utterances(read_manifest(options.check), (), options.limit)
    recordings = recordings_in(options.folder) if options.check is None else recordings_of(utterances)
    dev = [] if options.dev is None else read_manifest(options.dev)
    bundle = asr_repository() / "streaming_asr" / "1"
    words, rule = LanguageModel.load(bundle / LANGUAGE_FILE).words, CuttingRule(longest_s=options.longest)

    def knows(word: str) -> bool:
        return words.number_of(word) is not None

    signs = {name: fingerprint(name) for name in options.readers}
    with Journal(options.output, signs, rule) as journal:
        witnesses = {name: load_witness(name, knows, threads=options.threads) for name in options.readers}
        hear_all(recordings, Cutter(bundle, rule), witnesses, journal, tell, stop_signals())
        limits = Limits(options.different, options.surer_than, options.agreeing)
        judge = Judge(limits, knows, {" ".join(each.words) for each in dev})
        if options.check is None:
            write_kept(recordings, journal, judge, options.output, options.name or options.folder.resolve().name)
        else:
            tell(precision_table(utterances, journal, [Path(name).name for name in options.readers], knows))
        tell(summary(recordings, journal, judge))
    return 0


if __name__ == "__main__":
    sys.exit(main())
