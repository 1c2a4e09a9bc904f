"""Spans of tokens that may be an answer: the best of them by the sum of two scores, and where a known one lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .features import Features

AT_ONCE = 1 << 21  # spans that are scored side by side
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """The best spans of features, best first; all [features, n].

    starts, ends  characters of the context, the end exclusive
    margins       start score and end score, less those of the first token, which stands for no answer; -inf where a
                  feature has fewer spans than that
    """

    starts: Numbers
    ends: Numbers
    margins: Floats


def best_spans(features: Features, outputs: Sequence[NDArray[Any]], most: int, longest: int) -> Spans:
    """The `most` best of all spans of at most `longest` tokens that lie in the context. outputs[i]: [tokens, 2].

    Features are taken side by side, those of like length together; every span is looked at.
    """
    count = len(features)
    found = Spans(
        np.zeros((count, most), np.int64),
        np.zeros((count, most), np.int64),
        np.full((count, most), -np.inf, np.float32),
    )
    order = np.argsort(-features.lengths, kind="stable")
    at = 0
    while at < count:
        length = int(features.lengths[order[at]])
        places = order[at : at + max(1, AT_ONCE // (length * min(longest, length)))]
        at += len(places)
        _fill(found, features, places, [outputs[place] for place in places.tolist()], longest)
    return found


def _fill(found: Spans, features: Features, places: Numbers, outputs: list[NDArray[Any]], longest: int) -> None:
    """The best spans of some features, into their rows of `found`."""
    lengths = features.lengths[places]
    length, most = int(lengths.max()), found.margins.shape[1]
    scores = np.full((2, len(places), length), -np.inf, np.float32)
    across = np.arange(length)
    tokens = features.starts[places][:, None] + np.minimum(across, lengths[:, None] - 1)
    inside = (across < lengths[:, None]) & in_context(features)[tokens]
    for row, one in enumerate(outputs):
        scores[:, row, : len(one)] = (one - one[0]).T  # less the first token's
    scores[:, ~inside] = -np.inf
    widest = min(longest, length)
    table = np.full((len(places), widest, length), -np.inf, np.float32)
    for more in range(widest):  # tokens behind the first
        table[:, more, : length - more] = scores[0, :, : length - more] + scores[1, :, more:]
    flat = table.reshape(len(places), -1)
    some = min(most, flat.shape[1])
    top = np.argpartition(flat, flat.shape[1] - some, axis=1)[:, -some:]
    # Of equal ones the first and shortest comes first, so that the same is said in any company.
    top = np.take_along_axis(top, np.lexsort((top, -np.take_along_axis(flat, top, 1)), axis=1), 1)
    behind, first = top // length, top % length
    rows = np.arange(len(places))[:, None]
    offsets = offsets_of(features)
    found.starts[places, :some] = offsets[tokens[rows, first], 0]
    found.ends[places, :some] = offsets[tokens[rows, np.minimum(first + behind, length - 1)], 1]
    found.margins[places, :some] = np.take_along_axis(flat, top, 1)


def in_context(features: Features) -> NDArray[np.bool_]:
    """[tokens] whether a token stands for characters of the context."""
    offsets = offsets_of(features)
    found: NDArray[np.bool_] = (cast(NDArray[Any], features.texts) == 1) & (offsets[:, 0] < offsets[:, 1])
    return found


def offsets_of(features: Features) -> NDArray[np.int32]:
    """Of features that were encoded aligned."""
    return cast(NDArray[np.int32], features.offsets)


def targets(features: Features, spans: Sequence[tuple[int, int] | None]) -> tuple[Numbers, Numbers]:
    """[features] the tokens where the answer of each one's row begins and ends: the first and the last that it touches.
    0, the first token, where the row has none, or not the whole of it lies in the window.

    spans: by row, in characters of the context, the end exclusive.
    """
    starts, ends = np.zeros(len(features), np.int64), np.zeros(len(features), np.int64)
    context = in_context(features)
    rows = features.rows.tolist()
    for feature, row in enumerate(rows):
        span = spans[row]
        place = features.tokens_of(feature)
        here = np.flatnonzero(context[place])
        if span is None or not len(here):
            continue
        offsets = offsets_of(features)[place][here]
        first = int(np.searchsorted(np.maximum.accumulate(offsets[:, 1]), span[0], "right"))
        last = int(np.searchsorted(np.maximum.accumulate(offsets[:, 0]), span[1], "left")) - 1
        begins = feature == 0 or rows[feature - 1] != row
        stops = feature + 1 == len(rows) or rows[feature + 1] != row
        whole = (begins or offsets[0, 0] <= span[0]) and (stops or span[1] <= offsets[-1, 1])
        if whole and first <= last:
            starts[feature], ends[feature] = here[first], here[last]
    return starts, ends
