"""What PyTorch may use of this machine: threads, device, number format."""

from __future__ import annotations

import os
import time

import torch

from bertworks.errors import InputError, nearest
from bertworks.system import cores_granted, cpu_has_bf16

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SPELLINGS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def use_granted_cores() -> None:
    """Keep PyTorch to the granted cores, unless the person has set a number themselves."""
    granted, together = cores_granted(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if together > 1:  # torchrun sets one thread for each process where nobody has said anything: share out the cores
        if os.environ.get("OMP_NUM_THREADS", "1") == "1":
            torch.set_num_threads(max(1, granted // together))
    elif "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > granted:
        torch.set_num_threads(granted)


def choose_device(wanted: str | torch.device = "auto") -> torch.device:
    if str(wanted) == "auto":  # each of the processes that torchrun starts on a machine has a GPU of its own
        own = f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "cuda"
        return torch.device(own if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise InputError(f"unknown device {wanted!r}", "choose auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {wanted} is not there: PyTorch sees no GPU", "choose --device cpu")
    return device


def choose_dtype(wanted: str | torch.dtype = "auto", device: torch.device | str = "cpu") -> torch.dtype:
    """bf16 where the device computes it natively, else fp32; or what was asked for by name."""
    if isinstance(wanted, torch.dtype):
        return wanted
    if wanted == "auto":
        gpu = torch.device(device).type == "cuda"
        native = torch.cuda.is_bf16_supported(including_emulation=False) if gpu else cpu_has_bf16()
        return torch.bfloat16 if native else torch.float32
    name = SPELLINGS.get(wanted, wanted)
    if name not in DTYPES:
        raise InputError(f"unknown dtype {wanted!r}", nearest(wanted, DTYPES) or f"choose auto, {', '.join(DTYPES)}")
    return DTYPES[name]


def matrix_peak(dtype: torch.dtype = torch.bfloat16, device: torch.device | str = "cpu", seconds: float = 0.3) -> float:
    """Operations a second of a large matrix product: the best of those that fit into the time, three at least."""
    device = torch.device(device)
    size = 2048 if device.type == "cpu" else 8192
    one, other = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    best, turns, begun = 0.0, 0, time.perf_counter()
    while turns < 3 or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        _ = one @ other
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2 * size**3 / (time.perf_counter() - started))
        turns += 1
    return best
