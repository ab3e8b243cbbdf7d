"""The recipe of the Zipformer in a clone of icefall: its network, its loss, its optimiser and its export.

Icefall itself needs k2, lhotse and others. What the recipe imports from them, but does not need here, is replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

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
