"""Measures how well subtitles are cut: the figures of all cues of saved transcripts.

    python scripts/measure/subtitles.py --work PREPARED --recordings TALKS   # once: the speech of dev, by speaker
    streamer --format json -o SAVED TALKS
    python scripts/measure/subtitles.py SAVED

For figures of earlier rules, run the last line in a checkout of that commit (`git worktree add BEFORE COMMIT`), with
this script and PYTHONPATH=BEFORE. Rules for subtitles (two lines of 42 characters, 17 characters a second, gaps of two
frames) are those of broadcasters and of Netflix's guide; they stand in streamer/base/cues.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from streamer.base.cues import CHARACTERS_A_SECOND, CUE_LINES, LINE_CHARACTERS, LONGEST_CUE_MS, Cue, make_cues
from streamer.base.saved_transcript import read_transcripts
from streamer.base.text import columns, joined
from streamer.base.transcript import Transcript
from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError

PAUSE_S: Final = 0.4  # between the utterances of a speaker, as between sentences that are read aloud
ALL_BREATH_MS: Final = 500  # words that are this far apart may be apart in subtitles, too
GAP_MS: Final = 80
HURRIED: Final = 20  # characters a second that few people can follow
SAME: Final = 0.05  # characters a second that are no difference: times are whole milliseconds
# A cut after one of these, or before one of the others, is not within a clause. They are fewer than the rules know, so
# that the rules are not measured by themselves.
MARKS: Final = tuple(".,;:?!")
_CLAUSES = "and or but because if when while where which who whose that as since until before after"
_TIED = "a an the my your his her its our their of to in on at by for from with and or but"
CLAUSES: Final = frozenset(_CLAUSES.split())
TIED: Final = frozenset(_TIED.split())


@dataclass
class Figures:
    """What is counted. Each name is that of a row."""

    cues: int = 0
    long_lines: int = 0
    more_lines: int = 0
    faster: int = 0
    hurried: int = 0
    needlessly_fast: int = 0
    uneven: int = 0
    short: int = 0
    long: int = 0
    cuts: int = 0
    in_clause: int = 0
    tied: int = 0
    orphans: int = 0
    orphan_lines: int = 0
    small_gaps: int = 0
    followed: int = 0
    overlaps: int = 0


def count(segments: Sequence[Mapping[str, object]], figures: Figures) -> None:
    """Count the cues of a transcript with one channel."""
    cues = make_cues(segments)
    for index, cue in enumerate(cues):
        following = cues[index + 1] if index + 1 < len(cues) else None
        _count_cue(cue, following, figures)
    for cue, following in pairwise(cues):
        gap = following.start_ms - cue.end_ms
        figures.overlaps += gap < 0
        if gap < ALL_BREATH_MS:
            figures.followed += 1
            figures.small_gaps += gap < GAP_MS
    _count_runs(cues, figures)
    _count_cuts(cues, segments, figures)


def _count_runs(cues: Sequence[Cue], figures: Figures) -> None:
    """Count fast cues in a run of cues that together are not too fast: the cuts between them make them so."""
    runs: list[list[Cue]] = []
    for cue in cues:
        if not runs or cue.start_ms - runs[-1][-1].end_ms >= ALL_BREATH_MS:
            runs.append([])
        runs[-1].append(cue)
    for run in runs:
        if _speed(run) <= CHARACTERS_A_SECOND + SAME:
            figures.uneven += sum(_speed([cue]) > CHARACTERS_A_SECOND + SAME for cue in run)


def _speed(run: Sequence[Cue]) -> float:
    """Return the characters a second of cues that follow each other."""
    return 1000 * sum(columns(joined(cue.lines)) for cue in run) / max(1, run[-1].end_ms - run[0].start_ms)


def _count_cue(cue: Cue, following: Cue | None, figures: Figures) -> None:
    length_ms, speed = cue.end_ms - cue.start_ms, _speed([cue])
    figures.cues += 1
    figures.long_lines += any(columns(line) > LINE_CHARACTERS for line in cue.lines)
    figures.more_lines += len(cue.lines) > CUE_LINES
    fast = speed > CHARACTERS_A_SECOND + SAME
    figures.faster += fast
    figures.hurried += speed > HURRIED
    # It could stay longer: nothing follows within half a second.
    rest_ms = ALL_BREATH_MS if following is None else following.start_ms - cue.end_ms
    figures.needlessly_fast += fast and rest_ms >= ALL_BREATH_MS and length_ms < LONGEST_CUE_MS
    figures.short += length_ms < 1000
    figures.long += length_ms > LONGEST_CUE_MS
    figures.orphan_lines += len(cue.lines) > 1 and any(len(line.split()) == 1 for line in cue.lines)


def _count_cuts(cues: Sequence[Cue], segments: Sequence[Mapping[str, object]], figures: Figures) -> None:
    """Count the cuts between words that were spoken in one breath."""
    ends = {word["start_ms"]: word["end_ms"] for segment in segments for word in _words(segment)}
    starts = sorted(ends)
    before = dict(zip(starts[1:], (ends[start] for start in starts), strict=False))
    breath = [following.start_ms - before[following.start_ms] < ALL_BREATH_MS for _, following in pairwise(cues)]
    for index, (cue, following) in enumerate(pairwise(cues)):
        if breath[index]:
            last, first = cue.lines[-1].split()[-1].lower(), following.lines[0].split()[0].lower().strip(".,")
            figures.cuts += 1
            figures.in_clause += not last.endswith(MARKS) and first not in CLAUSES
            figures.tied += last in TIED
    for index, cue in enumerate(cues):
        beside = (index > 0 and breath[index - 1]) or (index < len(breath) and breath[index])
        figures.orphans += beside and len(joined(cue.lines).split()) == 1


def _words(segment: Mapping[str, object]) -> list[Mapping[str, int]]:
    words = segment["words"]
    assert isinstance(words, list), "the transcripts must have words: leave out --no-words"
    return words


def table(figures: Figures) -> str:
    """Return the figures as lines of text."""

    def share(part: int, whole: int) -> str:
        return f"{100 * part / max(1, whole):6.1f} %"

    cues, cuts = figures.cues, figures.cuts
    rows = [
        ("cues", f"{cues:6}"),
        (f"with a line of more than {LINE_CHARACTERS} characters", share(figures.long_lines, cues)),
        (f"with more than {CUE_LINES} lines", share(figures.more_lines, cues)),
        (f"faster than {CHARACTERS_A_SECOND} characters a second", share(figures.faster, cues)),
        ("the same, though nothing follows for half a second", share(figures.needlessly_fast, cues)),
        ("the same, though it is not with the cues beside it", share(figures.uneven, cues)),
        (f"faster than {HURRIED} characters a second", share(figures.hurried, cues)),
        ("shorter than a second", share(figures.short, cues)),
        (f"longer than {LONGEST_CUE_MS // 1000} s", share(figures.long, cues)),
        ("of one word, with others in the same breath", share(figures.orphans, cues)),
        ("with a word alone in a line", share(figures.orphan_lines, cues)),
        ("cuts in a breath", f"{cuts:6}"),
        ("within a clause", share(figures.in_clause, cuts)),
        ("after a word that belongs to the next one", share(figures.tied, cuts)),
        (f"gaps of less than {GAP_MS} ms, of those below half a second", share(figures.small_gaps, figures.followed)),
        ("overlaps", f"{figures.overlaps:6}"),
    ]
    return "\n".join(f"{name:55}{value}" for name, value in rows)


def saved(folder: Path) -> Iterator[Transcript]:
    """Yield the transcripts in a folder."""
    for path in sorted(folder.rglob("*.json")):
        yield from read_transcripts(path.read_text(encoding="utf-8"), path.name)


def write_recordings(work: Path, folder: Path) -> None:
    """Write a recording for each speaker of dev, with all that the speaker says."""
    import numpy as np
    import soundfile  # type: ignore[import-untyped]

    corpus = Corpus(work, "dev")
    folder.mkdir(parents=True, exist_ok=True)
    pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.int16)
    for speaker in dict.fromkeys(each.speaker for each in corpus.utterances):
        own = [each for each in corpus.utterances if each.speaker == speaker]
        pieces = [part for each in own for part in (corpus.samples(each), pause)]
        soundfile.write(folder / f"{own[0].corpus}-{speaker}.flac", np.concatenate(pieces), SAMPLE_RATE)


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("saved", type=Path, nargs="?", help="folder of transcripts that were saved as JSON")
    parser.add_argument("--work", type=Path, help="folder of prepared speech")
    parser.add_argument("--recordings", type=Path, help="folder for the recordings of that speech")
    options = parser.parse_args()
    try:
        if options.work and options.recordings:
            write_recordings(options.work, options.recordings)
        elif not options.saved:
            parser.error("give a folder of transcripts, or --work with --recordings")
    except CorpusError as error:
        print(f"subtitles: {error}", file=sys.stderr)
        return 1
    if options.saved:
        figures, audio_ms = Figures(), 0
        for transcript in saved(options.saved):
            count(transcript.segments, figures)
            audio_ms += transcript.duration_ms
        print(f"{audio_ms / 3_600_000:.2f} h of speech\n{table(figures)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
