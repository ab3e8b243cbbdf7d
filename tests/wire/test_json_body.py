"""JSON with a recording in base64, in pieces of any size."""

from __future__ import annotations

import base64
import json
import random

import pytest

from streamer.wire.errors import WireError
from streamer.wire.json_body import JsonReader
from streamer.wire.upload import LONGEST_FIELDS, Field

FILE = bytes(range(256)) * 3 + b"\xff\xff\xff??>>"  # its base64 has slashes, pluses and padding
DATA = base64.b64encode(FILE).decode()
BODY = {"model": "fast", "stream": True, "input_audio": {"format": "wav", "data": DATA}, "language": "en", "n": 1.5}
EARLY = [Field("model", "fast"), Field("stream", "true")]
LATE = [Field("language", "en"), Field("n", "1.5")]


def read(body: bytes, sizes: list[int] | None = None) -> tuple[list[Field], bytes, list[Field]]:
    """The fields before the recording, the recording, and the fields after it, of a body in pieces of these sizes."""
    reader, early, file = JsonReader(), [], b""
    place = 0
    for size in [*(sizes or []), len(body)]:
        for part in reader.feed(body[place : place + size]):
            if isinstance(part, Field):
                assert not reader.has_file
                early.append(part)
            else:
                file += part
        place += size
    return early, file, list(reader.finish())


def test_json_is_read_in_pieces_of_any_size() -> None:
    """The recording and its fields are the same however the body is cut, and with escaped slashes too."""
    plain = json.dumps(BODY).encode()
    for body in (plain, plain.replace(b"/", b"\\/"), json.dumps(BODY, indent=2).encode()):
        assert read(body) == read(body, [1] * len(body)) == (EARLY, FILE, LATE)
        rng = random.Random(5)
        for _ in range(100):
            assert read(body, [rng.randrange(1, 60) for _ in range(40)]) == (EARLY, FILE, LATE)


@pytest.mark.parametrize("data", [DATA.rstrip("="), f"data:audio/wav;base64,{DATA}"])
def test_other_forms_of_the_recording(data: str) -> None:
    """Base64 without its padding and an address with the recording in it are read too."""
    body = json.dumps({"input_audio": {"data": data}}).encode()
    assert read(body) == read(body, [1] * len(body)) == ([], FILE, [])


def test_lists_are_repeated_fields() -> None:
    """A list has a field for each of its values, and what has no text is left out."""
    body = {"keywords": ["Ada", "Grace"], "prompt": None, "provider": {"a": 1}, "input_audio": {"data": ""}}
    assert read(json.dumps(body).encode()) == ([Field("keywords", "Ada"), Field("keywords", "Grace")], b"", [])


def test_a_large_recording_is_not_kept() -> None:
    """A recording comes out as it goes in."""
    reader = JsonReader()
    assert list(reader.feed(b'{"input_audio": {"data": "')) == []
    for _ in range(100):
        assert len(b"".join(part for part in reader.feed(b"A" * 16384) if isinstance(part, bytes))) >= 12280


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{}", "has no recording"),
        ("[1]", "must be a JSON object"),
        ('{"input_audio": "a", "data": "b"}', "has no recording"),
        ('{"input_audio": {"data": "QUJD"', "not valid JSON"),
        ('{"input_audio": {"data": "QUJD', "not valid JSON"),
        ('{"a": {"input_audio": {"data": "QUJD"}}}', "not valid JSON"),
        ('{"input_audio": {"data": "QUJD"}, "input_audio": 1}', "has no recording"),
        ('{"input_audio": {"data": "QU#D"}}', "not valid base64"),
        ('{"input_audio": {"data": "QQ==QUJD"}}', "not valid base64"),
        ('{"input_audio": {"data": "Q\\u0041=="}}', "not valid base64"),
        ('{"input_audio": {"data": "Q"}}', "not valid base64"),
        ("{" * 5000, "not valid JSON"),
        (f'{{"prompt": "{"a" * LONGEST_FIELDS}"', "more than"),
        (f'{{"input_audio": {{"data": ""}}, "prompt": "{"a" * LONGEST_FIELDS}"}}', "more than"),
    ],
)
def test_what_is_no_such_document_is_refused(body: str, words: str) -> None:
    """The sentence says what is wrong, however the body is cut."""
    for sizes in ([], [1] * len(body) if len(body) < 1000 else [999] * 100):
        with pytest.raises(WireError, match=words):
            read(body.encode(), sizes)
