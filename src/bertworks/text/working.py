"""The part of a preparation that many processes share: documents cleaned, fingerprinted and encoded.

What one document becomes depends on it alone, so it does not matter which process does it. What depends on the
documents before it (whether it is a duplicate, which shard it falls into) is left to the one process that has them in
order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path

from bertworks.errors import BertworksError
from bertworks.text.cleaning import Cleaning, fingerprint, mend
from bertworks.text.documents import Document
from bertworks.text.encoding import DocumentEncoder, EncodedDocuments
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import chinese_segmenter

TASK_CHARACTERS = 1 << 19  # what one worker is handed at a time


@dataclass(frozen=True)
class Work:
    """What is done with each document."""

    tokenizer: Path
    cleaning: Cleaning
    segment: bool


@dataclass(frozen=True)
class Task:
    """Documents that follow each other; `first` is the number of the first one in the whole reading."""

    first: int
    documents: list[Document]
    encode: bool  # False: they are stored already, and only what depends on the order is wanted


@dataclass(frozen=True)
class Done:
    """What became of a task: counts of what was mended, and of the documents that stayed (their places in it) the
    fingerprints, if duplicates are looked for, and the tokens.
    """

    notes: Counter[str]
    kept: list[int]
    prints: list[bytes]
    encoded: EncodedDocuments | None


def tasks(stream: Iterator[Document], stored: int, first: int = 0) -> Iterator[Task]:
    """Documents in handfuls, numbered from `first`; those numbered below `stored` are not to be encoded again."""
    held: list[Document] = []
    size = 0
    for number, document in enumerate(stream, first):
        held.append(document)
        size += len(document.text)
        if size >= TASK_CHARACTERS or number + 1 == stored:
            yield Task(number + 1 - len(held), held, number >= stored)
            held, size = [], 0
    if held:
        yield Task(number + 1 - len(held), held, number >= stored)


def worked(all_tasks: Iterator[Task], work: Work, workers: int) -> Iterator[tuple[Task, Done]]:
    """Tasks done, in their order: in this process, or in `workers` others."""
    if workers <= 1:
        worker = Worker(work)
        for task in all_tasks:
            yield task, worker.do(_texts(task), task.encode)
        return
    # Fresh processes rather than copies of this one: a copy of a process with threads may wait for ever.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_set_up, initargs=(work,)) as pool:
        waiting: deque[tuple[Task, Future[Done]]] = deque()
        try:
            for task in all_tasks:
                waiting.append((task, pool.submit(_do, _texts(task), task.encode)))
                if len(waiting) > 2 * workers:
                    task, future = waiting.popleft()
                    yield task, future.result()
            while waiting:
                task, future = waiting.popleft()
                yield task, future.result()
        except BrokenProcessPool:
            raise BertworksError(
                "a worker process died (killed, or out of memory)",
                "run the same command again: it goes on after the last whole shard; fewer --workers take less memory",
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _texts(task: Task) -> list[str]:
    return [document.text for document in task.documents]


class Worker:
    """Does tasks, one after another."""

    def __init__(self, work: Work) -> None:
        self.cleaning = work.cleaning
        segmenter = chinese_segmenter() if work.segment else None
        self.encoder = DocumentEncoder(Tokenizer.load(work.tokenizer), segmenter)

    def do(self, texts: Sequence[str], encode: bool) -> Done:
        notes: Counter[str] = Counter()
        kept, mended = [], []
        for at, text in enumerate(texts):
            better, done = mend(text, self.cleaning)
            notes.update(done)
            if better is not None:
                kept.append(at)
                mended.append(better)
        kind = self.cleaning.duplicates
        prints = [fingerprint(text, kind) for text in mended] if kind != "keep" else []
        return Done(notes, kept, prints, self.encoder.encode(mended) if encode else None)


_WORKER: Worker | None = None  # one in each worker process


def _set_up(work: Work) -> None:
    global _WORKER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _WORKER = Worker(work)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for tasks for ever: it holds both ends of the pipe they come by."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _do(texts: list[str], encode: bool) -> Done:
    if _WORKER is None:
        raise RuntimeError("the worker was not set up")
    return _WORKER.do(texts, encode)
