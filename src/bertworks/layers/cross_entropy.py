"""Cross entropy over a large vocabulary in as few passes over its scores as can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

AT_A_TIME = {"cpu": 2**20, "cuda": 2**26}  # scores that are in fp32 at one time: on a CPU what stays near the cores


def cross_entropy(scores: Tensor, labels: Tensor, count: float) -> Tensor:
    """The sum of scores' [rows, vocabulary] cross entropy with labels [rows], divided by `count`; rows of a negative
    label take no part. In fp32 whatever the scores are in.

    The gradient is made on the way there, some rows at a time, so the scores are read once and no fp32 copy of them is
    kept. (PyTorch's own goes over six arrays of that size.)

    >>> cross_entropy(torch.zeros(3, 8), torch.tensor([1, 7, -100]), 2)
    tensor(2.0794)
    """
    found: Tensor = _CrossEntropy.apply(scores, labels, count)  # type: ignore[no-untyped-call]
    return found


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, labels: Tensor, count: float) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        slopes = torch.empty_like(scores) if wanted else None
        total = torch.zeros((), dtype=torch.float32, device=scores.device)
        rows = max(1, AT_A_TIME.get(scores.device.type, 2**20) // scores.shape[1])
        for at in range(0, len(scores), rows):
            here = slice(at, at + rows)
            seen = labels[here] >= 0
            right = labels[here].clamp(min=0)[:, None]
            chances = scores[here].float().log_softmax(-1)
            total -= (chances.gather(1, right)[:, 0] * seen).sum()
            if slopes is not None:
                chances.exp_().scatter_add_(1, right, torch.full_like(right, -1, dtype=chances.dtype))
                slopes[here] = chances.mul_((seen / count)[:, None])
        ctx.save_for_backward(slopes)
        return total / count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return slopes if grads[0] == 1 else slopes * grads[0], None, None
