"""Forms, in pieces of any size, and options as text."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from streamer.wire.errors import WireError
from streamer.wire.native_upload import NativeUpload
from streamer.wire.upload import LONGEST_FIELDS, MOST_PARTS, Field, FormReader, is_form

TYPE = 'multipart/form-data; boundary="a--b"'
FILE = b"RIFF\r\n--a-\r\n\r\n--a--\r\n\0"
FORM = (
    b'a preamble\r\n--a--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nfast\r\n'
    b"--a--b\r\ncontent-disposition: form-data; name=empty\r\n\r\n\r\n"
    b'--a--b  \r\nContent-Type: audio/wav\r\nContent-Disposition: form-data; filename="na\\"me=x"; name="file"\r\n\r\n'
    + FILE
    + b'\r\n--a--b\r\nContent-Disposition: form-data; name="caf\xc3\xa9"\r\n\r\nau lait\r\n--a--b--\r\nan epilogue'
)
FIELDS = [Field("model", "fast"), Field("empty", ""), Field("café", "au lait")]


def read(form: bytes, sizes: list[int] | None = None, kind: str = TYPE) -> tuple[list[Field], bytes]:
    """The fields and the file of a form that comes in pieces of these sizes."""
    reader, fields, file = FormReader(kind), [], b""
    place = 0
    for size in [*(sizes or []), len(form)]:
        for part in reader.feed(form[place : place + size]):
            if isinstance(part, Field):
                fields.append(part)
            else:
                file += part
        place += size
    reader.finish()
    return fields, file


def test_a_form_is_read_in_pieces_of_any_size() -> None:
    """A form is read however it is cut, even if the file contains something like the boundary."""
    assert read(FORM) == read(FORM, [1] * len(FORM)) == (FIELDS, FILE)
    rng = random.Random(5)
    for _ in range(200):
        assert read(FORM, [rng.randrange(1, 60) for _ in range(20)]) == (FIELDS, FILE)


def test_a_large_file_is_not_kept() -> None:
    """A file comes out as it goes in; only bytes that may begin a boundary wait."""
    reader = FormReader(TYPE)
    head, _, _ = FORM.partition(FILE)
    given = list(reader.feed(head))
    assert given == FIELDS[:2]
    for _ in range(100):
        assert len(b"".join(part for part in reader.feed(bytes(16384)) if isinstance(part, bytes))) >= 16384 - 10


@pytest.mark.parametrize(
    ("form", "kind", "words"),
    [
        (FORM, "multipart/form-data", "no boundary"),
        (FORM, "multipart/form-data; boundary=" + "x" * 71, "no boundary"),
        (FORM[:-20], TYPE, "before its last boundary"),
        (b"", TYPE, "before its last boundary"),
        (b"--a--b--", TYPE, "no part with the name 'file'"),
        (b"--a--bx\r\n", TYPE, "not alone on its line"),
        (b"--a--b\r\nContent-Disposition: form-data\r\n\r\n", TYPE, "has no name"),
        (b"--a--b\r\nX: " + b"y" * 10_000, TYPE, "head of a part is longer"),
        (FORM.replace(b"fast", b"f" * (LONGEST_FIELDS + 1)), TYPE, "bytes together"),
        (FORM.replace(b'name="model"', b'name="file"'), TYPE, "two parts"),
        (FORM.replace(b"a preamble", b"--a--b\r\n\r\n"), TYPE, "has no name"),
    ],
)
def test_what_is_no_form_is_refused(form: bytes, kind: str, words: str) -> None:
    """The error says what is wrong, wherever the form is cut."""
    for sizes in ([], [1] * len(form)):
        with pytest.raises(WireError, match=words):
            read(form, sizes, kind)


def test_parts_have_a_bound() -> None:
    """A form cannot have any number of fields."""
    part = b'--a--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n'
    with pytest.raises(WireError, match=f"more than {MOST_PARTS} parts"):
        read(part * (MOST_PARTS + 1))


def test_random_bytes_do_no_harm() -> None:
    """Random bytes are read or refused."""
    rng = random.Random(6)
    for _ in range(300):
        changed = bytearray(FORM)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(changed))
            changed[place : place + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
        with suppress(WireError):
            read(bytes(changed), [rng.randrange(1, 80) for _ in range(10)])


@pytest.mark.parametrize(
    ("text", "value"), [("reader", "reader"), (" Reader ", "reader"), ("true", True), ("1", True), ("FALSE", False)]
)
def test_a_second_pass_is_a_word_or_a_flag(text: str, value: bool | str) -> None:
    """The word for a reader is read beside true and false, in any case, as all flags are."""
    upload = NativeUpload()
    upload.query([("second_pass", text)])
    assert json.loads(upload.start(1))["second_pass"] == value


def test_what_a_second_pass_may_be() -> None:
    """The refusal names the word beside true and false."""
    with pytest.raises(WireError, match='\'second_pass\' must be true, false or "reader", not "writer"'):
        NativeUpload().query([("second_pass", "writer")])


def test_forms_are_known_by_their_type() -> None:
    """The content type of a form is recognised in upper and lower case."""
    assert is_form("Multipart/Form-Data; boundary=x")
    assert not is_form("audio/wav")
