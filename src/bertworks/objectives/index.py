"""A layout's rows on disk: made once from a store, said, kept beside it, and mapped from then on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import BertworksError, CannotWriteError, InputError, tell
from bertworks.folders import new_folder
from bertworks.text.store import INDEXES, Store, file_digest

from .frame import Frame
from .packing import packed
from .pairs import segment_pairs
from .pieces import Pieces
from .published import Objective
from .runs import documents, full_sentences

FORMAT = 1
TYPES = {"rows": np.int64, "start": np.int64, "length": np.uint16, "mark": np.uint8}
LONGEST = 2**16 - 1


def layout_index(
    store: Store,
    frame: Frame,
    objective: Objective,
    length: int,
    *,
    seed: int,
    copy: int,
    say: Callable[[str], None] = tell,
) -> Pieces:
    """The rows of a layout over a store: mapped from beside the store where they are kept, else made there."""
    needed = frame.room(2, pairs=objective.holds_pairs)
    if not 2 - needed < length <= LONGEST:
        raise InputError(f"examples of {length} tokens cannot be made", f"take a length from {3 - needed} to {LONGEST}")
    wanted = _described(store, frame, objective, length, seed, copy)
    name = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
    folder = store.folder / INDEXES / name

    def rows() -> Iterator[Pieces]:
        return _made(store, frame, objective, length, seed, copy, say)

    try:
        if folder.is_dir():
            return _mapped(folder)
    except BertworksError as error:
        say(f"{error.message}: it is made again")
    try:
        with _alone(folder):
            if not _whole(folder):  # else another process was quicker, with the same result
                said = f"laying out {store.documents:,} documents as {objective.layout} of {length}"
                say(f"{said} (once; kept in {folder})")
                with new_folder(folder, replace=True) as draft:
                    _write(draft, rows(), wanted)
    except (CannotWriteError, OSError) as error:
        reason = (
            error.message if isinstance(error, CannotWriteError) else f"{folder} cannot be written: {error.strerror}"
        )
        say(f"{reason}; the layout is made anew each time")
        with tempfile.TemporaryDirectory() as name:
            _write(Path(name), rows(), wanted)
            return _mapped(Path(name))
    return _mapped(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: the ranks of a training all want the same index at once."""
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _whole(folder: Path) -> bool:
    try:
        _mapped(folder)
    except BertworksError:
        return False
    return True


def _described(store: Store, frame: Frame, objective: Objective, length: int, seed: int, copy: int) -> dict[str, Any]:
    """All that the rows depend on."""
    told: dict[str, Any] = {
        "format": FORMAT,
        "store": store.identity,
        "layout": objective.layout,
        "length": length,
        "between": frame.between,
        "second": frame.second,
    }
    if objective.holds_pairs:
        told |= {"pair": objective.pair, "short": objective.short, "seed": seed, "copy": copy}
    elif objective.layout == "packed":
        told |= {"seed": seed}
    return told


def _made(
    store: Store,
    frame: Frame,
    objective: Objective,
    length: int,
    seed: int,
    copy: int,
    say: Callable[[str], None],
) -> Iterator[Pieces]:
    if objective.layout == "packed":
        # What is packed is kept too, since a packing needs all of it at once, from the disk.
        base = layout_index(store, frame, _unpacked(objective), length, seed=seed, copy=copy, say=say)
        return iter([packed(base, length, seed)])
    return layout_rows(store, frame, objective, length, seed=seed, copy=copy)


def _unpacked(objective: Objective) -> Objective:
    return replace(objective, layout="segment-pairs" if objective.holds_pairs else "documents")


def layout_rows(
    store: Store, frame: Frame, objective: Objective, length: int, *, seed: int, copy: int
) -> Iterator[Pieces]:
    """The rows of a layout shard by shard, kept nowhere; each shard is packed by itself."""
    if objective.layout == "packed":
        inner = layout_rows(store, frame, _unpacked(objective), length, seed=seed, copy=copy)
        return (packed(pieces, length, seed) for pieces in inner)
    if objective.layout == "segment-pairs":
        return segment_pairs(store, frame, length, pair=objective.pair, short=objective.short, seed=seed, copy=copy)
    return (full_sentences if objective.layout == "full-sentences" else documents)(store, frame, length)


def _write(folder: Path, chunks: Iterator[Pieces], wanted: dict[str, Any]) -> None:
    """Arrays one after another into plain files, so memory holds one shard's rows at a time."""
    files = {field.name: (folder / field.name).open("wb") for field in fields(Pieces)}
    digests = {name: hashlib.sha256() for name in files}

    def put(name: str, array: NDArray[Any]) -> None:
        data = np.ascontiguousarray(array, TYPES[name]).tobytes()
        digests[name].update(data)
        files[name].write(data)

    pieces = rows = tokens = 0
    try:
        put("rows", np.zeros(1, np.int64))
        for chunk in chunks:
            put("rows", chunk.rows[1:] + pieces)
            for name in ("start", "length", "mark"):
                put(name, getattr(chunk, name))
            pieces += len(chunk.start)
            rows += len(chunk.rows) - 1
            tokens += int(chunk.sizes.sum())
    finally:
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
    told = wanted | {
        "rows": rows,
        "pieces": pieces,
        "tokens": tokens,
        "sha256": {name: digest.hexdigest() for name, digest in digests.items()},
    }
    (folder / "index.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf8")


def _mapped(folder: Path) -> Pieces:
    try:
        told = json.loads((folder / "index.json").read_bytes())
        sizes = {"rows": told["rows"] + 1, "start": told["pieces"], "length": told["pieces"], "mark": told["pieces"]}
        return Pieces(**{name: _array(folder / name, count) for name, count in sizes.items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BertworksError(f"{folder} is not a whole index: {error}", f"remove {folder}: it is made again") from None


def broken_indexes(store: Store) -> Iterator[str]:
    """What is wrong with the indexes kept beside a store; each is read whole."""
    for folder in sorted((store.folder / INDEXES).glob("[!.]*/")):
        if not folder.is_dir():
            continue
        try:
            _mapped(folder)
            digests = json.loads((folder / "index.json").read_bytes())["sha256"]
            changed = [name for name, digest in digests.items() if file_digest(folder / name) != digest]
        except BertworksError as error:
            yield f"{error.message}; {error.way_out}"
            continue
        for name in changed:
            yield f"{folder / name} was changed since it was written; remove {folder}: it is made again"


def _array(path: Path, count: int) -> NDArray[Any]:
    kind = np.dtype(TYPES[path.name])
    if path.stat().st_size != count * kind.itemsize:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, not {count * kind.itemsize:,}")
    return np.memmap(path, kind, "r", shape=(count,)) if count else np.zeros(0, kind)
