"""The likeliest sequence of tags among those that BIO allows: an I- only behind a B- or I- of its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .data.tags import parsed, scheme_of

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Bio:
    """inside: the labels that are an I-; begin: for each of these its B-."""

    inside: Numbers
    begin: Numbers

    @classmethod
    def of(cls, labels: Sequence[str]) -> Bio | None:
        """None where these labels are not BIO whole."""
        if scheme_of([labels]) != "bio":
            return None
        parts = [parsed(one) for one in labels]
        inside = [at for at, part in enumerate(parts) if part[0] == "I"]
        if any(("B", parts[at][1]) not in parts for at in inside):
            return None
        begin = [parts.index(("B", parts[at][1])) for at in inside]
        return cls(np.array(inside, np.int64), np.array(begin, np.int64))

    def best(self, scores: Floats, edges: Numbers) -> Numbers:
        """scores [words, labels] of sequences from edges[k] to edges[k + 1] -> [words] labels; equal to the largest of
        each word wherever those are a sequence that BIO allows.
        """
        found: Numbers = scores.argmax(1)
        for row in np.unique(np.searchsorted(edges, self._wrong(found, edges), "right") - 1).tolist():
            place = slice(int(edges[row]), int(edges[row + 1]))
            found[place] = self._path(scores[place])
        return found

    def _wrong(self, numbers: Numbers, edges: Numbers) -> Numbers:
        """The words whose label cannot stand behind the one before."""
        begin = np.full(int(max(self.inside.max(initial=0), numbers.max(initial=0))) + 1, -1)
        begin[self.inside] = self.begin
        before = np.concatenate([[-1], numbers[:-1]])
        before[edges[:-1][edges[:-1] < len(numbers)]] = -1
        allowed = (begin[numbers] < 0) | (before == numbers) | (before == begin[numbers])
        return np.flatnonzero(~allowed)

    def _path(self, scores: Floats) -> Numbers:
        """One sequence, by Viterbi."""
        sums = scores[0].astype(np.float64)
        sums[self.inside] = -np.inf
        back = np.zeros(scores.shape, np.int64)
        for at in range(1, len(scores)):
            top = int(sums.argmax())
            back[at] = top
            reached = np.full(len(sums), sums[top])
            goes_on = sums[self.inside] > sums[self.begin]
            back[at, self.inside] = np.where(goes_on, self.inside, self.begin)
            reached[self.inside] = np.where(goes_on, sums[self.inside], sums[self.begin])
            sums = reached + scores[at]
        path = np.zeros(len(scores), np.int64)
        path[-1] = sums.argmax()
        for at in range(len(scores) - 1, 0, -1):
            path[at - 1] = back[at, path[at]]
        return path
