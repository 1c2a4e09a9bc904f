"""Features in batches of like length: a line of them to train on, and an order to predict in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.objectives.batches import Place, share_of
from bertworks.objectives.draws import key
from bertworks.objectives.order import Permutation

from .features import IGNORED, Features

TOGETHER = 50  # global batches that are sorted by length together
STEP = 2  # padded lengths are multiples of this; more shapes occur than with 8, and a tenth less padding
SHUFFLE = 220  # what a key is for: the order of batches
TOKENS = 8192  # of a batch to predict
MOST = 256  # features of a batch to predict


@dataclass(frozen=True)
class FeatureBatch:
    """Features side by side, padded to the longest.

    ids       [rows, length]
    segments  [rows, length], or None where all are 0
    real      [rows, length] False on padding
    features  [rows] their places in the features that they are from
    units     [rows] the number of each one's unit in this batch, from 0 on
    per_token [rows, length, ...] padded with -100; per_feature [rows, ...]; per_unit [units, ...]: targets by name
    """

    ids: NDArray[np.int32]
    segments: NDArray[np.uint8] | None
    real: NDArray[np.bool_]
    features: NDArray[np.int64]
    units: NDArray[np.int64]
    per_token: Mapping[str, NDArray[Any]]
    per_feature: Mapping[str, NDArray[Any]]
    per_unit: Mapping[str, NDArray[Any]]

    @property
    def unit_count(self) -> int:
        return int(self.units[-1]) + 1

    @property
    def firsts(self) -> NDArray[np.int64]:
        """[units] where each unit begins."""
        return np.searchsorted(self.units, np.arange(self.unit_count))

    @property
    def tokens(self) -> int:
        """Without padding."""
        return int(self.real.sum())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[rows] without padding."""
        found: NDArray[np.int64] = self.real.sum(1)
        return found


def collated(features: Features, places: NDArray[np.int64]) -> FeatureBatch:
    """Features by their places. Those of one unit stand side by side."""
    starts, lengths = features.starts[places], features.lengths[places]
    longest = -(-int(lengths.max()) // STEP) * STEP
    across = np.arange(longest)
    real = across < lengths[:, None]
    at = np.where(real, starts[:, None] + across, 0)

    def square(values: NDArray[Any], fill: int) -> NDArray[Any]:
        found = values[at]
        found[~real] = fill
        return found

    own = features.units[places]
    # A unit may come twice, where one epoch ends and the next begins.
    fresh = np.concatenate([[True], (own[1:] != own[:-1]) | (places[1:] <= places[:-1])])
    units = np.cumsum(fresh) - 1
    firsts = own[fresh]
    return FeatureBatch(
        square(features.ids, features.pad_id),
        None if features.segments is None else square(features.segments, 0),
        real,
        places,
        units,
        {name: square(values, IGNORED) for name, values in features.per_token.items()},
        {name: values[places] for name, values in features.per_feature.items()},
        {name: values[firsts] for name, values in features.per_unit.items()},
    )


def inputs(module: nn.Module, batch: FeatureBatch) -> dict[str, Tensor]:
    """What a model is handed: `module(**inputs(module, batch))`. Segments only where it has several."""
    device = next(module.parameters()).device
    found = {"ids": batch.ids, "real": batch.real}
    table = module.get_parameter("encoder.embeddings.segments.weight") if _has_segments(module) else None
    if batch.segments is not None and table is not None and len(table) > 1:
        found["segments"] = batch.segments.astype(np.int32)
    return {name: torch.from_numpy(values).to(device) for name, values in found.items()}


def _has_segments(module: nn.Module) -> bool:
    embeddings = module.get_submodule("encoder.embeddings")
    return getattr(embeddings, "segments", None) is not None


class FeatureLine:
    """The units of epoch after epoch in one endless line; `rows` is what a global batch takes of them.

    In each epoch they are in a drawn order. Of that, some tens of global batches' worth at a time are sorted by length
    and cut into batches, which come in a drawn order again: so what is in a batch is of like length, and what follows
    on a batch is not. It is a function of (seed, epoch) alone, so a place in it is two integers.
    """

    def __init__(self, features: Features, rows: int, seed: int = 0) -> None:
        self.features, self.rows, self.seed = features, rows, seed
        self._starts = features.unit_starts
        lengths = features.lengths
        self._longest = np.maximum.reduceat(lengths, self._starts[:-1]) if len(lengths) else lengths
        self.order = lru_cache(maxsize=2)(self._order)

    def count(self, epoch: int) -> int:  # noqa: ARG002 (every epoch has all)
        return self.features.unit_count

    def after(self, place: Place, rows: int) -> Place:
        """The place that many units further on."""
        epochs, position = divmod(place.position + rows, self.features.unit_count)
        return Place(place.epoch + epochs, position)

    def batch(self, place: Place, rows: int, *, rank: int = 0, ranks: int = 1) -> FeatureBatch:
        """The `rows` units that come next; of these, one of `ranks` equal shares."""
        share = share_of(rows, rank, ranks)
        return collated(self.features, self._members(self._units(self.after(place, rank * share), share)))

    def _units(self, place: Place, rows: int) -> NDArray[np.int64]:
        parts = []
        while rows:
            some = self.order(place.epoch)[place.position : place.position + rows]
            parts.append(some)
            rows -= len(some)
            place = Place(place.epoch + 1, 0)
        return np.concatenate(parts)

    def _members(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The features of units, side by side."""
        sizes = self._starts[units + 1] - self._starts[units]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found: NDArray[np.int64] = np.repeat(self._starts[units], sizes) + within
        return found

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """[units] as they come in an epoch."""
        count = self.features.unit_count
        order = Permutation(count, self.seed, epoch)(np.arange(count))
        # The epoch before ended inside a global batch: the first few units here complete it.
        first = min(-epoch * count % self.rows, count)
        parts = [self._sorted(order[:first])]
        for number, at in enumerate(range(first, count, TOGETHER * self.rows)):
            some = self._sorted(order[at : at + TOGETHER * self.rows])
            whole = len(some) // self.rows
            batches = some[: whole * self.rows].reshape(whole, self.rows)
            drawn = np.argsort(key(SHUFFLE, self.seed, epoch, number, np.arange(whole)), kind="stable")
            parts += [batches[drawn].reshape(-1), some[whole * self.rows :]]
        return np.concatenate(parts)

    def _sorted(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Longest first: where memory is short, the first microbatch of a batch says so."""
        return units[np.argsort(-self._longest[units], kind="stable")]


def to_predict(features: Features, tokens: int = TOKENS, most: int = MOST) -> Iterator[FeatureBatch]:
    """All features in batches of like length, longest first, each within a budget of tokens, padding included."""
    lengths = features.lengths
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        longest = -(-int(lengths[order[at]]) // STEP) * STEP
        rows = max(1, min(most, tokens // longest))
        yield collated(features, order[at : at + rows])
        at += rows
