"""A repository with two recordings at a commit, and the tables of a small held-out set that is cut from them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.project import SAMPLES
from workshop.data.held_out import hash_of

FILES_HEADER = "file\trepository\tcommit\tblob\tpath\tlicence\n"
CUTS_HEADER = "member\tfile\tchannel\tstart\tend\tcorpus\tspeaker\tlabel\ttext\n"


@dataclass(frozen=True)
class Published:
    """A folder of repositories in which `anna/talks` has two recordings, and the folder of tables about them."""

    origin: Path
    tables: Path
    commit: str

    @property
    def repository(self) -> Path:
        """The repository with the recordings."""
        return self.origin / "anna" / "talks"

    def list_files(self, *, commit: str = "", blob: str = "", path: str = "sounds/talk.flac") -> None:
        """Write the table of files. The first one may have another commit, hash or path than it really has."""
        flac, mp3 = (
            hash_of((self.repository / "sounds" / name).read_bytes()) for name in ("talk.flac", "airplane.mp3")
        )
        rows = [
            f"talk\tanna/talks\t{commit or self.commit}\t{blob or flac}\t{path}\tMIT\n",
            f"plane\tanna/talks\t{self.commit}\t{mp3}\tsounds/airplane.mp3\tCC0\n",
        ]
        (self.tables / "held_out_files.tsv").write_text(FILES_HEADER + "".join(rows))

    def list_cuts(self, *cuts: str) -> None:
        """Write the table of recordings."""
        (self.tables / "held_out.tsv").write_text(CUTS_HEADER + "".join(f"{cut}\n" for cut in cuts))


CUTS = (
    "talk-01\ttalk\t0\t0.5\t2.25\ttalks\tanna\tagreed\tGOOD MORNING",
    "talk-02\ttalk\t0\t3.0\t4.0\ttalks\tanna\tsettled\tIT'S A LONG SENTENCE WITH EIGHT WORDS OR MORE",
    "plane-01\tplane\t0\t0.0\t1.0\tprompts\tbert\tsource\tTHE AIRPLANE",
)


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in this folder."""
    identity = ("-c", "user.name=anna", "-c", "user.email=anna@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def publish(folder: Path) -> Published:
    """Make the repository and the tables. A clone may ask it for a commit, and for single files, as GitHub allows."""
    published = Published(folder / "origin", folder / "tables", "")
    repository = published.repository
    (repository / "sounds").mkdir(parents=True)
    published.tables.mkdir()
    for name in ("talk.flac", "airplane.mp3"):
        shutil.copy(SAMPLES / name, repository / "sounds" / name)
    git(repository, "init", "--quiet")
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "add two recordings")
    published = Published(published.origin, published.tables, git(repository, "rev-parse", "HEAD"))
    published.list_files()
    published.list_cuts(*CUTS)
    return published
