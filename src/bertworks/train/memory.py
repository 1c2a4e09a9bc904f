"""How a machine says that its memory is short."""

from __future__ import annotations

import torch

SAID = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: Exception) -> bool:
    """Whether memory was short, which PyTorch sometimes says in words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(one in str(error) for one in SAID)
