"""Draws docs/pictures/architecture.svg: the rooms of the code on the way of a chunk of audio.

    python scripts/docs/architecture_picture.py [--check]

The picture is one drawing for bright and dark pages. docs/explanation/architecture.md has a row for each room.
The names in the frame of the bridge are its folders.
"""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Final, NamedTuple

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "architecture.svg"
WIDTH: Final = 960
HEIGHT: Final = 792
CHARACTER: Final = 7  # roughly the width of a character
STYLE: Final = """
text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#33454b}
.name{font-weight:600;fill:#10211f}.part{font-size:12.5px}.edge{font-size:12.5px;font-style:italic;fill:#6f8288}
.frame{fill:#f3f7f7;stroke:#b9c8c9}.room,.folder{fill:#fff;stroke:#7fa9a3}.pure{fill:#e2f4ef;stroke:#2f9a86}
.way{stroke:#1f7f6e;stroke-width:2;fill:none;marker-end:url(#head)}.head{fill:#1f7f6e}
@media (prefers-color-scheme:dark){
text{fill:#b8c7cb}.edge{fill:#8fa2a8}.name{fill:#f0f6f6}
.frame{fill:#172024;stroke:#3a4b51}.room,.folder{fill:#1f2b30;stroke:#4d7b74}.pure{fill:#143832;stroke:#3fa892}
.way{stroke:#4cc2ac}.head{fill:#4cc2ac}}
"""


DRIVER: Final = "driver: one task for each session reads, another sends"
SESSION: Final = "a session as state machines: input, deadlines, messages to the client"
BATCHER: Final = "part of Triton: a stream stays with its instance; all streams with audio are one batch"
UPSTREAMS: Final = "the Tritons: their health, slots and probes; models on demand; the number of instances"
ENGINE: Final = "adapters to Triton; slots; features, encoder, activity; search and language; segment ends; text"


class Box(NamedTuple):
    """A rectangle with a name and its content."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    name: str
    words: str = ""


class Way(NamedTuple):
    """An arrow from one point to another, with words beside it."""

    begin: tuple[int, int]
    end: tuple[int, int]
    words: str = ""


BOXES: Final = (
    # Who speaks.
    Box(20, 16, 920, 112, "frame", "Clients"),
    Box(36, 44, 208, 70, "room", "commands", "the command line, its display and its checks"),
    Box(260, 44, 208, 70, "room", "client", "Python: asynchronous and blocking"),
    Box(484, 44, 208, 70, "room", "web", "the web page and the JavaScript client"),
    Box(708, 44, 216, 70, "room", "your program", "a websocket and JSON"),
    # The bridge.
    Box(20, 176, 920, 270, "frame", "bridge: no torch, one process or several workers"),
    Box(36, 204, 90, 33, "folder", "http"),
    Box(136, 204, 90, 33, "folder", "grpc"),
    Box(36, 243, 190, 33, "folder", "uploads"),
    Box(36, 282, 190, 33, "folder", "dialects"),
    Box(36, 321, 190, 33, "folder", "access"),
    Box(250, 204, 184, 150, "folder", "the bridge itself", f"{DRIVER}; resumption; the service; its control"),
    Box(458, 204, 206, 150, "pure", "session", f"{SESSION}. Pure: no sockets, no clocks, no threads"),
    Box(688, 204, 236, 110, "folder", "upstreams", UPSTREAMS),
    Box(688, 321, 120, 33, "folder", "telemetry"),
    Box(818, 321, 106, 33, "folder", "workers"),
    Box(250, 378, 674, 54, "folder", "triton", "one gRPC stream for many sessions; starts and guards the server"),
    # The server.
    Box(20, 492, 920, 148, "frame", "Triton: the real server, embedded or elsewhere"),
    Box(36, 520, 260, 106, "room", "sequence batcher", BATCHER),
    Box(330, 520, 238, 48, "room", "asr_repo", "the model repository"),
    Box(330, 578, 238, 48, "room", "heads", "the recogniser in steps"),
    Box(602, 520, 322, 106, "room", "engine", f"{ENGINE}. Knows neither Triton nor sockets"),
    # The ground, and what stands beside.
    Box(20, 668, 560, 108, "frame", "Rooms on the ground"),
    Box(36, 696, 124, 66, "pure", "wire", "messages"),
    Box(170, 696, 150, 66, "room", "audio", "microphones, decoders"),
    Box(330, 696, 112, 66, "room", "models", "public models"),
    Box(452, 696, 114, 66, "room", "base", "text, limits, machine"),
    Box(600, 668, 340, 108, "frame", "For tests, and beside the product"),
    Box(616, 696, 150, 66, "room", "testing", "exact service, proxy with faults"),
    Box(776, 696, 148, 66, "room", "workshop", "makes the model; soak, attack"),
)
WAYS: Final = (
    Way((440, 128), (440, 174), "audio"),
    Way((520, 174), (520, 130), "words, while they are spoken"),
    Way((226, 279), (248, 279)),
    Way((434, 270), (456, 270)),
    Way((664, 260), (686, 260)),
    Way((672, 260), (672, 376)),
    Way((300, 432), (300, 490), "steps"),
    Way((340, 490), (340, 434), "events"),
    Way((296, 544), (328, 544)),
    Way((568, 544), (600, 544)),
    Way((568, 602), (600, 602)),
)


def main() -> int:
    """Draw or check the picture. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if the picture is out of date"
    )
    options = parser.parse_args()
    picture = draw()
    if not options.check:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        print(f"{PICTURE.name} is out of date: run `python scripts/docs/architecture_picture.py` to draw it again.")
        return 1
    return 0


def draw() -> str:
    """Return the whole picture."""
    head = 'id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
            '<title id="t">The rooms of Streamer</title>',
            '<desc id="d">Clients send audio to the bridge and get words from it. Within the bridge it goes from http',
            "through the driver and the session to upstreams, over one gRPC stream to Triton, and there through the",
            "sequence batcher and asr_repo to the engine. Below stand the rooms that others use.</desc>",
            f"<style>{STYLE}</style>",
            f'<marker {head} markerUnits="userSpaceOnUse"><path class="head" d="M0 0L8 4L0 8z"/></marker>',
            *(line for box in BOXES for line in _box(box)),
            *(line for way in WAYS for line in _way(way)),
            "</svg>\n",
        ]
    )


def _box(box: Box) -> list[str]:
    drawn = [
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="7"/>',
        f'<text class="name" x="{box.x + 12}" y="{box.y + 20}">{escape(box.name)}</text>',
    ]
    return drawn + [
        f'<text class="part" x="{box.x + 12}" y="{box.y + 39 + 17 * place}">{escape(line)}</text>'
        for place, line in enumerate(wrap(box.words, (box.width - 20) // CHARACTER))
    ]


def _way(way: Way) -> list[str]:
    (x, y), (to_x, to_y) = way.begin, way.end
    drawn = [f'<path class="way" d="M{x} {y}L{to_x} {to_y}"/>']
    if way.words:
        before = to_y > y
        place = f'x="{x - 10}" text-anchor="end"' if before else f'x="{x + 10}"'
        drawn.append(f'<text class="edge" {place} y="{(y + to_y) // 2 + 5}">{escape(way.words)}</text>')
    return drawn


if __name__ == "__main__":
    raise SystemExit(main())
