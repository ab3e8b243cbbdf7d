"""Makes a prepared set from a folder of recordings without text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamer.training.data.corpus import CorpusError, Samples, Utterance, write_corpus
from streamer.training.data.given_speech import decode
from streamer.training.workers import Workers

ENDINGS = {".flac", ".mp3", ".ogg", ".opus", ".wav"}


def prepare_recordings(folder: Path, work: Path, name: str, processes: int) -> list[Utterance]:
    """Decode all recordings below a folder. An utterance has the name of its file, and no text."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise CorpusError(f"there are no recordings in {folder}: it needs files {', '.join(sorted(ENDINGS))}")
    return write_corpus(work, name, _decoded(folder, paths, processes))


def _decoded(folder: Path, paths: list[Path], processes: int) -> Iterator[tuple[Utterance, Samples]]:
    with Workers(processes) as workers:
        for path, samples in zip(paths, workers.map(_read, paths, chunk=32), strict=True):
            yield Utterance(path.relative_to(folder).as_posix(), 0, len(samples), "", "", ""), samples


def _read(path: Path) -> Samples:
    return decode(path.read_bytes(), str(path))
