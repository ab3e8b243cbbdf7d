"""The networks of speakers are read out of the library that carries them, and nothing else passes for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.models.library import LibraryError
from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks


def test_the_installed_package_has_both_networks() -> None:
    library = find_speaker_networks()
    assert library is not None
    networks = read_speaker_networks(library)
    assert networks.segmentation[4:8] == networks.embedding[4:8] == b"ORTM"  # the format of onnxruntime
    assert len(networks.segmentation) == 1_594_080
    assert len(networks.embedding) == 6_975_920


def test_another_library_is_refused_by_name(tmp_path: Path) -> None:
    library = find_speaker_networks()
    assert library is not None
    other = next(library.parent.with_name("moonshine_voice.libs").glob("libonnxruntime*"))
    with pytest.raises(LibraryError, match=r"it has no segmentation_ort_data \(use moonshine-voice=="):
        read_speaker_networks(other)


def test_a_changed_network_is_refused(tmp_path: Path) -> None:
    library = find_speaker_networks()
    assert library is not None
    content = bytearray(library.read_bytes())
    place = content.find(read_speaker_networks(library).embedding)
    content[place + 5_000_000] ^= 1
    changed = tmp_path / library.name
    changed.write_bytes(content)
    with pytest.raises(LibraryError, match="embedding_ort_data is another one than expected"):
        read_speaker_networks(changed)


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 500, b"no library" * 99])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libmoonshine.so"
    path.write_bytes(content)
    with pytest.raises(LibraryError, match="cannot be read"):
        read_speaker_networks(path)


def test_a_library_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="cannot be read"):
        read_speaker_networks(tmp_path / "none.so")
