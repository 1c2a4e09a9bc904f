"""How frequent tokens are in a store, and the loss of a model that knows nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertworks.text.store import Store

ENOUGH = 20_000_000  # tokens: more move an entropy in its fourth place


def token_counts(store: Store, most: int = ENOUGH) -> NDArray[np.int64]:
    """[vocabulary] how often each token stands in a store, or in some of its shards, evenly spread, of `most` tokens.

    The unknown token is counted like the others: it is the text's own, and chosen as they are.
    """
    counts = np.zeros(store.vocab_size, np.int64)
    shards = len(store.facts)
    wanted = min(shards, -(-most * shards // max(store.tokens, 1)))
    for number in np.linspace(0, shards - 1, wanted).astype(int):
        counts += np.bincount(store.shard(int(number)).ids[: max(1, most // wanted)], minlength=len(counts))
    return counts


def unigram_entropy(stores: Sequence[Store], shares: Sequence[float] = (1.0,), most: int = ENOUGH) -> float:
    """Nats: the masked loss of a model that knows token frequencies only. `shares` are the stores' of the rows."""
    chances = np.zeros(stores[0].vocab_size)
    for store, share in zip(stores, shares, strict=True):
        counts = token_counts(store, most // len(stores))
        chances += share * counts / counts.sum()
    chances = chances[chances > 0]
    return float(-(chances * np.log(chances)).sum())
