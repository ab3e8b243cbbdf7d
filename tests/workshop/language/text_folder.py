"""A folder with two archives of text and manifests of train and dev."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np


def make_texts(folder: Path) -> Path:
    """Write the folder."""
    rng = np.random.default_rng(0)
    names = ["cat", "dog", "man", "boy", "tree", "house", "road", "day"]
    verbs = ["sees", "likes", "finds", "leaves"]

    def lines(number: int) -> str:
        return "\n".join(f"The {rng.choice(names)} {rng.choice(verbs)} the {rng.choice(names)}." for _ in range(number))

    archive(
        folder / "old.tar.xz",
        {
            "SOURCE.md": "zebra",
            "novels/A_1900.txt": lines(60).replace("\n", "\n\n"),
            "sgd_dialogue.txt": "A shared zebu.\n" + lines(20),
        },
    )
    leak = "They walked for seven long days through the quiet old forest of home.\nStay with me."
    archive(folder / "new.tar.xz", {"tatoeba.txt": lines(80) + "\n" + leak, "more.txt": "A new thing."})
    manifest(folder / "train.tsv", [("a", "THE CAT LIKES THE ROAD"), ("b", "A QUOKKA")])
    manifest(
        folder / "dev.tsv",
        [
            ("a", "THE DOG SEES THE MAN"),
            ("b", "STAY WITH ME"),
            ("a", "THE BOY LIKES A UNICORN"),
            ("b", "THE DAY FINDS THE ROAD"),
            ("a", "THE MAN SEES THE DAY"),
            ("b", "HE WALKED FOR SEVEN LONG DAYS THROUGH THE QUIET OLD WOOD"),
        ],
    )
    return folder


def archive(path: Path, files: dict[str, str]) -> None:
    """Write an archive of text files."""
    with tarfile.open(path, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            tar.addfile(member, io.BytesIO(content.encode()))


def manifest(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write a manifest of speech."""
    lines = ["shard\tmember\tseconds\tcorpus\tspeaker\ttext"]
    lines += [f"x.tar\t{number}.opus\t1.0\t{corpus}\ts\t{text}" for number, (corpus, text) in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
