"""Low-rank adapters (Hu et al. 2021): beside a frozen matrix a narrow pair is learnt, and added into it in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, nearest


class Adapted(nn.Module):
    """[…, in] -> […, out]: a frozen linear layer and what was learnt beside it, nothing at first."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        bound = 1 / math.sqrt(base.in_features)
        drawn = torch.rand(rank, base.in_features, generator=generator) * 2 - 1
        self.down = nn.Parameter(drawn * bound)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        beside = nn.functional.linear(nn.functional.linear(x, self.down), self.up)
        return self.base(x) + beside * self.scale  # type: ignore[no-any-return]

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        self.base.weight.add_((self.up @ self.down) * self.scale)
        return self.base


def adapt(
    module: nn.Module, rank: int, alpha: float, targets: Sequence[str], generator: torch.Generator | None = None
) -> None:
    """Freeze the encoder and put adapters beside its linear layers of these names (query, key, value, out, up, down).
    A pooler and the heads are learnt whole.
    """
    blocks = module.get_submodule("encoder.stack.blocks")
    linear = {name: part for name, part in blocks.named_modules() if isinstance(part, nn.Linear)}
    known = sorted({name.rpartition(".")[2] for name in linear})
    for target in targets:
        if target not in known:
            raise ConfigError(
                f"task.lora_targets names {target!r}", nearest(target, known) or f"known: {', '.join(known)}"
            )
    for name, weight in module.get_submodule("encoder").named_parameters():
        weight.requires_grad_(name.startswith("pooler."))
    for name, part in linear.items():
        parent, _, own = name.rpartition(".")
        if own in targets:
            setattr(blocks.get_submodule(parent), own, Adapted(part, rank, alpha, generator))


def merge(module: nn.Module) -> None:
    """Put what the adapters learnt into the matrices that they stand beside."""
    for name, part in [(name, part) for name, part in module.named_modules() if isinstance(part, Adapted)]:
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, part.merged())
    module.requires_grad_(True)
