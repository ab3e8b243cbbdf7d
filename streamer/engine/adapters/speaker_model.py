"""A model of Triton that tells the voices of streams apart. Any instance may hear any window: nothing stays here.

The networks are loaded with the first request, so a service in which nobody asks for speakers keeps no memory for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import triton_python_backend_utils as pb_utils

from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.requests import BatchMetrics
from streamer.models.speaker_networks import REQUIREMENT, find_speaker_networks, read_speaker_networks

if TYPE_CHECKING:
    from streamer.engine.speakers.networks import VoiceNetworks

_TOLD: Final[Mapping[str, object]] = {"TURNS": (), "UNTIL": 0, "MERGE": ()}  # what is told as JSON, if there is any


class TritonPythonModel:
    """An instance."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Prepare to answer. Nothing is loaded yet."""
        self._metrics = BatchMetrics(Instance(args))
        self._networks: VoiceNetworks | None = None
        self._reason = ""  # why there are no networks

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer the requests one by one."""
        with self._metrics.computing(requests):
            return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            networks = self._load()
        except Exception as error:  # whatever is wrong with the package
            self._reason = f"the networks of speakers cannot be used: {error}"
            pb_utils.Logger.log_error(self._reason)
        if self._reason:
            return _failure(self._reason)
        try:
            return _hear(networks, request)
        except Exception as error:  # an error in our code must not end the other requests of the batch
            return _failure(f"the voices could not be told apart: {error}")

    def _load(self) -> VoiceNetworks | None:
        if self._networks is None and not self._reason:
            library = find_speaker_networks()
            if library is None:
                self._reason = f"there are no networks of speakers on this machine: install {REQUIREMENT}"
            else:
                from streamer.engine.speakers.networks import VoiceNetworks

                self._networks = VoiceNetworks(read_speaker_networks(library))
        return self._networks


def _hear(networks: VoiceNetworks | None, request: Any) -> Any:
    from streamer.engine.speakers.voices import (
        NOBODY,
        Voices,
        look_again,
        read_pieces,
        told_until,
        turns_of,
        written_pieces,
    )

    assert networks is not None
    count = _tensor(request, "VOICES")
    voices = 0 if count is None else int(count.item())
    all_pieces = _tensor(request, "PIECES")
    if all_pieces is not None:
        turns = turns_of(look_again(read_pieces(all_pieces.item()), voices))
        return _response({"TURNS": turns})
    samples, place = _tensor(request, "AUDIO"), _tensor(request, "PLACE")
    if samples is None or place is None:
        return _failure("a request needs AUDIO and PLACE, or PIECES")
    samples = samples.reshape(-1)
    begin, since, whole, enrolled = (int(each) for each in place.reshape(-1))
    end = begin + len(samples)
    memory = _tensor(request, "MEMORY")
    known = Voices(b"" if memory is None else memory.item())
    runs = networks.hear(samples, since - begin)
    if enrolled != NOBODY:
        own = known.enrol(runs, begin, enrolled)
        return _response({}, known.written, written_pieces(own))
    until = end if whole else told_until(runs, begin, since, end)
    pieces = known.take(runs, begin, since, voices, until)
    told = {"TURNS": turns_of(pieces, 0), "UNTIL": until, "MERGE": known.merge() or ()}
    return _response(told, known.written, written_pieces(pieces))


def _tensor(request: Any, name: str) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def _response(told: Mapping[str, object], memory: bytes = b"", pieces: bytes = b"") -> Any:
    texts = {name: json.dumps(told.get(name, default)).encode() for name, default in _TOLD.items()}
    contents = {**texts, "MEMORY": memory, "PIECES": pieces}
    tensors = [pb_utils.Tensor(name, np.array([[content]], np.object_)) for name, content in contents.items()]
    return pb_utils.InferenceResponse(tensors)


def _failure(reason: str) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(reason))
