"""What becomes of the chosen tokens."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bertworks.text.tokenizer import Tokenizer

from .draws import FATE, REPLACE, Bits, below, bits, uniform
from .frame import Frame
from .rows import Rows
from .select import Mask
from .similar import SimilarWords

MASKED, RANDOM = 0.8, 0.9  # below the first: [MASK] (or a similar word); below the second: random; the rest is kept


class Corruption:
    """Turns chosen tokens into what the model reads in their place."""

    def __init__(self, how: str, tokenizer: Tokenizer, similar: SimilarWords | None = None) -> None:
        if how == "similar" and similar is None:
            raise ValueError("similar words are wanted, and none are given")
        self.how, self.similar = how, similar
        self.mask = Frame.of(tokenizer).mask
        known = np.array([bool(text) for text in tokenizer.tokens])
        known[list(tokenizer.special_ids)] = False
        self.ordinary = np.flatnonzero(known).astype(np.int32)  # random ones come from the whole vocabulary

    def __call__(self, rows: Rows, chosen: Mask, keys: Bits) -> NDArray[np.int32]:
        """[rows, length] the ids that the model reads. keys [rows]."""
        ids = rows.ids.copy()
        row, column = np.nonzero(chosen)
        if self.how == "mask":
            ids[row, column] = self.mask
            return ids
        at = column
        if self.how == "similar":  # a word shares one fate, told at its first token
            at = _word_starts(rows, row, column)
        fate = uniform(bits(keys, FATE)[row], at)
        strange = self.ordinary[below(len(self.ordinary), bits(keys, REPLACE)[row], column)]
        usual: Any = self.mask
        if self.how == "similar":
            found = cast("SimilarWords", self.similar).replacements(rows, chosen, keys)[row, column]
            usual = np.where(found >= 0, found, strange)  # no similar word is known: a random one, as published
        ids[row, column] = np.where(fate < MASKED, usual, np.where(fate < RANDOM, strange, ids[row, column]))
        return ids


def _word_starts(rows: Rows, row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column at which the word of each token begins."""
    columns = np.where(rows.begins, np.arange(rows.ids.shape[1]), 0)
    return np.maximum.accumulate(columns, 1)[row, column]
