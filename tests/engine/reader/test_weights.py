"""The weights of a reader are found in the graphs in which they are published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.engine.reader.weights import DECODER_FILE, UnknownReader, read_weights
from tests.engine.reader.random_reader import LAYERS, WIDTH, random_weights, write_reader


@pytest.mark.parametrize("signed", [False, True], ids=["uint8", "int8"])
def test_all_weights_are_found_by_their_names(tmp_path: Path, signed: bool) -> None:
    """Both kinds of published graphs give the same weights, to the last bit."""
    expected = random_weights()
    write_reader(tmp_path, expected, signed=signed)
    found = read_weights(tmp_path)
    assert found.linear.keys() == expected.linear.keys()
    assert found.other.keys() == expected.other.keys()
    for name, weight in expected.linear.items():
        np.testing.assert_array_equal(found.linear[name].numbers, weight.numbers, name)
        np.testing.assert_array_equal(found.linear[name].full(), weight.full(), name)
    for name, values in expected.other.items():
        np.testing.assert_array_equal(found.other[name], values, name)
    assert (found.width, found.layers("encoder"), found.layers("decoder")) == (WIDTH, LAYERS, LAYERS)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """The message names the file that is no graph of Moonshine."""
    write_reader(tmp_path, random_weights(), signed=False)
    (tmp_path / DECODER_FILE).write_bytes(b"no graph")
    with pytest.raises(UnknownReader, match=DECODER_FILE):
        read_weights(tmp_path)
