"""A module whose weights are shared out over the ranks, by PyTorch's fully_shard (FSDP2).

Its imports take a second, so they wait until something is shared out.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from .ranks import Ranks


def shard(module: nn.Module, ranks: Ranks, dtype: torch.dtype) -> None:
    """Each rank keeps a share of each fp32 weight; a layer is put together in `dtype` while it computes, and gradients
    are summed in fp32. The members of a module's lists (its layers) are put together one at a time.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(ranks.on.type, (ranks.count,))
    policy = MixedPrecisionPolicy(None if dtype == torch.float32 else dtype, torch.float32)
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList)]
    for part in [member for members in lists for member in members] + [module]:
        fully_shard(part, mesh=mesh, mp_policy=policy)
    for part in module.modules():
        if isinstance(part, FSDPModule):  # losses are shares of the whole batch's: their gradients are added, as is
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)


def release(module: nn.Module) -> None:
    """Let go of what a forward pass without a way back has put together."""
    for part in module.modules():
        if hasattr(part, "reshard"):
            cast("Any", part).reshard()


def _is_shared(weight: Tensor) -> bool:
    return hasattr(weight, "to_local")


def local(weight: Tensor) -> Tensor:
    """This rank's share."""
    return cast("Tensor", cast("Any", weight).to_local()) if _is_shared(weight) else weight


def shared_as(weight: Tensor, share: Tensor) -> Tensor:
    """A rank's share of something of a weight's shape, as a part of the whole."""
    if not _is_shared(weight):
        return share
    from torch.distributed.tensor import DTensor

    like = cast("DTensor", weight)
    return DTensor.from_local(
        share, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def whole(weight: Tensor) -> Tensor:
    """Put together from all ranks' shares."""
    return cast("Tensor", cast("Any", weight).full_tensor()) if _is_shared(weight) else weight
