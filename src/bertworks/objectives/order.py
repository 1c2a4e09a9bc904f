"""The order of examples as arithmetic: a keyed permutation of 0 … count-1, with no list behind it.

A Feistel network mixes the bits of a position under a key; positions that land past `count` go round again until they
fall inside. It costs the same for a thousand examples as for a billion, so resuming anywhere is instant.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .draws import ORDER, Bits, bits, key

ROUNDS = 6


class Permutation:
    """A permutation of range(count): the same for the same seed and epoch, another for any other.

    >>> sorted(Permutation(5, seed=1, epoch=0)(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        self.count = count
        width = max((count - 1).bit_length(), 2)
        self._low = np.uint64(width // 2)
        self._low_mask = np.uint64((1 << (width // 2)) - 1)
        self._high_mask = np.uint64((1 << (width - width // 2)) - 1)
        self._keys = [key(ORDER, seed, epoch, step) for step in range(ROUNDS)]

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """positions [n] in the order, each below `count` -> [n] the examples that stand there."""
        value = self._once(positions.astype(np.uint64))
        while (outside := value >= self.count).any():
            value[outside] = self._once(value[outside])
        return value.astype(np.int64)

    def _once(self, value: Bits) -> Bits:
        high, low = value >> self._low, value & self._low_mask
        for step, one in enumerate(self._keys):  # each half in turn is changed by the other, which can be undone
            if step % 2:
                high = high ^ (bits(one, low) & self._high_mask)
            else:
                low = low ^ (bits(one, high) & self._low_mask)
        return (high << self._low) | low
