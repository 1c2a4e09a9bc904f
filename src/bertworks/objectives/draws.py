"""Randomness as arithmetic: a draw is a hash of what it is for and of what it belongs to.

No state is kept and no order matters, so any process can compute any draw at any time, many at once, and all get the
same. The mixing is SplitMix64's, whose output passes the usual batteries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bits = NDArray[np.uint64]

# What a draw is for: one number each, so that no two purposes share their draws.
ORDER, SHORT, TARGET, SPLIT, NEXT, DOCUMENT, START, FRONT, PACK, CHOOSE, COUNT, SPAN, FATE, REPLACE = range(1, 15)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _mixed(bits: Bits) -> Bits:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def key(*numbers: ArrayLike) -> Bits:
    """One key from several numbers (a purpose, a seed, an epoch, an index); arrays give an array of keys.

    >>> bool(key(ORDER, 0, 1) == key(ORDER, 0, 1)), bool(key(ORDER, 0, 1) == key(ORDER, 1, 0))
    (True, False)
    """
    bits = np.asarray(0, np.uint64)
    for number in numbers:
        with np.errstate(over="ignore"):
            bits = _mixed((bits ^ np.asarray(number).astype(np.uint64)) + _GOLDEN)
    return bits


def bits(keys: Bits, counter: ArrayLike) -> Bits:
    """64 random bits for each key and counter, broadcast."""
    with np.errstate(over="ignore"):
        return _mixed(keys + _GOLDEN * (np.asarray(counter).astype(np.uint64) + np.uint64(1)))


def uniform(keys: Bits, counter: ArrayLike = 0) -> NDArray[np.float64]:
    """Numbers in [0, 1)."""
    drawn: NDArray[np.float64] = np.multiply(bits(keys, counter) >> np.uint64(11), 2.0**-53)
    return drawn


def below(limit: ArrayLike, keys: Bits, counter: ArrayLike = 0) -> NDArray[np.int64]:
    """Whole numbers in [0, limit), limit at least 1; its bias, limit/2^53, is out of any test's reach."""
    most: NDArray[Any] = np.asarray(limit, np.int64)
    drawn: NDArray[np.int64] = np.minimum((uniform(keys, counter) * most).astype(np.int64), most - 1)
    return drawn
