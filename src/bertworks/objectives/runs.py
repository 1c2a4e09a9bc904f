"""Layouts of running text: full sentences on across documents, and stretches of single documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.text.store import Store

from .frame import Frame
from .pieces import Pieces, marks


@dataclass(frozen=True)
class _Units:
    """Sentences, those longer than a row cut into several: start [units] in the store, length, and whether a document
    begins there.
    """

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    fresh: NDArray[np.bool_]

    def after(self, unit: int) -> _Units:
        return _Units(self.start[unit:], self.length[unit:], self.fresh[unit:])

    def and_then(self, more: _Units) -> _Units:
        return _Units(
            np.concatenate([self.start, more.start]),
            np.concatenate([self.length, more.length]),
            np.concatenate([self.fresh, more.fresh]),
        )


def _units(store: Store, room: int) -> Iterator[_Units]:
    """The units of each shard."""
    for number, shard in enumerate(store.shards()):
        length = np.diff(shard.sentences).astype(np.int64)
        fresh = np.zeros(len(length), np.bool_)
        fresh[shard.documents[:-1]] = True
        start = shard.sentences[:-1] + store.token_edges[number]
        cuts = -(-length // room)
        if (cuts > 1).any():
            part = np.arange(int(cuts.sum())) - np.repeat(np.cumsum(cuts) - cuts, cuts)
            start = np.repeat(start, cuts) + part * room
            length = np.minimum(np.repeat(length, cuts) - part * room, room)
            fresh = np.repeat(fresh, cuts) & (part == 0)
        yield _Units(start, length, fresh)


def full_sentences(store: Store, frame: Frame, length: int) -> Iterator[Pieces]:
    """Whole sentences, as many as fit, on across documents with a separator between; every token once.

    A sentence longer than a row is cut. Only the last row of the store is left short.
    """
    room = frame.room(length, pairs=False)
    open_row: _Units | None = None
    for units in _units(store, room):
        units = units if open_row is None else open_row.and_then(units)
        rows = _followed(_fitting(units, room, separated=True))
        open_row = units.after(int(rows[-1]))
        if len(rows) > 1:
            yield _as_pieces(units, rows)
    if open_row is not None:
        yield _as_pieces(open_row, np.array([0, len(open_row.start)]))


def documents(store: Store, frame: Frame, length: int) -> Iterator[Pieces]:
    """As `full_sentences`, but a row ends where its document does."""
    room = frame.room(length, pairs=False)
    for units in _units(store, room):
        count = len(units.start)
        begins = np.append(np.flatnonzero(units.fresh), count)
        end = begins[np.cumsum(units.fresh)]  # where each unit's document ends
        following = np.minimum(_fitting(units, room, separated=False), end)
        yield _as_pieces(units, np.append(_followed(following), count))


def _fitting(units: _Units, room: int, separated: bool) -> NDArray[np.int64]:
    """For a row that begins at each unit, the unit at which the next one begins."""
    after = np.cumsum(units.length)
    before = after - units.length
    separators = np.cumsum(units.fresh) if separated else np.zeros(len(after), np.int64)
    # A separator before each document that begins inside the row; one at its very beginning needs none.
    return np.searchsorted(after + separators, before + separators + room, "right")


def _followed(following: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where rows begin, from the first unit on; the last one may still be open."""
    step = following.tolist()
    rows, at = [], 0
    while at < len(step):
        rows.append(at)
        at = step[at]
    return np.array(rows, np.int64)


def _as_pieces(units: _Units, rows: NDArray[np.int64]) -> Pieces:
    """rows [rows + 1] units at which rows begin and end -> units of one document and row are one piece."""
    first, last = int(rows[0]), int(rows[-1])
    begins = units.fresh[first:last].copy()
    begins[rows[:-1] - first] = True
    at = np.flatnonzero(begins) + first
    ends = np.append(at[1:], last)
    tokens = np.concatenate([[0], np.cumsum(units.length)])
    opens = np.isin(at, rows[:-1], assume_unique=True)
    return Pieces(
        np.searchsorted(at, rows).astype(np.int64),
        units.start[at],
        (tokens[ends] - tokens[at]).astype(np.uint16),
        marks(cls=opens, seps=1),
    )
