"""Which texts go through the model together: sorted by length, up to a budget of tokens, so little is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def by_tokens(lengths: Sequence[int], budget: int = 8192, most: int = 256) -> Iterator[list[int]]:
    """Indices in batches, longest first; a batch's longest text times its rows stays within `budget`.

    >>> list(by_tokens([3, 9, 4, 8], budget=18))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        if (batch and (len(batch) + 1) * lengths[batch[0]] > budget) or len(batch) == most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
