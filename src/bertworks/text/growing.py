"""A store while it grows: encoded documents come in, whole shards are written, and each is noted when it is safe.

A shard ends with the document that fills it, so where it ends depends on the documents alone, not on how they were
handed out. Beside each shard stands a note with its counts and how many documents had been read by its end: the note
is written last, so a shard with a note is whole, and a killed preparation goes on after the last one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.folders import written
from bertworks.text.encoding import EncodedDocuments
from bertworks.text.store import ShardFacts, ShardParts, file_digest, write_shard

SHARDS = "shards"


class Growing:
    """The shards of a store that is being made in `part`, those of an earlier run among them."""

    def __init__(self, part: Path, shard_tokens: int, unknown: int | None) -> None:
        self.part, self.shard_tokens, self.unknown = part, shard_tokens, unknown
        self.shards, self.read = _finished(part)
        self.documents = sum(one.documents for one in self.shards)
        self.tokens = sum(one.tokens for one in self.shards)
        self._open()

    def _open(self) -> None:
        self._names: list[str] = []
        self._parts: list[EncodedDocuments] = []
        self._size = 0

    def add(self, names: Sequence[str], numbers: Sequence[int], encoded: EncodedDocuments) -> None:
        """Documents in order, with their numbers in the whole reading; shards that become full are written."""
        sentence_ends = np.cumsum(encoded.documents)
        token_ends = np.concatenate([[0], np.cumsum(encoded.sentences)])[sentence_ends]
        first = 0
        while first < len(names):
            before = int(token_ends[first - 1]) if first else 0
            room = before + self.shard_tokens - self._size
            last = min(int(np.searchsorted(token_ends, room)) + 1, len(names))
            self._take(names, encoded, first, last, sentence_ends, token_ends)
            self.read = numbers[last - 1] + 1
            if self._size >= self.shard_tokens:
                self._write()
            first = last

    def _take(
        self,
        names: Sequence[str],
        encoded: EncodedDocuments,
        first: int,
        last: int,
        sentence_ends: NDArray[np.int64],
        token_ends: NDArray[np.int64],
    ) -> None:
        """Documents [first, last) of a batch go to the open shard; those without a token are not stored."""
        s0, t0 = (int(sentence_ends[first - 1]), int(token_ends[first - 1])) if first else (0, 0)
        s1, t1 = int(sentence_ends[last - 1]), int(token_ends[last - 1])
        counts = encoded.documents[first:last]
        self._names += [names[first + int(at)] for at in np.flatnonzero(counts)]
        self._parts.append(
            EncodedDocuments(encoded.ids[t0:t1], encoded.begins[t0:t1], encoded.sentences[s0:s1], counts[counts > 0])
        )
        self._size += t1 - t0
        self.documents += int((counts > 0).sum())
        self.tokens += t1 - t0

    def _write(self) -> None:
        ids = np.concatenate([one.ids for one in self._parts])
        parts = ShardParts(
            self._names,
            ids,
            _edges([one.sentences for one in self._parts]),
            _edges([one.documents for one in self._parts]),
            np.concatenate([one.begins for one in self._parts]),
            0 if self.unknown is None else int((ids == self.unknown).sum()),
        )
        number = len(self.shards)
        facts = write_shard(self.part, f"{SHARDS}/{number:06}.arrow", parts)
        write_note(_note(self.part, number), {"read": self.read, "facts": asdict(facts)})
        self.shards.append(facts)
        self._open()

    def end(self) -> None:
        """Write what is left."""
        if self._names:
            self._write()


def _edges(counts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))])


def _finished(part: Path) -> tuple[list[ShardFacts], int]:
    """The shards that have a note and are whole, in order, and how many documents were read by their end.

    What stands after the first gap is removed.
    """
    found: list[ShardFacts] = []
    read = 0
    while (note := _note(part, len(found))).exists():
        try:
            said = json.loads(note.read_bytes())
            facts, end = ShardFacts(**said["facts"]), int(said["read"])
            if file_digest(part / facts.file) != facts.sha256:
                break
        except (OSError, ValueError, TypeError, KeyError):
            break
        found.append(facts)
        read = end
    kept = {path for number, facts in enumerate(found) for path in (part / facts.file, _note(part, number))}
    for path in (part / SHARDS).iterdir():
        if path not in kept:
            path.unlink()
    return found, read


def drop_notes(part: Path) -> None:
    """Remove the notes: the manifest says it all."""
    for path in (part / SHARDS).glob("*.json"):
        path.unlink()


def _note(part: Path, number: int) -> Path:
    return part / SHARDS / f"{number:06}.json"


def write_note(path: Path, value: Any) -> None:
    """A JSON file under its name whole or not at all."""
    with written(path) as file:
        file.write((json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())
