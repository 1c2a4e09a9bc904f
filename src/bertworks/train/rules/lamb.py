"""LAMB (You et al., 2019), as Google's code trained ALBERT with it."""

from __future__ import annotations

import torch

from bertworks.train.options import OptimizerOptions

from .row import Row, blocks, scale, squares


def lamb(row: Row, lr: float, _: int, options: OptimizerOptions) -> None:
    """Adam's update with the decay in it, made as long as the weight itself, so each matrix moves by the same share.

    Where paper and code disagree, this is the code, since that made the published models: moments are not corrected
    for their start at zero, biases and norms take the update as it is, and the length of a weight is not bounded.
    """
    beta1, beta2 = options.betas
    for update, master, first, second in blocks(row.sums, row.master, row.kept["first"], row.kept["second"]):
        first.lerp_(update, 1 - beta1)
        second.mul_(beta2).addcmul_(update, update, value=1 - beta2)
        torch.div(first, second.sqrt().add_(options.eps), out=update).add_(master, alpha=row.decay)
    if row.matrices:
        trust = (squares(row, row.master) / squares(row, row.sums)).sqrt_()
        scale(row, row.sums, trust.where(trust.isfinite() & (trust > 0), 1.0))  # as it is, where one of them is zero
    row.master.sub_(row.sums, alpha=lr)
