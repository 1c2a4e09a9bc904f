"""The one contract between text and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Named tensors, all [batch, length]; what is None the model fills in.

    ids        token ids
    segments   segment of each token (0, 1)
    real       booleans, False on padding
    sequences  number of the sequence within a packed row, 0 on padding
    """

    ids: Tensor
    segments: Tensor | None = None
    real: Tensor | None = None
    sequences: Tensor | None = None

    @classmethod
    def pad(
        cls, ids: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None, pad_id: int = 0
    ) -> Batch:
        """Rows of unequal length, padded on the right to the longest.

        >>> Batch.pad([[5, 6], [7]]).real
        tensor([[ True,  True],
                [ True, False]])
        """
        lengths = torch.tensor([len(row) for row in ids])
        longest = int(lengths.max())

        def square(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
            return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=torch.long)

        return cls(
            square(ids, pad_id),
            None if segments is None else square(segments, 0),
            torch.arange(longest) < lengths[:, None],
        )

    def to(self, device: torch.device | str) -> Batch:
        return Batch(**{name: tensor.to(device) for name, tensor in self.inputs().items()})

    def inputs(self) -> dict[str, Tensor]:
        """What is given, by name: `model(**batch.inputs())`."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in given.items() if tensor is not None}
