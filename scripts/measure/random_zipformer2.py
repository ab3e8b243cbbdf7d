"""Makes the folder of a Zipformer-2 of real size with random weights, by the code that exports public models.

    git clone https://github.com/k2-fsa/icefall
    .venv/bin/python scripts/measure/random_zipformer2.py icefall small FOLDER       12 million parameters
    .venv/bin/python scripts/measure/random_zipformer2.py icefall large FOLDER       66 million, the usual size

Its words mean nothing, but it costs as much as a real model. About one frame in six has a token, as with real speech.
Only the network and the export of icefall are used, so k2 and other packages are not needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.engine.public.graph_model import Fbank
from streamer.engine.public.sessions import open_graph
from streamer.models.layout import FRAME_LEAD, ContextTransducer
from streamer.models.model_folder import read_model_folder
from workshop.zipformer2 import open_export, open_recipe

RECORDING: Final = Path("audio_samples/talk.flac")
TOKENS: Final = 500
SPEAKING: Final = 1 / 6  # the frames with a token


@dataclass(frozen=True)
class Size:
    """The numbers of a network for each of its six stacks of layers."""

    layers: tuple[int, ...]
    widths: tuple[int, ...]
    unmasked: tuple[int, ...]
    feedforward: tuple[int, ...]
    joined: int


SIZES: Final = {
    "small": Size((2,) * 6, (128, 160, 192, 256, 192, 160), (128,) * 6, (256, 320, 480, 640, 480, 320), 320),
    "large": Size(
        (2, 2, 3, 4, 3, 2),
        (192, 256, 384, 512, 384, 256),
        (192, 192, 256, 256, 256, 192),
        (512, 768, 1024, 1536, 1024, 768),
        512,
    ),
}


def main() -> None:
    """Make the folder."""
    parser = argparse.ArgumentParser(description="Makes a Zipformer-2 of real size with random weights.")
    parser.add_argument("icefall", type=Path, help="a clone of icefall")
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("folder", type=Path, help="where to write it")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    module = open_recipe(options.icefall)
    export = open_export(options.icefall, "export-onnx-streaming.py")
    _write(module, export, SIZES[options.size], options.folder)
    _quieten(options.folder)


def _write(module: Callable[[str], Any], export: Any, size: Size, folder: Path) -> None:
    imported = {name: module(name) for name in ("decoder", "joiner", "scaling", "subsampling")}
    zipformer, converter = module("zipformer"), module("scaling_converter")
    dropout = imported["scaling"].ScheduledFloat((0.0, 0.3), (20000.0, 0.1))
    torch.manual_seed(0)
    network = torch.nn.ModuleDict(
        {
            "embed": imported["subsampling"].Conv2dSubsampling(80, size.widths[0], dropout=dropout),
            "encoder": zipformer.Zipformer2(
                output_downsampling_factor=2,
                downsampling_factor=(1, 2, 4, 8, 4, 2),
                num_encoder_layers=size.layers,
                encoder_dim=size.widths,
                encoder_unmasked_dim=size.unmasked,
                query_head_dim=(32,),
                pos_head_dim=(4,),
                value_head_dim=(12,),
                pos_dim=48,
                num_heads=(4, 4, 4, 8, 4, 4),
                feedforward_dim=size.feedforward,
                cnn_module_kernel=(31, 31, 15, 15, 15, 31),
                dropout=dropout,
                warmup_batches=4000.0,
                causal=True,
                chunk_size=(16,),
                left_context_frames=(128,),
            ),
            "decoder": imported["decoder"].Decoder(TOKENS, size.joined, 0, 2),
            "joiner": imported["joiner"].Joiner(max(size.widths), size.joined, size.joined, TOKENS),
        }
    ).eval()
    print(f"{sum(weight.numel() for weight in network.parameters()) / 1e6:.1f} million parameters")
    converter.convert_scaled_to_non_scaled(network, inplace=True)
    parts: list[Any] = [network[part] for part in ("encoder", "decoder", "joiner")]
    encoder, decoder, joiner = parts
    with torch.no_grad():
        for weight in network.parameters():  # layers of a stack begin as copies, which the export would merge
            weight.mul_(1 + 0.05 * torch.randn_like(weight))
        torch.nn.init.normal_(joiner.output_linear.weight, 0, 0.3)
        wrapped = export.OnnxEncoder(encoder=encoder, encoder_embed=network["embed"], encoder_proj=joiner.encoder_proj)
        export.export_encoder_model_onnx(wrapped, str(folder / "encoder.onnx"), opset_version=13)
        wrapped = export.OnnxDecoder(decoder=decoder, decoder_proj=joiner.decoder_proj)
        export.export_decoder_model_onnx(wrapped, str(folder / "decoder.onnx"), opset_version=13)
        wrapped = export.OnnxJoiner(output_linear=joiner.output_linear)
        export.export_joiner_model_onnx(wrapped, str(folder / "joiner.onnx"), opset_version=13)
    words = ["<blk>", "<sos/eos>", "<unk>", *(f"▁{number}" for number in range(TOKENS - 3))]
    (folder / "tokens.txt").write_text("".join(f"{word} {number}\n" for number, word in enumerate(words)))


def _quieten(folder: Path) -> None:
    """Make the blank so likely that there is a token in few frames."""
    public = read_model_folder(folder)
    layout, transducer = public.layout, public.transducer
    assert isinstance(transducer, ContextTransducer)
    encoder, decoder, joiner = map(open_graph, (public.encoder, transducer.predictor, transducer.joiner))
    features = Fbank(layout.features, layout.mels)
    speech = read_audio(RECORDING)[: 8 * SAMPLE_RATE]
    window = layout.step_samples + layout.ahead_samples
    feeds = {port.input.name: np.zeros(port.shape, np.float32) for port in layout.states[:-1]}
    feeds[layout.states[-1].input.name] = np.zeros(1, np.int64)
    predicted = decoder.run(None, {"y": np.zeros((1, transducer.context), np.int64)})[0]
    leads = []
    for start in range(FRAME_LEAD, len(speech) - window, layout.step_samples):
        energies = features(speech[None, start - FRAME_LEAD : start + window])
        frames, *states = encoder.run(None, {"x": energies, **feeds})
        feeds = dict(zip(feeds, states, strict=True))
        for frame in frames[0]:
            [scores] = joiner.run(None, {"encoder_out": frame[None], "decoder_out": predicted})
            leads.append(scores[0, 3:].max() - scores[0, 0])
    model = onnx.load(str(transducer.joiner.path))
    [bias] = [weight for weight in model.graph.initializer if list(weight.dims) == [TOKENS]]
    values = numpy_helper.to_array(bias).copy()
    values[0] += np.quantile(leads, 1 - SPEAKING)
    bias.CopyFrom(numpy_helper.from_array(values, bias.name))
    onnx.save(model, str(transducer.joiner.path))


if __name__ == "__main__":
    main()
