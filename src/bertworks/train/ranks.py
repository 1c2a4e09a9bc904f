"""The processes that train together, as torchrun starts them. Alone, nothing here sends anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from bertworks.errors import BertworksError

HERE = torch.device("cpu")
PATIENCE = timedelta(minutes=30)  # a rank may lay out a large store, or write a large checkpoint, while others wait


@dataclass(frozen=True)
class Ranks:
    """This process among `count`. `on`: where what is sent between them lies."""

    rank: int = 0
    count: int = 1
    on: torch.device = HERE

    @classmethod
    def joined(cls, device: torch.device) -> Ranks:
        """Meet the others that torchrun has started, if it has."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(on=device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise BertworksError(
                f"this process cannot join the others: {str(error).splitlines()[0]}",
                "start it with torchrun, which tells each process its rank",
            ) from error
        return cls(dist.get_rank(), dist.get_world_size(), device)

    @property
    def leads(self) -> bool:
        """Whether this is the one that speaks and writes."""
        return self.rank == 0

    def total(self, *tensors: Tensor) -> None:
        """Each tensor becomes its sum over the ranks, in place."""
        if self.count > 1:
            for one in tensors:
                dist.all_reduce(one)

    def sums(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Each number's sum over the ranks, which all name the same ones."""
        if self.count == 1:
            return dict(numbers)
        sent = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.on)
        self.total(sent)
        return dict(zip(numbers, sent.tolist(), strict=True))

    def joined_rows(self, own: Tensor) -> tuple[Tensor, int]:
        """The rows of all ranks one after another, and where this one's begin."""
        if self.count == 1:
            return own, 0
        sizes = self.sums({str(rank): float(len(own) * (rank == self.rank)) for rank in range(self.count)})
        first = int(sum(list(sizes.values())[: self.rank]))
        whole = own.new_zeros((int(sum(sizes.values())), *own.shape[1:]))
        whole[first : first + len(own)] = own
        self.total(whole)
        return whole, first

    def told(self, number: int) -> int:
        """What the leading rank says."""
        return int(self.sums({"it": number if self.leads else 0})["it"])

    def wait(self) -> None:
        """Until all are here."""
        self.told(0)

    def part(self, rows: int) -> tuple[int, int]:
        """From where to where this rank's share of so many rows goes."""
        return rows * self.rank // self.count, rows * (self.rank + 1) // self.count

    def leave(self) -> None:
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
