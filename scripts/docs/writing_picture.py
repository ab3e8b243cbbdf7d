"""Makes docs/pictures/writing.svg, a moving picture of a transcript that is being written.

    python scripts/docs/writing_picture.py record    # runs the command in a terminal, writes writing.cast (asciicast)
    python scripts/docs/writing_picture.py draw      # draws writing.svg from it; --check only compares

The picture shows a real run: the embedded Triton recognises a recording that is played as fast as it was spoken. The
cast has everything that the terminal showed, with its times, and the picture has the same pace. Only the wait for the
service, before the audio begins, is cut to one second.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import numpy as np

from streamer.audio.audio_file import SAMPLE_RATE, read_audio

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURES: Final = ROOT / "docs" / "pictures"
CAST: Final = PICTURES / "writing.cast"
PICTURE: Final = PICTURES / "writing.svg"
RECORDING: Final = "audio_samples/talk.flac"
COMMAND: Final = ("python", "-m", "streamer", "--server", "embedded", "--paced", RECORDING)
COLUMNS: Final = 76
ROWS: Final = 12
PATIENCE_S: Final = 300.0

# Times of the picture, in seconds.
LEAD_S: Final = 1.0  # from the command to the first audio
STAY_S: Final = 4.0  # the complete transcript is shown for this long

# Sizes of the picture, in its own units.
CHARACTER: Final = 9.0
LINE: Final = 24
MARGIN: Final = 22
BAR: Final = 34
WAVE: Final = 44
BARS: Final = 152

SEQUENCE: Final = re.compile(r"\x1b\[(\d*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")
STYLE: Final = """
.window{fill:#11191c}.bar{fill:#1c272b}.dot{fill:#3b4a50}
text{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e8eef0;white-space:pre}
.name{fill:#93a3a9}.command{fill:#5fd3bc}.dim{fill:#7f9097}.wave{stroke:#3b4a50;stroke-width:2.6;stroke-linecap:round}
.heard{stroke:#2fb39b}.now{visibility:hidden}
text,.played,.heard{animation-duration:%(whole)ss;animation-iteration-count:infinite;animation-timing-function:step-end}
.played{animation-name:play;animation-timing-function:linear;transform-origin:0 0}
@keyframes play{0%%,%(begin)s%%{transform:scaleX(0)}%(end)s%%,100%%{transform:scaleX(1)}}
@media (prefers-reduced-motion:reduce){text,.played{animation:none!important}}
"""


@dataclass(frozen=True)
class Shown:
    """A line of the terminal for some time: its row, its text, and the first character that is dim."""

    row: int
    text: str
    firm: int
    begin_s: float
    end_s: float | None


def main() -> int:
    """Record, draw or check the picture. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "draw"))
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if the picture is out of date"
    )
    options = parser.parse_args()
    if options.action == "record":
        CAST.write_text(record(), encoding="utf-8")
        return 0
    picture = draw(CAST.read_text(encoding="utf-8"))
    if not options.check:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        print(f"{PICTURE.name} does not show {CAST.name}: run `python scripts/docs/writing_picture.py draw`.")
        return 1
    return 0


def record() -> str:
    """Run the command in a terminal. Returns its output with times, in the format of asciinema."""
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    # `--timing` prints on standard error, which is not shown, when the first audio was sent.
    command = [sys.executable, *COMMAND[1:], "--timing"]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=inside, stderr=subprocess.PIPE, cwd=ROOT, env=environment, text=True
    )
    os.close(inside)
    shown: list[tuple[float, str, str]] = []
    try:
        while data := _read(outside):
            shown.append((round(time.monotonic() - began, 3), "o", data))
        _, timing = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        os.close(outside)
    opened = re.search(r"([\d.]+)\s+\S+\s+session open", timing)
    if process.returncode or opened is None:
        raise SystemExit(f"The command failed:\n{timing}")
    shown.append((float(opened[1]), "m", "audio"))
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "command": " ".join(COMMAND)}
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *sorted(shown)))


def draw(cast: str) -> str:
    """Return the picture of a recorded run."""
    head, *events = map(json.loads, cast.splitlines())
    [audio_s] = [at_s for at_s, kind, _ in events if kind == "m"]
    samples = read_audio(ROOT / RECORDING)
    lines = list(_lines([(at_s - audio_s + LEAD_S, data) for at_s, kind, data in events if kind == "o"]))
    length_s = len(samples) / SAMPLE_RATE
    whole_s = LEAD_S + length_s + STAY_S
    rows = 2 + max(line.row for line in lines)
    width = round(2 * MARGIN + COLUMNS * CHARACTER)
    top = BAR + LINE
    wave_at = top + rows * LINE + WAVE // 2
    height = wave_at + WAVE // 2 + MARGIN
    last = " ".join(line.text for line in lines if line.end_s is None)

    def share(at_s: float) -> str:
        return f"{100 * max(0.0, at_s) / whole_s:.2f}"

    style = STYLE % {"whole": f"{whole_s:.2f}", "begin": share(LEAD_S), "end": share(LEAD_S + length_s)}
    prompt = f"$ {head['command']}"
    texts, frames = [_text(0, prompt, len(prompt), 'class="command"', top)], []
    for number, line in enumerate(lines):
        after = "" if line.end_s is None else f"{share(line.end_s)}%{{visibility:hidden}}"
        frames.append(
            f"@keyframes k{number}{{0%{{visibility:hidden}}{share(line.begin_s)}%{{visibility:visible}}{after}}}"
        )
        state = "" if line.end_s is None else 'class="now" '
        look = f'{state}style="animation-name:k{number}"'
        texts.append(_text(line.row + 1, line.text, line.firm, look, top))
    bars = _bars(samples, width - 2 * MARGIN)
    wave = f'd="{bars}" transform="translate({MARGIN} {wave_at})"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">',
            '<title id="t">A recording is transcribed while it is played</title>',
            f'<desc id="d">{escape(last)}</desc>',
            f"<style>{style}{''.join(frames)}</style>",
            f'<clipPath id="c"><rect class="played" width="{width - MARGIN}" height="{height}"/></clipPath>',
            f'<rect class="window" width="{width}" height="{height}" rx="9"/>',
            f'<path class="bar" d="M0 {BAR}V9a9 9 0 0 1 9-9H{width - 9}a9 9 0 0 1 9 9V{BAR}z"/>',
            *(f'<circle class="dot" cx="{MARGIN + 18 * place}" cy="{BAR // 2}" r="5"/>' for place in range(3)),
            *texts,
            f'<path class="wave" {wave}/>',
            f'<g clip-path="url(#c)"><path class="wave heard" {wave}/></g>',
            "</svg>\n",
        ]
    )


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode("utf-8")
    except OSError:  # the program has ended
        return ""


def _lines(events: list[tuple[float, str]]) -> Iterator[Shown]:
    """Yield the content of each line of the terminal, with its times. It knows the control codes of our command."""
    row = 0
    # By row: the text, how many of its characters are stable, and since when it is shown.
    standing: dict[int, tuple[str, int, float]] = {}
    for at_s, data in events:
        before = dict(standing)
        dim = False
        for part in SEQUENCE.finditer(data):
            text, firm, _ = standing.get(row, ("", 0, at_s))
            match part[2] or part[0]:
                case "\n":
                    row += 1
                case "\r":
                    pass  # the next code erases the line
                case "K":
                    standing.pop(row, None)
                case "A":
                    row -= 1
                case "m":
                    dim = part[1] == "2"
                case written:
                    standing[row] = (text + written, firm if dim else len(text + written), at_s)
        for place, (text, firm, since) in before.items():
            if standing.get(place, ("", 0, 0.0))[:2] == (text, firm):
                standing[place] = (text, firm, since)
            else:
                yield Shown(place, text, firm, since, at_s)
    for place, (text, firm, since) in standing.items():
        yield Shown(place, text, firm, since, None)


def _text(row: int, text: str, firm: int, look: str, top: int) -> str:
    dim = f'<tspan class="dim">{escape(text[firm:])}</tspan>' if text[firm:] else ""
    length = f"{len(text) * CHARACTER:g}"
    place = f'x="{MARGIN}" y="{top + row * LINE}" textLength="{length}" lengthAdjust="spacingAndGlyphs"'
    return f'<text {look} {place} xml:space="preserve">{escape(text[:firm])}{dim}</text>'


def _bars(samples: np.ndarray[tuple[int], np.dtype[np.int16]], width: int) -> str:
    """Return the waveform as vertical strokes around 0."""
    parts = np.array_split(samples.astype(np.float64), BARS)
    levels = np.array([np.sqrt(np.mean(part**2)) for part in parts])
    halves = np.maximum(1.0, levels / levels.max() * WAVE / 2)
    step = width / BARS
    return "".join(f"M{(place + 0.5) * step:.1f} {-half:.1f}V{half:.1f}" for place, half in enumerate(halves))


if __name__ == "__main__":
    raise SystemExit(main())
