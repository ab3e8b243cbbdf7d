"""What Triton tells an instance."""

from __future__ import annotations

import pytest

from streamer.engine.adapters.instance import Instance


@pytest.mark.parametrize(("kind", "gpu"), [("GPU", 1), ("CPU", None)])
def test_the_device_of_an_instance(kind: str, gpu: int | None) -> None:
    """An instance knows which GPU it may use, or that there is none for it."""
    args = {"model_config": "{}", "model_name": "model", "model_version": "1", "model_instance_name": "model_0"}
    assert Instance({**args, "model_instance_kind": kind, "model_instance_device_id": "1"}).gpu == gpu
