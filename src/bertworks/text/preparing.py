"""From files to a store: read, clean, encode in parallel, write shards; a killed preparation goes on where it was.

Work goes on in `OUT.part`, which becomes OUT when all is done. A second run with the same sources and options takes
over the whole shards of the first, and the finished store is the same, byte for byte, as from one run.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.errors import InputError
from bertworks.folders import flush
from bertworks.text.cleaning import Cleaning, Duplicates
from bertworks.text.documents import Tally, documents, source_files
from bertworks.text.encoding import id_type
from bertworks.text.files import printable
from bertworks.text.growing import SHARDS, Growing, drop_notes, write_note
from bertworks.text.store import FORMAT, MANIFEST, TOKENIZER, Store, manifest
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.working import Done, Task, Work, tasks, worked

SHARD_TOKENS = 1 << 23
PLAN = "plan.json"
TOOLS = ("bertworks", "tokenizers", "rjieba", "ftfy", "py3langid")  # another version may make other tokens


NO_CLEANING = Cleaning()


@dataclass(frozen=True)
class Plan:
    """What decides the store's bytes, but for the text itself."""

    sources: tuple[str, ...]
    tokenizer: Path
    documents: str = "auto"
    column: str = "text"
    cleaning: Cleaning = NO_CLEANING
    segment: bool = True
    shard_tokens: int = SHARD_TOKENS

    def stamp(self, digest: str) -> dict[str, Any]:
        """This plan as JSON, with each source's size and time, to know on a second run whether it is the same."""
        files = [asdict(file) | {"address": printable(file.address)} for file in source_files(self.sources)]
        tools = {name: _version(name) for name in TOOLS}
        sources = [printable(source) for source in self.sources]
        plan = asdict(self) | {
            "sources": sources,
            "tokenizer": digest,
            "files": files,
            "format": FORMAT,
            "tools": tools,
        }
        return json.loads(json.dumps(plan))  # type: ignore[no-any-return]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass
class Progress:
    """How far a preparation is; `tally` counts what was read, mended and dropped."""

    tally: Tally
    read: int = 0
    documents: int = 0
    tokens: int = 0
    resumed: int = 0  # documents that an earlier run had stored


def prepare(plan: Plan, out: Path, *, workers: int = 1, progress: Callable[[Progress], None] | None = None) -> Store:
    """Make the store `out`. With `workers` above 1 documents are encoded in that many processes."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{out} is there already", "name another, or remove it first")
    tokenizer = Tokenizer.load(plan.tokenizer)
    _require_specials(tokenizer, plan.tokenizer)
    part = out.with_name(out.name + ".part")
    with _locked(part):
        try:
            _begin(part, plan, tokenizer)
            if not (part / MANIFEST).exists():  # else an earlier run was stopped at its very end
                growing = Growing(part, plan.shard_tokens, tokenizer.unk_id)
                state = _fill(growing, plan, workers, progress or (lambda _: None))
                _describe(growing, tokenizer, state)
            _seal(part, out)
        except OSError as error:
            raise InputError(
                f"{part} cannot be written: {error.strerror or error}",
                "free space, then run the same command again: it goes on after the last whole shard",
            ) from None
        finally:
            if (part / PLAN).exists() and not _has_shards(part):
                shutil.rmtree(part)  # nothing is lost, and nothing lies about
    return Store(out)


def _require_specials(tokenizer: Tokenizer, folder: Path) -> None:
    for name in ("cls", "sep", "pad", "mask"):
        if getattr(tokenizer, f"{name}_id") is None:
            raise InputError(f"{folder}: the tokenizer has no {name} token", "training a model on it needs one")


@contextmanager
def _locked(part: Path) -> Iterator[None]:
    """The folder to work in, ours alone while we do."""
    part.parent.mkdir(parents=True, exist_ok=True)
    path = part.with_name(f".{part.name}.lock")
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                raise BlockingIOError  # another run ended just now and removed the file that we had opened
        except OSError:
            raise InputError(f"another preparation is writing {part}", "wait for it, or name another --out") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _begin(part: Path, plan: Plan, tokenizer: Tokenizer) -> None:
    """A folder to work in: that of an earlier run of the same plan, or a new one. Nobody's work is thrown away."""
    stamp = plan.stamp(tokenizer.digest)
    if (part / MANIFEST).exists() and not (part / PLAN).exists():
        return  # whole: the earlier run was killed between its last two steps
    if part.exists():
        told = _plan_of(part)
        if told == stamp and "-" not in plan.sources:
            for draft in part.glob(".*"):  # of a file that was being written when the earlier run was killed
                draft.unlink()
            shutil.rmtree(part / TOKENIZER, ignore_errors=True)  # it may have been written by halves
            tokenizer.save(part / TOKENIZER)
            return
        if _has_shards(part):
            changed = [name for name in stamp if told.get(name) != stamp[name]] or ["standard input, read only once"]
            raise InputError(
                f"{part} was begun otherwise ({', '.join(changed)}), and holds whole shards",
                f"run that command again to go on, or remove {part} to begin anew",
            )
        shutil.rmtree(part)
    (part / SHARDS).mkdir(parents=True)
    write_note(part / PLAN, stamp)
    tokenizer.save(part / TOKENIZER)


def _plan_of(part: Path) -> dict[str, Any]:
    """What an earlier run was to do; a folder that holds something else is not ours to touch."""
    try:
        told = json.loads((part / PLAN).read_bytes())
        if isinstance(told, dict):
            return told
    except (OSError, ValueError):
        pass
    if part.is_dir() and not any(path for path in part.iterdir() if path.name not in (SHARDS, TOKENIZER)):
        return {}
    raise InputError(f"{part} is in the way: it is no preparation's", "move it, or name another --out")


def _has_shards(part: Path) -> bool:
    """Whether anything in it is worth keeping; at its very end a preparation has taken its notes away already."""
    return any((part / SHARDS).glob("[!.]*"))


def _fill(growing: Growing, plan: Plan, workers: int, progress: Callable[[Progress], None]) -> Progress:
    """Read, work and write what is not there yet."""
    state = Progress(Tally(), growing.read, growing.documents, growing.tokens, growing.documents)
    stored = growing.read
    stream = documents(plan.sources, plan.documents, plan.column, state.tally)
    first = 0
    if plan.cleaning == NO_CLEANING:  # nothing depends on what was read before: pass it by
        first = sum(1 for _ in islice(stream, stored))
    work = Work(growing.part / TOKENIZER, plan.cleaning, plan.segment)
    duplicates = (
        None if plan.cleaning.duplicates == "keep" else Duplicates(plan.cleaning.duplicates, plan.cleaning.likeness)
    )
    kept = 0
    for task, done in worked(tasks(stream, stored, first), work, workers):
        for note, count in done.notes.items():
            state.tally.add(note, count)
        kept += _add(growing, task, done, duplicates, state.tally)
        state.read = task.first + len(task.documents)
        state.documents, state.tokens = growing.documents, growing.tokens
        progress(state)
    growing.end()
    if not growing.shards:
        dropped = [f"{name} {count:,}" for name, count in sorted(state.tally.counts.items()) if "dropped" in name]
        if dropped:
            raise InputError(
                f"cleaning left nothing of {', '.join(plan.sources)}: {', '.join(dropped)}", "ask for less"
            )
        raise InputError(f"no text was found in {', '.join(plan.sources)}", "look at --documents and --column")
    state.tally.add("documents_without_tokens", first + kept - growing.documents)
    return state


def _add(growing: Growing, task: Task, done: Done, duplicates: Duplicates | None, tally: Tally) -> int:
    """A task's documents, without the duplicates, to the open shard; how many there were."""
    new = np.ones(len(done.kept), np.bool_)
    if duplicates is not None:
        new = ~np.fromiter(map(duplicates.seen, done.prints), np.bool_, len(done.prints))
        tally.add("dropped_duplicate", int((~new).sum()))
    if done.encoded is not None:
        places = [done.kept[at] for at in np.flatnonzero(new)]
        names = [task.documents[at].id for at in places]
        growing.add(names, [task.first + at for at in places], done.encoded.only(new))
    return int(new.sum())


def _describe(growing: Growing, tokenizer: Tokenizer, state: Progress) -> None:
    """The manifest: with it the store is whole."""
    # In the order of their names: which was met first depends on how the work was handed out.
    report = {name: count for name, count in sorted(state.tally.counts.items()) if count}
    write_note(growing.part / MANIFEST, manifest(tokenizer, id_type(tokenizer).name, growing.shards, report))


def _seal(part: Path, out: Path) -> None:
    """Take away what only a run that goes on needs, and give the folder its own name."""
    drop_notes(part)
    (part / PLAN).unlink(missing_ok=True)
    part.rename(out)
    flush(out.parent)
