"""Muon (Jordan et al., 2024): momentum whose matrices are made nearly orthogonal."""

from __future__ import annotations

from itertools import groupby

import torch
from torch import Tensor

from bertworks.system import cpu_has_bf16
from bertworks.train.options import OptimizerOptions

from .row import Row

QUINTIC = (3.4445, -4.7750, 2.0315)  # the published polynomial: steep at zero, so that five turns are enough
TURNS = 5
AT_A_TIME = {"cpu": 2**20, "cuda": 2**25}  # numbers of one batch of matrices: what stays near the cores


def muon(row: Row, lr: float, _: int, options: OptimizerOptions) -> None:
    """The update is made as large as AdamW's commonly is (root mean square 0.2: Liu et al., 2025), so one learning rate
    and decay serve both.
    """
    momentum = row.kept["momentum"]
    momentum.lerp_(row.sums, 1 - options.momentum)
    update = row.sums.lerp_(momentum, options.momentum)  # Nesterov's
    row.master.mul_(1 - lr * row.decay)
    at = 0
    for shape, same in groupby(row.shapes):
        end = at + shape.numel() * len(list(same))
        room = AT_A_TIME["cuda" if row.master.is_cuda else "cpu"] // shape.numel()
        stacks = [torch.split(whole[at:end].view(-1, *shape), max(1, room)) for whole in (update, row.master)]
        for some, master in zip(*stacks, strict=True):
            master.sub_(orthogonal(some, products(some.device)), alpha=lr * 0.2 * max(shape) ** 0.5)
        at = end


def orthogonal(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """[matrices, rows, columns] -> the same: USVᵀ becomes about UVᵀ (singular values of 0.7 to 1.2), by Newton-Schulz
    turns computed in `dtype` on the smaller side.
    """
    a, b, c = QUINTIC
    lengths: Tensor = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    x = (matrices / lengths.clamp_(min=1e-7)).to(dtype)
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    for _ in range(TURNS):
        square = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def products(device: torch.device) -> torch.dtype:
    """bf16, as published, where the machine multiplies it itself."""
    own = torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else cpu_has_bf16()
    return torch.bfloat16 if own else torch.float32
