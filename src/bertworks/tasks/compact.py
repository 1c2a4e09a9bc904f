"""Train the part of the embedding table that the rows use.

Half of a small model's weights are vectors of words, and most of these words are in no row: without a gradient nothing
is learnt of them, yet each step's optimizer would go over them. So while training lasts the table holds only those that
occur. (Weight decay would have shrunk the others by lr × decay a step; they stay as they were.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.models.encoder import Model

from .features import Features

WORTH = 0.9  # of the table: with more in use it stays whole


@dataclass(frozen=True)
class Compact:
    """The whole table [vocabulary, size], and which of its rows are trained [kept]."""

    whole: Tensor
    kept: NDArray[np.int64]

    def of(self, features: Features) -> Features:
        """The same features by the numbers of the small table."""
        return replace(features, ids=np.searchsorted(self.kept, features.ids).astype(np.int32))

    @torch.no_grad()
    def restore(self, model: Model) -> None:
        """The whole table again, with what was learnt in it."""
        tokens = model.encoder.embeddings.tokens
        self.whole[torch.from_numpy(self.kept)] = tokens.weight.detach().to(self.whole)
        _give(tokens, self.whole)


def compacted(model: Model, parts: Sequence[Features]) -> Compact | None:
    """Make the model's table small; None where that gains nothing, or where a masked-LM decoder wants all of it."""
    tokens = model.encoder.embeddings.tokens
    if "masked_lm" in model.heads or not tokens.weight.requires_grad:
        return None
    # What stands up to the padding keeps its number: positions may be counted by it.
    first = np.arange((tokens.padding_idx or 0) + 1)
    kept = np.unique(np.concatenate([first, *(part.ids for part in parts)])).astype(np.int64)
    if len(kept) > WORTH * len(tokens.weight):
        return None
    whole = tokens.weight.detach()
    _give(tokens, whole[torch.from_numpy(kept)])
    return Compact(whole, kept)


def _give(tokens: nn.Embedding, table: Tensor) -> None:
    tokens.weight = nn.Parameter(table)
    tokens.num_embeddings = len(table)
