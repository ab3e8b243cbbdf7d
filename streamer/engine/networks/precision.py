"""The number formats in which torch computes the encoder."""

from __future__ import annotations

import torch

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def quick_precision(device: torch.device | str) -> str:
    """Return the number format in which torch is fastest: bfloat16 on processors that support it, else float32."""
    capabilities = torch.cpu.get_capabilities() if torch.device(device).type == "cpu" else {}
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
