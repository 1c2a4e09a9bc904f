"""AdamW (Loshchilov and Hutter, 2017), and StableAdamW (Wortsman et al., 2023), which clips its updates."""

from __future__ import annotations

import torch

from bertworks.train.options import OptimizerOptions

from .row import Row, blocks, counts, scale, squares


def adamw(row: Row, lr: float, step: int, options: OptimizerOptions) -> None:
    beta1, beta2 = options.betas
    at = torch.tensor(float(step), device=row.master.device)
    torch._fused_adamw_(
        [row.master], [row.sums], [row.kept["first"]], [row.kept["second"]], [], [at],
        lr=lr, beta1=beta1, beta2=beta2, weight_decay=row.decay, eps=options.eps, amsgrad=False, maximize=False,
    )  # fmt: skip


def stable_adamw(row: Row, lr: float, step: int, options: OptimizerOptions) -> None:
    """AdamW whose rate sinks, weight by weight, where the gradient is much larger than its second moment expects: that
    is where training in low precision comes off its path. Decay goes by the lowered rate too, as in the paper's
    algorithm 2 and the code that trained ModernBERT (the authors' own gist decays by the full rate).
    """
    kept = row.kept["first"], row.kept["second"]
    beta1, beta2 = (beta * (1 - beta ** (step - 1)) / (1 - beta**step) for beta in options.betas)  # bias corrected
    for sums, first, second in blocks(row.sums, *kept):
        first.lerp_(sums, 1 - beta1)
        second.mul_(beta2).addcmul_(sums, sums, value=1 - beta2)
        sums.div_(second.sqrt().clamp_(min=options.eps))
    surprise = (squares(row, row.sums) / counts(row)).sqrt_()
    for update, master, first, second in blocks(row.sums, row.master, *kept):
        torch.div(first, second.sqrt().add_(options.eps), out=update).add_(master, alpha=row.decay)
    scale(row, row.sums, 1 / surprise.clamp_(min=1))
    row.master.sub_(row.sums, alpha=lr)
