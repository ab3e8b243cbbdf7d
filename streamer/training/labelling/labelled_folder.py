"""Writes labelled recordings as a folder of given speech: their unchanged files in tar shards, and a manifest."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import astuple, replace
from pathlib import Path

from streamer.training.data.given_speech import COLUMNS, Row
from streamer.training.data.replaced_file import replacing

SHARD_BYTES = 45_000_000


def write_labelled(folder: Path, name: str, recordings: Iterable[tuple[Row, bytes]]) -> list[Row]:
    """Write the shards NAME-000.tar, … and train.tsv, and set `shard` of the rows. Files are never incomplete."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Row] = []
    waiting = iter(recordings)
    following = next(waiting, None)
    number = 0
    while following is not None:
        shard = f"{name}-{number:03d}.tar"
        with replacing(folder / shard, "wb") as stream, tarfile.open(fileobj=stream, mode="w") as archive:
            while following is not None and stream.tell() < SHARD_BYTES:
                row, content = following
                entry = tarfile.TarInfo(row.member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
                written.append(replace(row, shard=shard))
                following = next(waiting, None)
        number += 1
    with replacing(folder / "train.tsv", "w") as manifest:
        for values in (COLUMNS, *map(astuple, written)):
            manifest.write("\t".join(map(str, values)) + "\n")
    return written
