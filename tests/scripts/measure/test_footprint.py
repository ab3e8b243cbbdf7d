"""What the service takes on this machine."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_packages_of_an_environment(tmp_path: Path) -> None:
    """Each file counts once, for the package that installed it, and the largest package is the first."""
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    for name, size in (("small", 1_000_000), ("large", 3_000_000)):
        (packages / f"{name}-1.dist-info").mkdir(parents=True)
        (packages / f"{name}.py").write_bytes(bytes(size))
        (packages / f"{name}-1.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (packages / f"{name}-1.dist-info" / "RECORD").write_text(f"{name}.py,,\n")
    shown = run("measure/footprint.py", "--environment", tmp_path, "--rounds", 0, "--instances", folder=tmp_path).stdout
    assert shown.splitlines() == [
        f"{tmp_path}: 4 MB in 2 packages",
        "",
        "| package | MB |",
        "|---|---|",
        "| large | 3.0 |",
        "| small | 1.0 |",
    ]
