"""Draws the losses and the learning rate of a run over its steps."""

from __future__ import annotations

import json
from pathlib import Path

NOT_LOSSES = {"step", "epoch", "hours", "minutes", "rate", "norm"}


def draw(run: Path) -> None:
    """Draw RUN/log.jsonl as RUN/curves.png."""
    from matplotlib.figure import Figure  # the import takes a second, and most processes of a run draw nothing

    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    if not rows:
        return
    figure = Figure(figsize=(9, 7))
    losses, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name in sorted({name for row in rows for name in row} - NOT_LOSSES):
        points = [row for row in rows if name in row]
        losses.plot([row["step"] for row in points], [row[name] for row in points], label=name)
    rate.plot([row["step"] for row in rows], [row["rate"] for row in rows])
    losses.set_ylabel("loss (weighted)")
    losses.legend()
    rate.set_ylabel("learning rate")
    rate.set_xlabel("step")
    partial = run / "curves.partial.png"
    figure.savefig(partial, dpi=80)
    partial.replace(run / "curves.png")
