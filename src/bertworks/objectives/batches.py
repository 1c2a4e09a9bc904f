"""Training batches: a pure function of (store, objective, seed) and a place, which is two integers.

The examples of epoch after epoch stand in one endless line, each epoch in an order of its own. A batch is the next few
of that line, so none is short and nothing is left out; where an epoch ends inside a batch, the next one begins there.
A place says how far the line has been read: with it a run goes on as if it had never stopped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import InputError, tell
from bertworks.text.store import Store

from .corrupt import Corruption
from .draws import key
from .frame import Frame
from .index import layout_index
from .order import Permutation
from .pieces import NO_ANSWER, Pieces
from .published import Objective
from .rows import Rows, assemble
from .select import choose, most_chosen
from .similar import SimilarWords, kept_similar_words

IGNORED = -100  # the label that PyTorch's losses pass over
TOGETHER = 8  # packed rows hold any number of sequences: their count is rounded up to this, so that few shapes occur
MASKS = 100  # what the key of a row's draws is for; apart from the purposes in `draws`


@dataclass(frozen=True)
class Place:
    """How far the line of examples has been read: `position` examples of epoch `epoch`."""

    epoch: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.position < 0:
            raise InputError(f"there is no place {self.epoch}, {self.position}", "both are 0 or more")


@dataclass(frozen=True)
class TrainingBatch:
    """What a model reads, and what it should have said.

    ids        [rows, length] tokens, the chosen ones corrupted; padding after them
    segments   [rows, length] 0 or 1
    sequences  [rows, length] number of the sequence within its row from 1 on, 0 on padding
    chosen     [rows × most] flat positions of chosen tokens, in their order; then zeros, as many as it takes
    labels     [rows × most] the tokens that stood there; -100 where there is none
    firsts     [sequences] flat position of each sequence's [CLS]; zeros behind them in packed rows
    answers    [sequences] of the pair task, -100 where there is none
    """

    ids: NDArray[np.int32]
    segments: NDArray[np.uint8]
    sequences: NDArray[np.uint16]
    chosen: NDArray[np.int64]
    labels: NDArray[np.int64]
    firsts: NDArray[np.int64]
    answers: NDArray[np.int64]


class Line(Protocol):
    """An endless line of examples: one store's, or several stores' (see `mixture`)."""

    def count(self, epoch: int) -> int: ...
    def after(self, place: Place, rows: int) -> Place: ...
    def batch(self, place: Place, rows: int, *, rank: int = 0, ranks: int = 1) -> TrainingBatch: ...


Part = tuple[Rows, NDArray[np.bool_], NDArray[np.int32]]  # rows, what is chosen in them, the ids that the model reads


class Examples:
    """The examples that an objective makes of a store. Any may be asked for at any time, by several threads."""

    def __init__(
        self,
        store: Store,
        objective: Objective,
        length: int,
        *,
        seed: int = 0,
        similar: SimilarWords | None = None,
        say: Callable[[str], None] = tell,
    ) -> None:
        if similar is None and objective.corrupt == "similar":
            similar = kept_similar_words(store, say)
        self.store, self.objective, self.length, self.seed, self.say = store, objective, length, seed, say
        self.frame = Frame.of(store.tokenizer)
        self.most = most_chosen(objective, length)
        self._corrupt = Corruption(objective.corrupt, store.tokenizer, similar)
        self._lock = threading.Lock()
        self._index: dict[int, Pieces] = {}
        if not self.count(0):
            raise InputError(f"{store.folder} gives no examples of {length} tokens", "prepare more text")

    def count(self, epoch: int) -> int:
        """Examples in an epoch. Pairs are cut anew from epoch to epoch, so their number may differ a little."""
        return len(self.index(epoch).rows) - 1

    def index(self, epoch: int) -> Pieces:
        """The rows of an epoch, before anything is chosen in them."""
        copy = epoch % self.objective.copies if self.objective.holds_pairs else 0
        with self._lock:
            found = self._index.get(copy)
            if found is None:
                found = layout_index(
                    self.store, self.frame, self.objective, self.length, seed=self.seed, copy=copy, say=self.say
                )
                self._index[copy] = found
        return found

    def rows(self, epoch: int, numbers: NDArray[np.int64]) -> Rows:
        """Examples of an epoch by their numbers in the index, nothing chosen."""
        return assemble(self.store, self.frame, self.index(epoch), numbers, self.length)

    def made(self, epoch: int, numbers: NDArray[np.int64]) -> Part:
        """Examples of an epoch by their numbers in the index: rows, what is chosen, the ids that the model reads."""
        rows = self.rows(epoch, numbers)
        # Dynamic masks come anew every epoch; static ones come again after `copies` of them.
        drawn = epoch if self.objective.masking == "dynamic" else epoch % self.objective.copies
        keys = key(MASKS, self.seed, drawn, numbers)
        chosen = choose(self.objective, rows, keys)
        return rows, chosen, self._corrupt(rows, chosen, keys)

    def after(self, place: Place, rows: int) -> Place:
        """The place that many examples further on."""
        epoch, position = place.epoch, place.position + rows
        while position >= (count := self.count(epoch)):
            epoch, position = epoch + 1, position - count
        return Place(epoch, position)

    def batch(self, place: Place, rows: int, *, rank: int = 0, ranks: int = 1) -> TrainingBatch:
        """The `rows` examples that come next; of these, one of `ranks` equal shares."""
        share = share_of(rows, rank, ranks)
        return self.joined(self.parts(self.after(place, rank * share), share))

    def parts(self, place: Place, rows: int) -> list[Part]:
        """The next `rows` examples, one part for each epoch that they lie in."""
        parts = []
        while rows:
            count = self.count(place.epoch)
            stop = min(place.position + rows, count)
            order = Permutation(count, self.seed, place.epoch)
            parts.append(self.made(place.epoch, order(np.arange(place.position, stop))))
            rows -= stop - place.position
            place = Place(place.epoch + 1, 0)
        return parts

    def joined(self, parts: list[Part]) -> TrainingBatch:
        def whole(arrays: list[NDArray[Any]]) -> NDArray[Any]:
            return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

        right = whole([rows.ids for rows, _, _ in parts])
        chosen = np.flatnonzero(whole([one for _, one, _ in parts]))
        edges = np.cumsum([0, *(rows.ids.size for rows, _, _ in parts)])
        firsts = whole([rows.firsts + edge for (rows, _, _), edge in zip(parts, edges, strict=False)])
        answers = whole([rows.answers for rows, _, _ in parts]).astype(np.int64)
        answers[answers == NO_ANSWER] = IGNORED
        if self.objective.layout == "packed":
            sequences = -(-len(firsts) // TOGETHER) * TOGETHER
            firsts, answers = _filled(firsts, sequences, 0), _filled(answers, sequences, IGNORED)
        most = self.most * len(right)
        return TrainingBatch(
            whole([ids for _, _, ids in parts]),
            whole([rows.segments for rows, _, _ in parts]),
            whole([rows.sequences for rows, _, _ in parts]),
            _filled(chosen, most, 0),
            _filled(right.ravel()[chosen], most, IGNORED),
            firsts,
            answers,
        )


def share_of(rows: int, rank: int, ranks: int) -> int:
    """How many of a global batch's rows are one rank's."""
    if ranks < 1 or not 0 <= rank < ranks:
        raise InputError(f"there is no rank {rank} of {ranks}", "ranks are numbered from 0")
    if rows < 1 or rows % ranks:
        raise InputError(f"a batch of {rows} rows cannot be shared by {ranks} ranks", f"take a multiple of {ranks}")
    return rows // ranks


def _filled(values: NDArray[Any], size: int, fill: int) -> NDArray[np.int64]:
    made = np.full(size, fill, np.int64)
    made[: len(values)] = values
    return made


def feed(
    examples: Line,
    place: Place,
    rows: int,
    *,
    rank: int = 0,
    ranks: int = 1,
    workers: int = 1,
) -> Iterator[tuple[TrainingBatch, Place]]:
    """Batch after batch from a place on, without end, each with the place behind it: what a checkpoint keeps.

    With `workers` above 0 that many threads make batches ahead of time; these are the same, in the same order. Threads
    do: NumPy lets go of the interpreter's lock, and nothing has to be copied between processes.
    """
    if workers <= 0:
        while True:
            following = examples.after(place, rows)
            yield examples.batch(place, rows, rank=rank, ranks=ranks), following
            place = following
    with ThreadPoolExecutor(workers, "bertworks-feed") as pool:
        waiting: deque[tuple[Future[TrainingBatch], Place]] = deque()
        try:
            while True:
                while len(waiting) <= workers:
                    following = examples.after(place, rows)
                    waiting.append((pool.submit(examples.batch, place, rows, rank=rank, ranks=ranks), following))
                    place = following
                future, following = waiting.popleft()
                yield future.result(), following
        finally:  # whoever asked is gone, or a batch failed: what was begun for later is not wanted
            pool.shutdown(wait=True, cancel_futures=True)
