"""Documents that were there before: exactly, or nearly so.

A fingerprint is made of the text alone, by any process; whether it was seen before is for the one process to say that
has the documents in their order, and the first of like ones stays. Nothing here depends on the machine, the run or
Python's hash seed.

Nearly the same: what two texts have in common of their pairs of neighbouring tokens is estimated by MinHash (Broder,
1997), a token being a word, or one character where words are not spaced. Case, signs and white space do not count.
Likeness is the share of either text's pairs (Dice), which one in ten words changed brings to about 0.8; a Jaccard
index, which counts by all pairs of both, would there be 2/3.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b, shake_128
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

KINDS = ("keep", "exact", "near")
DIGEST = 16  # bytes of a fingerprint that is for the same text alone
MINIMA = 128  # of a near fingerprint: the likeness it tells is off by 0.02 to 0.04, one standard deviation
FOUND = 0.98  # of pairs right at the threshold this share is compared at all; of likelier ones more
STRETCH = 1024  # pairs that are hashed at a time, so that the work stays in the cache
WINDOW = 12  # slots in which an entry is looked for
FULL = 5 / 8

# Chinese, Japanese, Thai, Lao, Tibetan, Burmese, Khmer: no spaces between words.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKENS = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")

_drawn = np.frombuffer(shake_128(b"bertworks near duplicates").digest(8 * MINIMA), "<u4").reshape(2, MINIMA, 1)
_FACTORS, _TERMS = _drawn[0] | np.uint32(1), _drawn[1]
_ODD = (np.frombuffer(shake_128(b"odd factors").digest(8 * MINIMA), "<u8") | np.uint64(1)).astype(np.uint64)
_HALF = np.uint64(32)


def fingerprint(text: str, kind: str) -> bytes:
    """What tells a text from others: 16 bytes for `exact`, 512 for `near` (16 where it has no word).

    Exact is exact but for white space at the ends, which tells nothing.
    """
    if kind == "near" and (tokens := _TOKENS.findall(text.lower())):
        return _minima(_pairs(tokens)).tobytes()
    return blake2b(text.strip().encode(errors="surrogatepass"), digest_size=DIGEST).digest()


def _pairs(tokens: list[str]) -> NDArray[np.uint32]:
    """tokens [n] -> hashes of neighbouring ones [n + 1]; the first and the last have nothing as their neighbour.

    So every token is in two pairs, and a short text with one word changed is another text.
    """
    known = {token: crc32(token.encode(errors="surrogatepass")) for token in set(tokens)}
    hashes = np.zeros(len(tokens) + 2, np.uint64)
    hashes[1:-1] = np.fromiter(map(known.__getitem__, tokens), np.uint64, len(tokens))
    return (_mixed(hashes[:-1] * _ODD[0] + hashes[1:] * _ODD[1]) >> _HALF).astype(np.uint32)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits whose upper half depends on all of them."""
    bits = (bits ^ (bits >> _HALF)) * _ODD[-1]
    mixed: NDArray[np.uint64] = (bits ^ (bits >> _HALF)) * _ODD[-2]
    return mixed


def _minima(pairs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """pairs [n] -> [MINIMA] the least of them in so many orders: two texts agree in as many as they have in common."""
    least = np.full(MINIMA, 0xFFFFFFFF, "<u4")
    for at in range(0, len(pairs), STRETCH):
        np.minimum(least, (pairs[at : at + STRETCH] * _FACTORS + _TERMS).min(axis=1), out=least)
    return least


class Duplicates:
    """The documents that stayed, as far as needed to know them again.

    A document takes about 100 bytes, exactly compared; nearly, at 0.8, 430 to 550 (half as much again for a moment,
    when the table grows). Near ones are found by a band of minima that they share, then compared by all of them.
    """

    def __init__(self, kind: str, likeness: float = 0.8) -> None:
        self._near = kind == "near"
        common = likeness / (2 - likeness)  # the Jaccard index, which minima estimate
        self._least = math.ceil(MINIMA * (common + (1 - common) / 256) - 1e-9)  # one byte in 256 agrees by chance
        self._rows, self._bands = _banding(common)
        self._digests: set[bytes] = set()
        self._minima = bytearray()  # one byte of each minimum: enough to compare by
        self._count = 0
        self._bits = 8
        self._table = np.zeros((self._bands, (1 << self._bits) + WINDOW), np.uint64)  # upper half key, lower number

    def seen(self, print: bytes) -> bool:
        """Whether this document is like one before it; if not, the next ones are compared with it, too."""
        if not self._near or len(print) == DIGEST:
            before = len(self._digests)
            self._digests.add(print)
            return len(self._digests) == before
        minima = np.frombuffer(print, "<u4")
        parts = minima[: self._bands * self._rows].reshape(self._bands, self._rows).astype(np.uint64)
        keys = _mixed(parts @ _ODD[: self._rows]) >> _HALF << _HALF
        homes = np.arange(self._bands) * self._table.shape[1] + (keys >> np.uint64(64 - self._bits)).astype(np.int64)
        slots = homes[:, None] + np.arange(WINDOW)
        entries = self._table.ravel()[slots]
        known = ((entries ^ keys[:, None]) >> _HALF == 0) & (entries > 0)
        brief = minima.astype(np.uint8)
        if known.any():
            numbers = (entries[known] & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
            others = np.frombuffer(self._minima, np.uint8).reshape(-1, MINIMA)[numbers]
            if int((others == brief).sum(axis=1).max()) >= self._least:
                return True
        self._minima += brief.tobytes()
        self._count += 1
        free = (entries == 0) & ~known.any(axis=1, keepdims=True)  # of like keys the first alone is kept
        bands = np.flatnonzero(free.any(axis=1))  # where no slot is free the other bands must do
        self._table.ravel()[slots[bands, free[bands].argmax(axis=1)]] = keys[bands] | np.uint64(self._count)
        if self._count > FULL * (1 << self._bits):
            self._grow()
        return False

    def _grow(self) -> None:
        """Tables of twice the size. In order of their keys entries also stand in order of their slots."""
        self._bits += 1
        table = np.zeros((self._bands, (1 << self._bits) + WINDOW), np.uint64)
        for band, row in enumerate(self._table):
            entries = np.sort(row[row > 0])
            homes = (entries >> np.uint64(64 - self._bits)).astype(np.int64)
            order = np.arange(len(entries))
            slots = np.maximum.accumulate(homes - order) + order
            near = slots - homes < WINDOW
            table[band, slots[near]] = entries[near]
        self._table = table


def _banding(common: float) -> tuple[int, int]:
    """Rows of a band and bands: as many rows as let FOUND of the pairs at the threshold share a band."""
    for rows in range(8, 1, -1):
        share = common**rows
        bands = 1 if share >= FOUND else math.ceil(math.log(1 - FOUND) / math.log1p(-share))
        if bands * rows <= MINIMA:
            return rows, bands
    return 1, MINIMA
