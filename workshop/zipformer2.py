"""Trains a small streaming Zipformer-2 with CTC by icefall's recipe in some minutes, and exports it.

The network, its loss, its optimiser and its schedule are those of icefall's recipe. The tokens are whole words, so this
is for a small vocabulary: a model for usual speech would have pieces of words, as the recipe makes them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import kaldi_native_fbank as knf
import numpy as np
import torch
from numpy.typing import NDArray

SAMPLE_RATE: Final = 16_000
MELS: Final = 80
SILENCE_S: Final = (0.1, 0.6)  # before and after each recording, so that the last words are heard at its end
BATCH_FRAMES: Final = 1000  # of 10 ms
RATE: Final = 0.045  # the recipe's own
WARM_UP: Final = 100.0  # batches
COOLING: Final = 0.4  # in this last part of the time the rate falls to zero
WIDTHS: Final = (96, 144, 96)
# The network of the recipe skips layers at random for up to 20 000 batches. A short training has some hundreds, so each
# of them counts as this many.
HASTE: Final = 20.0


@dataclass(frozen=True)
class Spoken:
    """A recording with its words."""

    samples: NDArray[np.int16]
    words: tuple[str, ...]


def tokens_of(recordings: Sequence[Spoken]) -> list[str]:
    """Return the tokens of a model: the blank, and all words of these recordings."""
    return ["<blk>", *(f"▁{word}" for word in sorted({word for spoken in recordings for word in spoken.words}))]


def features(samples: NDArray[np.int16]) -> torch.Tensor:
    """Return the features that public models expect: Kaldi's filterbank [frames, mels]."""
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = SAMPLE_RATE
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = MELS
    options.mel_opts.high_freq = -400
    extractor = knf.OnlineFbank(options)
    before, after = (np.zeros(round(seconds * SAMPLE_RATE), np.float32) for seconds in SILENCE_S)
    extractor.accept_waveform(SAMPLE_RATE, np.concatenate([before, samples.astype(np.float32) / 32768, after]))
    extractor.input_finished()
    return torch.from_numpy(np.stack([extractor.get_frame(row) for row in range(extractor.num_frames_ready)]))


def batches(lengths: Sequence[int], random: np.random.Generator) -> Iterator[list[int]]:
    """Divide recordings of these lengths into batches of similar lengths, in any order, for one pass."""
    order = sorted(range(len(lengths)), key=lambda number: lengths[number] + random.uniform(0, 50))
    groups: list[list[int]] = [[]]
    for number in order:
        if groups[-1] and (len(groups[-1]) + 1) * lengths[number] > BATCH_FRAMES:
            groups.append([])
        groups[-1].append(number)
    for place in random.permutation(len(groups)):
        yield groups[place]


class CtcTraining:
    """The training of one network."""

    def __init__(self, icefall: Path, tokens: Sequence[str], seed: int, *, fixed_front: bool = False) -> None:
        """`fixed_front`: do not train the first layers. Their output is computed once, which saves most of the work."""
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._random = np.random.default_rng(seed)
        self._icefall = icefall
        self._fixed_front = fixed_front
        self._tokens = {token: number for number, token in enumerate(tokens)}
        self._module: Callable[[str], Any] = open_recipe(icefall)
        scaling = self._module("scaling")
        dropout = scaling.ScheduledFloat((0.0, 0.3), (20000.0, 0.1))
        encoder = self._module("zipformer").Zipformer2(
            output_downsampling_factor=2,
            downsampling_factor=(2, 4, 2),
            num_encoder_layers=(1, 2, 1),
            encoder_dim=WIDTHS,
            encoder_unmasked_dim=(96,) * 3,
            query_head_dim=(16,),
            pos_head_dim=(4,),
            value_head_dim=(12,),
            pos_dim=48,
            num_heads=(4,) * 3,
            feedforward_dim=tuple(2 * width for width in WIDTHS),
            cnn_module_kernel=(15, 15, 15),
            warmup_batches=500.0,
            dropout=dropout,
            causal=True,
            chunk_size=(16,),
            left_context_frames=(64,),
        )
        embed = self._module("subsampling").Conv2dSubsampling(MELS, WIDTHS[0], dropout=dropout)
        self.network = self._module("model").AsrModel(
            embed,
            encoder,
            encoder_dim=max(WIDTHS),
            vocab_size=len(tokens),
            use_transducer=False,
            use_ctc=True,
        )
        self.parameters = sum(weight.numel() for weight in self.network.parameters())

    def train(self, recordings: Sequence[Spoken], seconds: float, tell: Callable[[str], None]) -> None:
        """Train for this much processor time, and report the loss of each word now and then."""
        optim = self._module("optim")
        front = "encoder_embed." if self._fixed_front else "nothing"
        weights = [(name, weight) for name, weight in self.network.named_parameters() if not name.startswith(front)]
        named = [{"named_params": weights}]
        optimiser = optim.ScaledAdam(named, lr=RATE, clipping_scale=2.0)
        schedule = optim.Eden(optimiser, lr_batches=5000, lr_epochs=1000, warmup_batches=WARM_UP)
        inputs = [self._front(features(spoken.samples)) for spoken in recordings]
        labels_of = [[self._tokens[f"▁{word}"] for word in spoken.words] for spoken in recordings]
        lengths = [len(spoken.samples) * 100 // SAMPLE_RATE for spoken in recordings]
        began, loss_sum, words, step, passes = time.process_time(), 0.0, 0, 0, 0
        self.network.train()
        while True:
            passes += 1
            for group in batches(lengths, self._random):
                spent = time.process_time() - began
                if spent >= seconds:
                    return
                self._count(step)
                loss = self._loss([inputs[one] for one in group], [labels_of[one] for one in group])
                optimiser.zero_grad()
                loss.backward()
                schedule.step_batch(step)
                for group_of in optimiser.param_groups:
                    group_of["lr"] *= min(1.0, (seconds - spent) / (COOLING * seconds))
                optimiser.step()
                step += 1
                loss_sum, words = loss_sum + float(loss.detach()), words + sum(len(labels_of[one]) for one in group)
                if step % 20 == 0:
                    tell(f"{spent:5.0f} s, batch {step}, pass {passes}: loss {loss_sum / words:.3f} a word")
                    loss_sum, words = 0.0, 0

    def export(self, folder: Path) -> None:
        """Write the folder of a public model. The network cannot be trained any more."""
        folder.mkdir(parents=True, exist_ok=True)
        program = open_export(self._icefall, "export-onnx-streaming-ctc.py")
        network = self.network.eval()
        self._module("scaling_converter").convert_scaled_to_non_scaled(network, inplace=True)
        whole = program.OnnxModel(network.encoder, network.encoder_embed, network.ctc_output)
        with torch.no_grad():
            program.export_streaming_ctc_model_onnx(whole, str(folder / "model.onnx"), opset_version=13)
        lines = (f"{token} {number}\n" for token, number in self._tokens.items())
        (folder / "tokens.txt").write_text("".join(lines), encoding="utf-8")

    def _loss(self, inputs: Sequence[torch.Tensor], labels: Sequence[Sequence[int]]) -> torch.Tensor:
        rows = torch.nn.utils.rnn.pad_sequence([self._masked(each) for each in inputs], batch_first=True)
        frames = torch.tensor([len(each) for each in inputs])
        if self._fixed_front:
            encoded, lengths = self.network.encoder(rows.permute(1, 0, 2), frames, padding(frames))
            encoded = encoded.permute(1, 0, 2)
        else:
            encoded, lengths = self.network.forward_encoder(rows, frames)
        targets = torch.tensor([label for each in labels for label in each])
        loss: torch.Tensor = self.network.forward_ctc(
            encoded, lengths, targets, torch.tensor([len(each) for each in labels])
        )
        return loss

    def _front(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the input of the network: features, or the output of its first layers if these are fixed."""
        if not self._fixed_front:
            return rows
        embed = self.network.encoder_embed.eval()
        with torch.no_grad():
            embedded: torch.Tensor = embed(rows[None], torch.tensor([len(rows)]))[0][0]
        return embedded

    def _masked(self, rows: torch.Tensor) -> torch.Tensor:
        """Hide two bands of the spectrum, as the recipe does."""
        if self._fixed_front:
            return rows
        rows = rows.clone()
        for _ in range(2):
            width = int(self._random.integers(0, 20))
            start = int(self._random.integers(0, MELS - width))
            rows[:, start : start + width] = rows.mean()
        return rows

    def _count(self, step: int) -> None:
        """Tell the network the number of the batch, because some of its layers are gentle at the beginning."""
        for module in self.network.modules():
            if hasattr(module, "batch_count"):
                module.batch_count = HASTE * step


# The recipe of the Zipformer in a clone of icefall: its network, its loss, its optimiser and its export.

FOLDER: Final = Path("egs/librispeech/ASR/zipformer")
_SHIFTS: Final = {"swoosh_l": (4.0, 0.035), "swoosh_r": (1.0, 0.313261687)}


class RecipeError(Exception):
    """The folder is not a clone of icefall. The message says so."""


def open_recipe(icefall: Path) -> Callable[[str], Any]:
    """Return a function that imports a module of the recipe by its name, such as `zipformer`."""
    recipe = icefall / FOLDER
    if not (recipe / "zipformer.py").is_file():
        raise RecipeError(f"{icefall} is not a clone of icefall: it has no {FOLDER}/zipformer.py")
    sys.path.insert(0, str(recipe))
    swooshes = {name: _swoosh(*shift) for name, shift in _SHIFTS.items()}
    forward = {f"{name}_forward": swoosh for name, swoosh in swooshes.items()}
    derived = {f"{name}_forward_and_deriv": _with_derivative(*shift) for name, shift in _SHIFTS.items()}
    _stand_in("k2", RaggedTensor=object, **swooshes, **forward, **derived)
    _stand_in("lhotse")
    _stand_in("lhotse.dataset", SpecAugment=object)
    _stand_in("lhotse.utils", fix_random_seed=None)
    _stand_in("icefall")
    unused = dict.fromkeys(("add_sos", "num_tokens", "str2bool", "time_warp"))
    _stand_in("icefall.utils", torch_autocast=_Autocast, make_pad_mask=padding, **unused)
    names = ("average_checkpoints", "average_checkpoints_with_averaged_model", "find_checkpoints", "load_checkpoint")
    _stand_in("icefall.checkpoint", **dict.fromkeys(names))
    _stand_in("train", **dict.fromkeys(("add_model_arguments", "get_model", "get_params")))
    # In the repository this file is a link.
    _stand_in("encoder_interface", EncoderInterface=torch.nn.Module)
    return importlib.import_module


def open_export(icefall: Path, program: str) -> Any:
    """Load one of the recipe's programs that export models. After this, networks of this process are only traced."""
    path = icefall / FOLDER / program
    spec = importlib.util.spec_from_file_location("export", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise RecipeError(f"{icefall} has no {FOLDER / program}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported = torch.onnx.export
    torch.onnx.export = lambda *arguments, **named: exported(*arguments, **{**named, "dynamo": False})
    torch.jit.script = lambda network, *_: network  # everything is traced
    return module


def padding(lengths: torch.Tensor, longest: int = 0) -> torch.Tensor:
    """Return where the frames of each row are padding."""
    return torch.arange(max(longest, int(lengths.max())))[None] >= lengths[:, None]


class _Autocast:
    """Stands in for torch's autocast. It keeps the precision."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _swoosh(shift: float, offset: float) -> Any:
    return lambda x: torch.nn.functional.softplus(x - shift) - 0.08 * x - offset


def _with_derivative(shift: float, offset: float) -> Any:
    return lambda x: (_swoosh(shift, offset)(x), torch.sigmoid(x - shift) - 0.08)


def _stand_in(name: str, **content: Any) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module
