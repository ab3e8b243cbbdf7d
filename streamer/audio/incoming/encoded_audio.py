"""Tells by the first bytes whether audio is a file of some format, or raw samples."""

from __future__ import annotations

from typing import Final

# Enough bytes to recognise any format. MP3 and AAC need two frames.
ENOUGH: Final = 9_000

_BEGINNINGS: Final = (
    b"RIFF",
    b"RF64",
    b"riff",
    b"fLaC",
    b"OggS",
    b"ID3",
    b"FORM",
    b".snd",
    b"caff",
    b"\x1aE\xdf\xa3",
    b"FLV\x01",
    b"0&\xb2u\x8ef\xcf\x11",
    b"#!AMR",
)
_LONGEST_BEGINNING: Final = 12
# The kbit/s of each index, by version (MPEG 1, or else 2 and 2.5) and layer (1, 2, 3).
_BITRATES: Final = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES: Final = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def is_encoded(head: bytes, *, whole: bool = False) -> bool | None:
    """Return whether an audio file begins like this. None if more bytes are needed. `whole`: nothing follows."""
    if any(head.startswith(beginning) for beginning in _BEGINNINGS) or head[4:8] == b"ftyp":
        return True
    if len(head) < _LONGEST_BEGINNING:
        return False if whole else None
    length = _frame_bytes(head)
    if length is None:
        return False
    if length + 4 > len(head):
        return False if whole else None
    return _frame_bytes(head[length:]) is not None and head[length : length + 2] == head[:2]


def _frame_bytes(head: bytes) -> int | None:
    """Return the length of the MP3 or AAC frame that begins here. None if there is none."""
    bits = int.from_bytes(head[:4], "big")
    if bits >> 21 != 0x7FF:
        return None
    version, layer = bits >> 19 & 3, 4 - (bits >> 17 & 3)
    if layer == 4:  # AAC
        length = int.from_bytes(head[3:6], "big") >> 5 & 0x1FFF
        return length if bits >> 20 == 0xFFF and length > 7 else None
    index, rate = bits >> 12 & 15, bits >> 10 & 3
    if version == 1 or rate == 3 or not 1 <= index <= 14:
        return None
    bitrate, hertz = _BITRATES[version == 3, layer][index - 1] * 1000, _RATES[version][rate]
    if layer == 1:
        return (12 * bitrate // hertz + (bits >> 9 & 1)) * 4
    return (72 if layer == 3 and version != 3 else 144) * bitrate // hertz + (bits >> 9 & 1)
