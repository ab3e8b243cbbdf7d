"""Recognises segments with sherpa-onnx, in a process of its own, because sherpa-onnx ends its process at bad files.

    python -m workshop.graphs.reference FOLDER SEGMENTS.npz < REQUEST.json

The request has the search, and the hotwords and the language of each segment. The program prints a JSON list: for each
segment the tokens as sherpa-onnx writes them, and the frame of each token.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import BEAM, GREEDY, LANGUAGE
from streamer.engine.public.beam import HOTWORD_BONUS
from streamer.engine.public.graph_model import halved
from streamer.engine.search.search import Hotword
from streamer.models.layout import FRAME_LEAD, Architecture, Family, SearchKind
from streamer.models.model_folder import PublicModel, read_model_folder

_FRAMES_S: Final = {
    Family(Architecture.T_ONE, SearchKind.CTC): 0.03,
    Family(Architecture.FASTCONFORMER, SearchKind.TRANSDUCER): 0.08,
    Family(Architecture.WHOLE_NEMO, SearchKind.TRANSDUCER): 0.08,
    Family(Architecture.WHOLE_NEMO, SearchKind.CTC): 0.08,
}
"""The length of a frame by which sherpa-onnx computes times. Frames of NeMo with CTC are twice as long in fact."""
_USUAL_FRAME_S: Final = 0.04
_WHOLE: Final = (Architecture.WHOLE_NEMO, Architecture.WHOLE_ICEFALL)
VOCABULARY = "bpe.vocab"
"""The pieces of a model, by which sherpa-onnx divides hotwords into tokens."""
TELEPHONE_STEP = 2400  # samples
_LIMIT_S = 3600

Reference = tuple[list[str], list[int]]
"""The tokens of a segment and their frames."""


def reference_tokens(
    folder: Path,
    segments: Sequence[NDArray[np.int16]],
    *,
    search: str = GREEDY,
    hotwords: Sequence[Sequence[Hotword]] | None = None,
    languages: Sequence[str] | None = None,
) -> list[Reference]:
    """Return what sherpa-onnx finds in these segments. Each gets a stream of its own with exactly these samples.

    `hotwords` and `languages` are for each segment. The heavier of two hotwords with a common beginning must come
    first, because otherwise sherpa-onnx takes back less of a bonus than it gave.
    """
    request = {
        "search": search,
        "hotwords": [_listed(each) for each in hotwords or [()] * len(segments)],
        "languages": list(languages or [LANGUAGE] * len(segments)),
    }
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "segments.npz"
        np.savez(path, *segments)
        command = [sys.executable, "-m", "workshop.graphs.reference", str(folder), str(path)]
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"sherpa-onnx failed: {done.stderr[-2000:]}")
    return [(tokens, frames) for tokens, frames in json.loads(done.stdout)]


def _listed(hotwords: Sequence[Hotword]) -> str:
    heaviest = sorted(hotwords, key=lambda hotword: -hotword.weight)
    return "/".join(f"{hotword.text} :{HOTWORD_BONUS * hotword.weight}" for hotword in heaviest)


def main() -> None:
    """Recognise all segments of the file."""
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    request = json.load(sys.stdin)
    recogniser = reference_recogniser(folder, request["search"])
    family = read_model_folder(folder).family
    telephone, whole = family.architecture is Architecture.T_ONE, family.architecture in _WHOLE
    rate, frame_s = 8_000 if telephone else 16_000, _FRAMES_S.get(family, _USUAL_FRAME_S)
    results = []
    with np.load(path) as segments:
        for name, hotwords, language in zip(segments.files, request["hotwords"], request["languages"], strict=True):
            stream = recogniser.create_stream(hotwords=hotwords) if hotwords else recogniser.create_stream()
            if whole:
                stream.accept_waveform(rate, segments[name].astype(np.float32) / 32768)
                recogniser.decode_stream(stream)
                result = stream.result
                results.append((result.tokens, [round(time / frame_s) for time in result.timestamps]))
                continue
            stream.set_option("language", language)
            samples = _telephone(segments[name]) if telephone else segments[name]
            stream.accept_waveform(rate, samples.astype(np.float32) / 32768)
            stream.input_finished()
            while recogniser.is_ready(stream):
                recogniser.decode_stream(stream)
            frames = [round(time / frame_s) for time in recogniser.timestamps(stream)]
            results.append((recogniser.tokens(stream), frames))
    json.dump(results, sys.stdout)


def _telephone(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return a segment at 8 kHz with one step more, because a step is computed only when another one has come."""
    mirrored = np.concatenate((samples[FRAME_LEAD - 1 :: -1], samples))
    return np.append(halved(mirrored), np.zeros(TELEPHONE_STEP, np.int16))


def reference_recogniser(folder: Path, search: str = "greedy") -> Any:
    """Load the model in this folder with sherpa-onnx, with this search and one thread."""
    import sherpa_onnx

    public: PublicModel = read_model_folder(folder)
    usual = {"tokens": str(folder / "tokens.txt"), "num_threads": 1}
    if public.family.architecture is Architecture.T_ONE:
        return sherpa_onnx.OnlineRecognizer.from_t_one_ctc(model=str(public.encoder.path), **usual)
    if public.family == Family(Architecture.FASTCONFORMER, SearchKind.CTC):
        return sherpa_onnx.OnlineRecognizer.from_nemo_ctc(model=str(public.encoder.path), **usual)
    if public.family == Family(Architecture.WHOLE_NEMO, SearchKind.CTC):
        return sherpa_onnx.OfflineRecognizer.from_nemo_ctc(model=str(public.encoder.path), **usual)
    if public.family == Family(Architecture.WHOLE_ICEFALL, SearchKind.CTC):
        return sherpa_onnx.OfflineRecognizer.from_zipformer_ctc(model=str(public.encoder.path), **usual)
    if public.transducer is None:
        return sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(model=str(public.encoder.path), **usual)
    if (folder / VOCABULARY).exists():
        usual |= {"modeling_unit": "bpe", "bpe_vocab": str(folder / VOCABULARY)}
    usual |= {
        "encoder": str(public.encoder.path),
        "decoder": str(public.transducer.predictor.path),
        "joiner": str(public.transducer.joiner.path),
        "decoding_method": "modified_beam_search" if search == BEAM else "greedy_search",
    }
    if public.family.architecture is Architecture.WHOLE_NEMO:
        return sherpa_onnx.OfflineRecognizer.from_transducer(model_type="nemo_transducer", **usual)
    if public.family.architecture is Architecture.WHOLE_ICEFALL:
        return sherpa_onnx.OfflineRecognizer.from_transducer(**usual)
    return sherpa_onnx.OnlineRecognizer.from_transducer(**usual)


if __name__ == "__main__":
    main()
