"""Rows of pieces as arrays: the tokens of the store in their frames, all rows of a batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.text.store import Store

from .frame import Frame
from .pieces import ANSWER, SECOND, SEPS, Pieces, spread


@dataclass(frozen=True)
class Rows:
    """A batch before anything is chosen.

    ids        [rows, length] tokens, padding after them
    segments   [rows, length] 1 in the second segment and the separator after it
    sequences  [rows, length] number of the sequence within its row from 1 on, 0 on padding
    begins     [rows, length] whether a word begins; special tokens and padding do
    own        [rows, length] whether the token is the text's own, neither special nor padding
    firsts     [sequences] flat position of each sequence's [CLS]
    answers    [sequences] of the pair task; 3 where there is none
    """

    ids: NDArray[np.int32]
    segments: NDArray[np.uint8]
    sequences: NDArray[np.uint16]
    begins: NDArray[np.bool_]
    own: NDArray[np.bool_]
    firsts: NDArray[np.int64]
    answers: NDArray[np.uint8]


def assemble(store: Store, frame: Frame, index: Pieces, wanted: NDArray[np.int64], length: int) -> Rows:
    """The wanted rows [n] of a layout as arrays [n, length]."""
    first = index.rows[wanted]
    counts = index.rows[wanted + 1] - first
    at = spread(first, counts)
    mark, taken = index.mark[at], index.length[at].astype(np.int64)
    opens = (mark & 1).astype(np.int64)
    seps = ((mark >> SEPS) & 3).astype(np.int64)
    sizes = opens + taken + seps
    row = np.repeat(np.arange(len(wanted)), counts)
    within = np.cumsum(sizes) - sizes
    row_start = within[np.cumsum(counts) - counts]
    place = row * length + within - row_start[row]  # flat position at which each piece's frame begins

    shape = (len(wanted), length)
    flat = spread(place, sizes)
    ids = np.full(shape, frame.pad, np.int32)
    sequences = np.zeros(shape, np.uint16)
    segments = np.zeros(shape, np.uint8)
    begins = np.ones(shape, np.bool_)
    own = np.zeros(shape, np.bool_)
    number = np.cumsum(opens)
    number = number - (number[np.cumsum(counts) - counts] - 1)[row]
    sequences.ravel()[flat] = np.repeat(number, sizes)
    segments.ravel()[flat] = np.repeat((mark >> SECOND) & 1, sizes)

    text = spread(place + opens, taken)
    tokens, starts = store.take(spread(index.start[at], taken))
    ids.ravel()[text] = tokens
    begins.ravel()[text] = starts
    begins.ravel()[(place + opens)[taken > 0]] = True  # a word cut at its front begins where it is cut
    own.ravel()[text] = True
    firsts = place[opens > 0]
    ids.ravel()[firsts] = frame.cls
    ids.ravel()[spread(place + opens + taken, seps)] = frame.sep
    return Rows(ids, segments, sequences, begins, own, firsts, ((mark[opens > 0] >> ANSWER) & 3).astype(np.uint8))
